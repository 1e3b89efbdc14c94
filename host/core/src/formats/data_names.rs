//! File names that formats declare, compiled into patterns once per registry.

use crate::formats::placeholder::PARTIAL;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashMap;
use tensorferry_sdk::file_name::{strip_suffix, uncompressed};
use tensorferry_sdk::{Description, Error, Result};

/// Suffixes that programs add to a file's name while they write the file.
pub(crate) const TEMPORARY: [&str; 2] = [".tmp", ".temp"];

/// The file names that the formats of a registry declare.
#[derive(Debug)]
pub struct DataNames {
    /// Format IDs by file name suffix. The suffixes are in lowercase.
    suffixes: HashMap<String, String>,
    patterns: GlobSet,
    /// The format ID of each pattern, in the order of the patterns.
    of_patterns: Vec<String>,
    /// Format IDs by declared file names that contain no wildcard: `latest`, `saved_model.pb`.
    exact: HashMap<String, String>,
}

impl DataNames {
    pub(super) fn of<'d>(formats: impl IntoIterator<Item = &'d Description>) -> Result<Self> {
        let (mut suffixes, mut exact) = (HashMap::new(), HashMap::new());
        let (mut patterns, mut of_patterns) = (Vec::new(), Vec::new());
        for Description { id, suffixes: endings, members, .. } in formats {
            for suffix in endings {
                suffixes.entry(suffix.to_ascii_lowercase()).or_insert_with(|| id.clone());
            }
            for member in members {
                let is_plain = |text: &str| !text.contains(['*', '?', '[', '{']);
                let suffix = member.strip_prefix('*').filter(|rest| rest.starts_with('.') && is_plain(rest));
                if let Some(suffix) = suffix {
                    suffixes.entry(suffix.to_ascii_lowercase()).or_insert_with(|| id.clone());
                } else if is_plain(member) {
                    exact.entry(member.clone()).or_insert_with(|| id.clone());
                } else {
                    patterns.push(member.as_str());
                    of_patterns.push(id.clone());
                }
            }
        }
        Ok(Self { suffixes, patterns: globs(&patterns, true)?, of_patterns, exact })
    }

    /// Returns the format that declares files of this name. Also tries the name without the suffix
    /// of a compressed or unfinished file, and without the number of a rotated log.
    pub fn format_of(&self, file: &str) -> Option<&str> {
        self.declared(file).or_else(|| bare_names(file).find_map(|name| self.declared(name)))
    }

    fn declared(&self, file: &str) -> Option<&str> {
        let lower = file.to_ascii_lowercase();
        let mut endings = lower.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &lower[at..]);
        let by_suffix = endings.find_map(|ending| self.suffixes.get(ending));
        let by_pattern = || Some(&self.of_patterns[*self.patterns.matches(file).first()?]);
        by_suffix.or_else(by_pattern).map(String::as_str)
    }

    /// Returns whether some format reads a file of this name, either on its own or as part of a
    /// folder.
    pub fn is_read(&self, file: &str) -> bool {
        self.format_of(file).is_some() || self.exact.contains_key(file)
    }

    /// Returns the file name without its suffix, if some format declares the suffix.
    pub fn stem<'n>(&self, file: &'n str) -> Option<&'n str> {
        let lower = file.to_ascii_lowercase();
        let mut dots = lower.match_indices('.').filter(|(at, _)| *at > 0);
        dots.find_map(|(at, _)| self.suffixes.contains_key(&lower[at..]).then(|| &file[..at]))
    }
}

/// Returns whether a file's name shows that a program has not finished writing it: `a.tmp`,
/// `a.tmp1234`, and rsync's `.a.jsonl.x7Ge2K`.
pub(crate) fn is_temporary(file: &str) -> bool {
    without_temporary(file).is_some()
}

fn without_temporary(file: &str) -> Option<&str> {
    let (name, end) = file.rsplit_once('.')?;
    let digits = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_tmp = TEMPORARY.iter().any(|suffix| {
        end.get(..suffix.len() - 1).is_some_and(|start| start.eq_ignore_ascii_case(&suffix[1..]))
            && digits(&end[suffix.len() - 1..])
    });
    let is_random = end.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let is_of_rsync = is_random && end.len() == 6 && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let hidden = || name.strip_prefix('.').filter(|name| is_of_rsync && name.contains('.'));
    if is_tmp { Some(name) } else { hidden() }
}

/// Returns the names that remain after the suffix of an unfinished file, a compressed file, a
/// rotated log, or an archive volume is removed.
pub(crate) fn bare_names(file: &str) -> impl Iterator<Item = &str> {
    let partial = PARTIAL.iter().find_map(|suffix| strip_suffix(file, suffix));
    let finished = partial.or_else(|| without_temporary(file)).unwrap_or(file);
    let bare = uncompressed(finished);
    let is_number =
        |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()) || is_volume(end);
    // logrotate appends a hyphen and a date.
    let dated = bare.rsplit_once('-').filter(|(_, date)| date.len() == 8 && is_number(date));
    let rotated = bare.rsplit_once('.').filter(|(_, end)| is_number(end)).or(dated);
    let rotated = rotated.map(|(name, _)| name);
    [Some(finished), Some(bare), rotated, rotated.map(uncompressed)].into_iter().flatten()
}

/// Returns whether a suffix is one of the first 26 that `split` appends to file names: `aa` to
/// `az`.
fn is_volume(end: &str) -> bool {
    matches!(end.as_bytes(), [b'a', b'a'..=b'z'])
}

/// Compiles name patterns into one set.
pub fn globs(patterns: &[&str], case_insensitive: bool) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // An invalid pattern from a plugin becomes a glob that matches nothing, so that the indices
        // of the other patterns do not change.
        let glob =
            GlobBuilder::new(pattern).case_insensitive(case_insensitive).literal_separator(true).build();
        let never = || GlobBuilder::new("/").build();
        set.add(glob.or_else(|_| never()).map_err(|error| Error::plugin(error.to_string()))?);
    }
    set.build().map_err(|error| Error::plugin(format!("cannot compile the formats' name patterns: {error}")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_name_says_which_format_reads_a_file() {
        let description =
            Description::new("lines", "").suffixes([".jsonl"]).members(["*-?????-of-?????", "latest"]);
        let names = DataNames::of([&description]).unwrap();
        for name in [
            "a.jsonl",
            "A.JSONL",
            "a.jsonl.bz2",
            "a.jsonl.XZ",
            "a.JSONL.lz4",
            "a.jsonl.part",
            "a.jsonl.tmp",
            "a.jsonl.1",
            "a.jsonl.2.gz",
            "a.jsonl.gz.3",
            "a.jsonl-20240101",
            "a.jsonl.partial",
            "a.jsonl._COPYING_",
            "a.jsonl.tmp1234",
            ".a.jsonl.x7Ge2K",
            "a.jsonl.zip.001",
            "a.jsonl.aa",
            "d-00000-of-00002",
        ] {
            assert_eq!(names.format_of(name), Some("lines"), "{name}");
        }
        for name in ["a.json", "README.md", "a.bz2", ".jsonl", "", "latest", "a.1", "a.jsonl.bak", "a.jsonl."]
        {
            assert_eq!(names.format_of(name), None, "{name}");
        }
        assert!(names.is_read("latest") && names.is_read("a.jsonl.gz") && !names.is_read("README.md"));
        assert_eq!(names.stem("x.y.jsonl"), Some("x.y"));
    }
}
