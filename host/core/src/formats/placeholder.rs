//! Explains why a file cannot be read if it does not contain the expected data. For example, the
//! file is empty, a Git LFS pointer, a downloaded web page, an unfinished download, or an archive.

use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Entry, Error, ErrorKind, Source};

/// The first bytes of a Git LFS pointer. According to `docs/spec.md` of git-lfs, a pointer has at
/// most 1,024 bytes.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// First bytes of web pages, in lowercase. Object stores report errors in XML.
const PAGES: [&[u8]; 3] = [b"<!doctype html", b"<html", b"<?xml"];
/// Suffixes that programs add while they download or copy a file. The programs are huggingface_hub,
/// curl and wget wrappers, Chrome, Firefox, Safari and Opera, aria2, WinSCP, Hadoop, Flink.
pub(crate) const PARTIAL: [&str; 10] = [
    ".incomplete",
    ".part",
    ".partial",
    ".crdownload",
    ".download",
    ".opdownload",
    ".aria2",
    ".filepart",
    "._copying_",
    ".inprogress",
];
/// Containers that may contain the expected data, each with the offset of its magic bytes, the
/// magic bytes, and a message.
const WRAPPED: [(usize, &[u8], &str); 12] = [
    (0, b"\x1f\x8b", "the file is compressed with gzip: decompress it first"),
    (0, b"\x28\xb5\x2f\xfd", "the file is compressed with zstd: decompress it first"),
    (0, b"\xfd7zXZ\0", "the file is compressed with xz: decompress it first"),
    (0, b"BZh", "the file is compressed with bzip2: decompress it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "the file is a 7z archive: unpack it first"),
    (0, b"PK\x03\x04", "the file is a zip archive, but not in a supported format: unpack it first"),
    (257, b"ustar", "the file is a tar archive, but not in a supported format: unpack it first"),
    (0, b"[", "the file is a JSON array, not JSON Lines: convert it with `jq -c '.[]'`"),
    (0, b"\x80\x02", PICKLE),
    (0, b"\x80\x03", PICKLE),
    (0, b"\x80\x04", PICKLE),
    (0, b"\x80\x05", PICKLE),
];
const PICKLE: &str = "the file is a pickle that torch.save did not write, and ferry never runs pickles";
/// Number of bytes that are examined at the start of a file.
const EXAMINED_BYTES: u64 = 512;

/// Returns a clearer error for a source that could not be read, if the first bytes of its file show
/// the cause.
pub fn explain(source: &dyn Source, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) {
        return error;
    }
    if let Some((name, start)) = examined_file(source, &error)
        && let Some(what) = start.placeholder(&name)
    {
        return Error::malformed(what).file(name).found(error.message());
    }
    match unfinished_download(source) {
        Some(name) => error.context(format!("{name:?} is still being downloaded")),
        None => error,
    }
}

/// Explains an error for a source in an unknown format, as [`explain`] does. The data may be inside
/// a container.
pub(crate) fn explain_unknown(source: &dyn Source, error: Error) -> Error {
    let Some((name, start)) = examined_file(source, &error) else { return explain(source, error) };
    if start.is_manifest(&name) {
        let hint = format!("run `ferry run {name}`");
        return Error::usage("the file is a manifest, not a checkpoint or dataset").file(name).hint(hint);
    }
    match start.wrapper() {
        Some(what) => Error::unsupported(what).file(name).found(error.message()),
        None => explain(source, error),
    }
}

/// Returns a file and its first bytes. The file is the one that the error names, or otherwise the
/// source's file.
fn examined_file(source: &dyn Source, error: &Error) -> Option<(String, FileStart)> {
    let named = error.details().find(|(key, _)| *key == "file").map(|(_, name)| name);
    let entry = match source.entry() {
        Entry::File(name) => Some(name.clone()),
        Entry::Folder | Entry::Prefix(_) => None,
    };
    let name = named.filter(|name| source.contains(name).unwrap_or_default()).or(entry)?;
    let start = FileStart::of(source, &name)?;
    Some((name, start))
}

/// The first bytes of a file that is examined.
struct FileStart {
    len: u64,
    bytes: Vec<u8>,
}

impl FileStart {
    fn of(source: &dyn Source, name: &str) -> Option<Self> {
        let file = source.open(name).ok()?;
        let len = source.len(file);
        let mut bytes = vec![0; usize::try_from(len.min(EXAMINED_BYTES)).ok()?];
        source.read_at(file, 0, &mut bytes).ok()?;
        Some(Self { len, bytes })
    }

