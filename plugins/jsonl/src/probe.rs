//! Detection of JSON lines. A file is detected by its first lines, and a folder by the file names
//! in it.

use crate::read::is_member;
use crate::{LOOSE_SUFFIX, SUFFIXES};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use tensorferry_sdk::file_name::{has_any_suffix, has_suffix};
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Number of bytes at the beginning of a file that are examined.
const LOOKED_AT: u64 = 64 << 10;

pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::File(name) => of_file(source, name),
        _ => Score::by_names(source, is_member, Score::LIKELY),
    }
}

fn of_file(source: &dyn Source, name: &str) -> Result<Score> {
    let text = tensorferry_row_text::beginning(source, name, LOOKED_AT)?;
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_object =
        first.starts_with(b"{") && serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(first).is_ok();
    let is_cut = text.len() as u64 == LOOKED_AT && !text.contains(&b'\n') && first.starts_with(b"{\"");
    let stem = tensorferry_row_text::uncompressed_name(name);
    let named = has_any_suffix(stem, SUFFIXES);
    Ok(match (is_object, named) {
        (true, true) => Score::CERTAIN,
        // A file with a single line may also be a minified document such as `config.json`.
        (true, false) => match lines.next() {
            None => Score::NO,
            Some(_) if has_suffix(stem, LOOSE_SUFFIX) => Score::LIKELY,
            // A binary file, such as an Equinox file, may also start with a line of JSON.
            Some(second) if second.starts_with(b"{") => Score(20),
            Some(_) => Score::NO,
        },
        (false, true) if is_cut => Score::LIKELY,
        // The file may be empty, and therefore be a table without rows.
        (false, true) => Score::MAYBE,
        (false, false) => Score::NO,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    fn of_file(name: &str, bytes: &[u8]) -> Score {
        score(&MemorySource::file(name, bytes)).unwrap()
    }

    #[test]
    fn the_first_line_decides() {
        assert_eq!(of_file("a.jsonl", b"\n {\"a\": 1}\r\n"), Score::CERTAIN);
        assert_eq!(of_file("A.JSONL", b"{\"a\": 1}\n"), Score::CERTAIN);
        assert_eq!(of_file("a.jsonl", b""), Score::MAYBE);
        assert_eq!(of_file("a.jsonl", b"[1]\n"), Score::MAYBE);
        assert_eq!(of_file("a.json", b"{\"a\":1}\n{\"a\":2}"), Score::LIKELY);
        assert_eq!(of_file("config.json", b"{\"a\":1}\n"), Score::NO);
        assert_eq!(of_file("log", b"{\"a\":1}\n"), Score::NO);
        assert!(of_file("log", b"{\"a\":1}\n{\"a\":2}\n") > Score::NO);
        assert_eq!(of_file("model.eqx", b"{\"a\":1}\n\x93NUMPY\x01\0v\0{'descr': '<f4'}\n"), Score::NO);
        assert_eq!(of_file("config.json", b"{\n  \"a\": 1\n}\n"), Score::NO);
        assert_eq!(of_file("a.bin", b"{\"a\":"), Score::NO);
        let long = format!("{{\"a\": \"{}", "x".repeat(100_000));
        assert_eq!(of_file("a.jsonl", long.as_bytes()), Score::LIKELY);
    }
}
