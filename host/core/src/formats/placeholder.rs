//! What lies in the place of a file that nobody can read: a pointer to it, a web page that a download gave
//! instead, nothing at all, or the part of it that has come so far.

use tensorferry_sdk::{Entry, Error, ErrorKind, Source};

/// What a Git LFS pointer begins with (`docs/spec.md` of git-lfs: at most 1,024 bytes long).
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// What web pages begin with, in small letters; stores tell of errors in XML.
const PAGES: [&[u8]; 3] = [b"<!doctype html", b"<html", b"<?xml"];
/// What programs add to the name of a file while it is downloaded: huggingface_hub, curl and wget's wrappers,
/// Chrome, Firefox and Safari, aria2.
const PARTIAL: [&str; 5] = [".incomplete", ".part", ".crdownload", ".download", ".aria2"];
/// Bytes that are looked at.
const LOOKED_AT: u64 = 256;

/// The error of whoever could not read a source, or what is the matter with its file, where that shows.
pub(crate) fn explain(source: &dyn Source, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) {
        return error;
    }
    let named = error.details().find(|(key, _)| *key == "file").map(|(_, name)| name);
    let entry = match source.entry() {
        Entry::File(name) => Some(name.clone()),
        Entry::Folder | Entry::Prefix(_) => None,
    };
    let file = named.filter(|name| source.contains(name).unwrap_or_default()).or(entry);
    match file.as_ref().and_then(|name| Some((name, of_file(source, name)?))) {
        Some((name, what)) => Error::malformed(what).file(name).found(error.message()),
        None => match coming(source) {
            Some(name) => error.context(format!("{name:?} is still being downloaded")),
            None => error,
        },
    }
}

/// What a file is instead of data.
fn of_file(source: &dyn Source, name: &str) -> Option<&'static str> {
    let file = source.open(name).ok()?;
    let len = source.len(file);
    let mut bytes = vec![0; usize::try_from(len.min(LOOKED_AT)).ok()?];
    source.read_at(file, 0, &mut bytes).ok()?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii_start().to_ascii_lowercase();
    if len == 0 {
        Some("the file is empty")
    } else if bytes.starts_with(LFS) {
        Some("a Git LFS pointer lies in the place of the file: `git lfs pull` fetches it")
    } else if PAGES.iter().any(|page| text.starts_with(page)) {
        Some("a web page lies in the place of the file: a login or an error that was saved as a download")
    } else if PARTIAL.iter().any(|suffix| name.ends_with(suffix)) {
        Some("the file is still being downloaded, by its name")
    } else {
        None
    }
}

/// A file that has not come whole, among those that a folder or a prefix has.
fn coming(source: &dyn Source) -> Option<String> {
    let names = match source.entry() {
        Entry::File(_) => return None,
        Entry::Folder => source.list("").ok()?,
        Entry::Prefix(prefix) => source.list(prefix).ok()?,
    };
    names.into_iter().find(|name| PARTIAL.iter().any(|suffix| name.ends_with(suffix)))
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
        for (name, bytes, said) in [
            ("m.pt", &b""[..], "empty"),
            ("m.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
            ("m.pt", b"\xef\xbb\xbf \n<!DOCTYPE HTML><title>Sign in", "web page"),
            ("m.pt", b"<?xml version='1.0'?><Error><Code>AccessDenied", "web page"),
            ("m.pt.incomplete", b"PK\x03\x04", "still being downloaded"),
        ] {
            let error = Error::malformed("too short");
            let text = explained(Entry::File(name.to_owned()), &[(name, bytes)], error);
            assert!(text.contains(said) && text.contains(name) && text.contains("too short"), "{text}");
        }
        let text = explained(Entry::File("m.pt".to_owned()), &[("m.pt", b"PK")], Error::malformed("short"));
        assert_eq!(text, Error::malformed("short").to_string());
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
