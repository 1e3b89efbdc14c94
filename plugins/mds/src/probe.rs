//! Detection of MDS datasets, by the beginning of `index.json`.

use crate::INDEX;
use crate::index::Index;
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Maximum number of bytes that detection reads from an index. They suffice for the entry of the
/// first shard.
const LOOKED_AT: u64 = 256 << 10;
/// Shard formats that an index may specify. The reader supports only the first format. For any
/// other format, the reader's error contains the name of the format.
const FORMATS: [&str; 5] = ["mds", "json", "csv", "tsv", "xsv"];

/// Scores a source that may be an MDS dataset or one of its shards.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let index = match source.entry() {
        Entry::File(name) if is_index(name) => name.clone(),
        Entry::File(name) if is_shard(name) => Index::sibling_name(name),
        Entry::Folder => INDEX.to_owned(),
        Entry::File(_) | Entry::Prefix(_) => return Ok(Score::NO),
    };
    if !source.contains(&index)? {
        return Ok(Score::NO);
    }
    let bytes = source.beginning(source.open(&index)?, LOOKED_AT)?;
    let text: String =
        String::from_utf8_lossy(&bytes).chars().filter(|sign| !sign.is_ascii_whitespace()).collect();
    let is_one = text.contains("\"shards\":[")
        && FORMATS.iter().any(|format| text.contains(&format!("\"format\":\"{format}\"")));
    let is_empty = text.starts_with('{') && text.contains("\"shards\":[]") && text.contains("\"version\":2");
    Ok(if is_one {
        Score(95)
    } else if is_empty {
        Score::LIKELY
    } else {
        Score::NO
    })
}

/// Returns whether a file has the name of an index.
pub(crate) fn is_index(name: &str) -> bool {
    name.rsplit('/').next() == Some(INDEX)
}

fn is_shard(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    let base = base.to_ascii_lowercase();
    base.ends_with(".mds") || base.contains(".mds.")
}
