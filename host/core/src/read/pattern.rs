//! Patterns for the files of a dataset: globs, and braces that expand as in a shell or `webdataset`
//! (`data-{00000..00063}.tar`, `{train,extra}-*.tar`).
//!
//! A glob matches any number of existing files. In contrast, every name that results from braces
//! must exist, so that a missing file is detected.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashSet;
use tensorferry_sdk::{Error, Result};

/// Characters that turn a string into a glob.
const GLOB_SIGNS: [char; 3] = ['*', '?', '['];

/// One or more patterns, after the expansion of braces.
#[derive(Debug)]
pub(super) struct FilePattern {
    globs: GlobSet,
    /// Names without glob characters, in their original order.
    names: Vec<String>,
}

impl FilePattern {
    /// Returns whether a string is a pattern.
    pub(super) fn is_pattern(text: &str) -> bool {
        text.contains(GLOB_SIGNS) || first_braces(text).is_some()
    }

    pub(super) fn parse(text: &str, max: u64) -> Result<Self> {
        let (mut globs, mut names) = (GlobSetBuilder::new(), Vec::new());
        for text in expand(text, max)? {
            if !text.contains(GLOB_SIGNS) {
                names.push(text);
                continue;
            }
            let glob = GlobBuilder::new(&text).literal_separator(true).build();
            globs.add(
                glob.map_err(|error| Error::usage(error.kind().to_string()).found(format!("{text:?}")))?,
            );
        }
        let globs =
            globs.build().map_err(|error| Error::usage(error.to_string()).found(format!("{text:?}")))?;
        Ok(Self { globs, names })
    }

    /// Returns whether the pattern may match files in sub-folders.
    pub(super) fn has_folders(text: &str) -> bool {
        text.contains('/') || text.contains("**")
    }

    /// Returns whether a name matches one of the patterns.
    pub(super) fn is_match(&self, name: &str) -> bool {
        self.globs.is_match(name) || self.names.iter().any(|known| known == name)
    }

    /// Returns the matching names in sorted order. The result may be empty if no glob matches a
    /// name.
    pub(super) fn matching(&self, mut there: Vec<String>) -> Result<Vec<String>> {
        let known: HashSet<&str> = there.iter().map(String::as_str).collect();
        if let Some(missing) = self.names.iter().find(|name| !known.contains(name.as_str())) {
            let found = self.names.iter().filter(|name| known.contains(name.as_str())).count();
            return Err(Error::usage("a file named by the braces is missing")
                .file(missing)
                .expected(format!("{} files", self.names.len()))
                .found(found.to_string()));
        }
        let named: HashSet<&str> = self.names.iter().map(String::as_str).collect();
        there.retain(|name| named.contains(name.as_str()) || self.globs.is_match(name));
        there.sort();
        Ok(there)
    }
}

/// Expands the braces in a pattern.
fn expand(text: &str, max: u64) -> Result<Vec<String>> {
    let (mut done, mut open) = (Vec::new(), vec![text.to_owned()]);
    while let Some(text) = open.pop() {
        match first_braces(&text) {
            None => done.push(text),
            Some((start, end, choices)) => {
                let (before, after) = (&text[..start], &text[end..]);
                let count = choices.len() + (done.len() + open.len()) as u64;
                if count > max {
                    return Err(Error::limit("the braces expand to too many names")
                        .found(count.to_string())
                        .hint("raise the limit with --limit entries=N")
                        .expected(format!("at most {max}")));
                }
                open.extend(choices.rev().map(|choice| format!("{before}{choice}{after}")));
            }
        }
    }
    Ok(done)
}

/// Returns the byte range and the contents of the first braces that can be expanded.
fn first_braces(text: &str) -> Option<(usize, usize, Choices<'_>)> {
    let mut starts = text.match_indices('{');
    starts.find_map(|(start, _)| {
        let len = text[start..].find('}')?;
        let choices = Choices::of(&text[start + 1..start + len])?;
        Some((start, start + len + 1, choices))
    })
}

/// The alternatives in a pair of braces.
enum Choices<'t> {
    /// A list of words: `a,b,c`.
    Words(Vec<&'t str>),
    /// A range of numbers that includes both ends: `008..010`. If one number begins with a zero,
    /// all numbers are padded to the length of the longer one.
    Numbers { first: u64, last: u64, width: usize },
}

impl<'t> Choices<'t> {
    fn of(text: &'t str) -> Option<Self> {
        if let Some((first, last)) = text.split_once("..") {
            let number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?;
            let padded = [first, last].into_iter().any(|text| text.len() > 1 && text.starts_with('0'));
            let width = if padded { first.len().max(last.len()) } else { 0 };
            let (first, last) = (number(first)?, number(last)?);
            return (first <= last).then_some(Self::Numbers { first, last, width });
        }
        text.contains(',').then(|| Self::Words(text.split(',').collect()))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Words(words) => words.len() as u64,
            Self::Numbers { first, last, .. } => (last - first).saturating_add(1),
        }
    }

    /// Returns the alternatives in reverse order.
    fn rev(self) -> Box<dyn Iterator<Item = String> + 't> {
        match self {
            Self::Words(words) => Box::new(words.into_iter().rev().map(str::to_owned)),
            Self::Numbers { first, last, width } => {
                Box::new((first..=last).rev().map(move |number| format!("{number:0width$}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn matching(pattern: &str, there: &[&str]) -> Result<Vec<String>> {
        assert!(FilePattern::is_pattern(pattern), "{pattern}");
        FilePattern::parse(pattern, 1 << 20)?.matching(there.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn braces_are_what_a_shell_makes_of_them() {
        let expanded = |text| expand(text, 100).unwrap();
        assert_eq!(expanded("x-{008..010}.tar"), ["x-008.tar", "x-009.tar", "x-010.tar"]);
        assert_eq!(expanded("{8..10}"), ["8", "9", "10"]);
        assert_eq!(expanded("{a,b}-{0..1}"), ["a-0", "a-1", "b-0", "b-1"]);
        assert_eq!(expanded("{a,}x"), ["ax", "x"]);
        for plain in ["x", "{}", "{x}", "{1..}", "{2..1}", "{a..b}", "{", "}{", "{-1..2}"] {
            assert_eq!(expanded(plain), [plain]);
            assert!(!FilePattern::is_pattern(plain));
        }
    }

    #[test]
    fn a_name_that_is_spelt_out_has_to_be_there() {
        let there = ["a-0.tar", "a-1.tar", "a-3.tar", "b.tar"];
        assert_eq!(matching("a-{0..1}.tar", &there).unwrap(), ["a-0.tar", "a-1.tar"]);
        assert_eq!(matching("{a-*,b}.tar", &there).unwrap(), there);
        assert!(matching("c-*.tar", &there).unwrap().is_empty());
        let error = matching("a-{0..3}.tar", &there).unwrap_err();
        assert!(error.to_string().contains("a-2.tar"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    #[test]
    fn braces_for_too_many_names_are_refused_before_they_are_made() {
        for hostile in ["{0..18446744073709551615}", "{0..99999}{0..99999}{0..99999}"] {
            assert_eq!(matching(hostile, &[]).unwrap_err().kind(), ErrorKind::Limit);
        }
    }
}
