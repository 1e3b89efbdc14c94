//! Functions for file names and their suffixes. Upper and lower case are not distinguished:
//! `TABLE.CSV` is a CSV file.

use crate::{Entry, Error, Result, Source};
use std::fmt;

/// Suffixes of files that are compressed as a whole. The list includes compression formats that
/// ferry cannot read.
const COMPRESSED: [&str; 22] = [
    ".gz", ".gzip", ".bgz", ".zst", ".zstd", ".bz2", ".bzip2", ".xz", ".lzma", ".lz4", ".lzo", ".br", ".z",
    ".zz", ".zlib", ".deflate", ".snappy", ".sz", ".lz", ".zip", ".7z", ".rar",
];

/// Words between the stem and the suffix that mark a variant of the same model, as in
/// `model.fp16.safetensors`.
const VARIANTS: [&str; 15] = [
    "fp32", "fp16", "bf16", "fp8", "float32", "float16", "bfloat16", "f32", "f16", "half", "int8", "8bit",
    "4bit", "non_ema", "no_ema",
];

/// Returns the stem of the model if this is the stem of a variant: `model` for `model.fp16`.
#[must_use]
pub fn base_of_variant(stem: &str) -> Option<&str> {
    let (base, word) = stem.rsplit_once('.').filter(|(base, _)| !base.is_empty())?;
    VARIANTS.iter().any(|variant| word.eq_ignore_ascii_case(variant)).then_some(base)
}

/// Returns the name without a suffix. The case of the suffix is ignored.
#[must_use]
pub fn strip_suffix<'n>(name: &'n str, suffix: &str) -> Option<&'n str> {
    let (stem, end) = name.split_at_checked(name.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(stem)
}

/// Returns whether a name ends with a suffix. Case is ignored.
#[must_use]
pub fn has_suffix(name: &str, suffix: &str) -> bool {
    strip_suffix(name, suffix).is_some()
}

/// Returns whether a name ends with one of these suffixes. Case is ignored.
#[must_use]
pub fn has_any_suffix<S: AsRef<str>>(name: &str, suffixes: impl IntoIterator<Item = S>) -> bool {
    suffixes.into_iter().any(|suffix| has_suffix(name, suffix.as_ref()))
}

/// Splits a name before its suffix, which is the longest match in `suffixes`. The returned suffix
/// keeps its case.
#[must_use]
pub fn split_suffix<S: AsRef<str>>(
    name: &str,
    suffixes: impl IntoIterator<Item = S>,
) -> Option<(&str, &str)> {
    let stems = suffixes.into_iter().filter_map(|suffix| strip_suffix(name, suffix.as_ref()));
    stems.map(str::len).min().map(|at| name.split_at(at))
}

/// Returns the name without its compression suffix.
#[must_use]
pub fn uncompressed(name: &str) -> &str {
    COMPRESSED.iter().find_map(|suffix| strip_suffix(name, suffix)).unwrap_or(name)
}

/// Returns whether the last part of a path begins with a dot or an underscore. Hidden files, such
/// as `.part-0.parquet.crc` and `_SUCCESS`, are not part of a folder's data.
#[must_use]
pub fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).starts_with(['.', '_'])
}

/// Returns whether a file in a folder is not hidden and ends with one of these suffixes. Case is
/// ignored.
#[must_use]
pub fn is_member<S: AsRef<str>>(path: &str, suffixes: impl IntoIterator<Item = S>) -> bool {
    !is_hidden(path) && has_any_suffix(path, suffixes)
}

/// Returns the files of a source's entry. The result is the named file, or the files of a folder or
/// prefix for which `is_member` returns true.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn entry_files(source: &dyn Source, is_member: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    match source.entry() {
        Entry::File(name) => Ok(vec![name.clone()]),
        entry => Ok(source.list(entry.name())?.into_iter().filter(|name| is_member(name)).collect()),
    }
}

/// Returns `files`, or an error if the list is empty.
///
/// # Errors
/// Returns a malformed-data error with the message `missing` if the list is empty.
pub fn require<T>(files: Vec<T>, missing: &str, expected: impl fmt::Display) -> Result<Vec<T>> {
    if files.is_empty() { Err(Error::malformed(missing).expected(expected)) } else { Ok(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_match_in_any_case() {
        assert!(is_member("sub/B.JSONL", [".jsonl"]) && !is_member("sub/._b.jsonl", [".jsonl"]));
        assert_eq!(strip_suffix("é.CSV", ".csv"), Some("é"));
        // A suffix must not split a multi-byte character.
        assert_eq!(
            (strip_suffix("é", "é"), strip_suffix("aé", "xx"), strip_suffix("a", ".csv")),
            (Some(""), None, None)
        );
        assert_eq!(split_suffix("A.TAR.GZ", [".gz", ".tar.gz"]), Some(("A", ".TAR.GZ")));
        assert_eq!(split_suffix("a.zip", [".gz"]), None);
        assert_eq!(base_of_variant("model.fp16"), Some("model"));
        assert_eq!((base_of_variant("model.ema"), base_of_variant(".fp16")), (None, None));
        for (name, inner) in [("a.jsonl.BZ2", "a.jsonl"), ("a.jsonl", "a.jsonl"), ("a.csv.lz4", "a.csv")] {
            assert_eq!(uncompressed(name), inner);
        }
    }
}