    /// Describes what the file contains instead of data.
    fn placeholder(&self, name: &str) -> Option<&'static str> {
        let bytes = &*self.bytes;
        let text =
            bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start().to_ascii_lowercase();
        if self.len == 0 {
            Some("the file is empty")
        } else if bytes.starts_with(LFS) {
            Some("the file is a Git LFS pointer: run `git lfs pull` to fetch it")
        } else if PAGES.iter().any(|page| text.starts_with(page)) {
            Some("the file is a web page: probably a login or error page that was downloaded instead")
        } else if has_any_suffix(name, PARTIAL) {
            Some("the file is still being downloaded, according to its name")
        } else {
            None
        }
    }

    /// Returns whether the file is a manifest of `ferry run`.
    fn is_manifest(&self, name: &str) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        let is_table =
            |line: &str| ["[[job]]", "[[zoo]]", "[[dataset]]", "[defaults]"].contains(&line.trim());
        has_any_suffix(name, [".toml"]) && text.lines().any(is_table)
    }

    /// Describes the container that the data may be in.
    fn wrapper(&self) -> Option<&'static str> {
        let has = |at: usize, magic: &[u8]| self.bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
        WRAPPED.iter().find(|(at, magic, _)| has(*at, magic)).map(|(.., what)| *what)
    }
}

/// Returns an unfinished download among the files of a folder or prefix.
fn unfinished_download(source: &dyn Source) -> Option<String> {
    let names = match source.entry() {
        Entry::File(_) => return None,
        Entry::Folder => source.list("").ok()?,
        Entry::Prefix(prefix) => source.list(prefix).ok()?,
    };
    names.into_iter().find(|name| has_any_suffix(name, PARTIAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tensorferry_sdk::MemorySource;

    fn explained(entry: Entry, files: &[(&str, &[u8])], error: Error) -> String {
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        explain(&MemorySource::new(entry, files), error).to_string()
    }

    #[test]
    fn what_lies_there_is_named() {
        for (name, bytes, declared) in [
            ("m.pt", &b""[..], "empty"),
            ("m.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
            ("m.pt", b"\xef\xbb\xbf \n<!DOCTYPE HTML><title>Sign in", "web page"),
            ("m.pt", b"<?xml version='1.0'?><Error><Code>AccessDenied", "web page"),
            ("m.pt.incomplete", b"PK\x03\x04", "still being downloaded"),
        ] {
            let error = Error::malformed("too short");
            let text = explained(Entry::File(name.to_owned()), &[(name, bytes)], error);
            assert!(text.contains(declared) && text.contains(name) && text.contains("too short"), "{text}");
        }
        let text = explained(Entry::File("m.pt".to_owned()), &[("m.pt", b"PK")], Error::malformed("short"));
        assert_eq!(text, Error::malformed("short").to_string());
    }

    #[test]
    fn what_a_file_is_in_is_said_where_no_format_knows_it() {
        for (bytes, declared) in
            [(&b"\x1f\x8b\x08"[..], "gzip: decompress it"), (b"\x80\x04\x95", "a pickle that")]
        {
            let files = [("m.bin".to_owned(), bytes.to_vec())].into();
            let source = MemorySource::new(Entry::File("m.bin".to_owned()), files);
            let unknown = || Error::unsupported("no plugin recognizes this file");
            let text = explain_unknown(&source, unknown()).to_string();
            assert!(text.contains("unsupported: the file is") && text.contains(declared), "{text}");
            // If a reader recognizes the file, the reader's own error is kept.
            assert_eq!(explain(&source, unknown()).to_string(), unknown().to_string());
        }
    }

    #[test]
    fn of_several_files_the_one_that_is_named_or_coming() {
        let files: [(&str, &[u8]); 2] = [("a-1.bin", b""), ("a-2.bin.part", b"x")];
        let text = explained(Entry::Folder, &files, Error::malformed("short").file("a-1.bin"));
        assert!(text.contains("is empty"), "{text}");
        let text = explained(Entry::Prefix("a".to_owned()), &files, Error::malformed("a shard is missing"));
        assert!(text.contains("a-2.bin.part") && text.contains("a shard is missing"), "{text}");
        let text = explained(Entry::Folder, &files, Error::usage("say which"));
        assert_eq!(text, Error::usage("say which").to_string());
    }
}
