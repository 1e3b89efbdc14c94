//! Implements `--only`, which selects jobs by name.

use globset::{Glob, GlobSet, GlobSetBuilder};
use tensorferry::suggest;
use tensorferry_sdk::{Error, Result};

/// Maximum number of job names that are searched for suggestions.
const MAX_KNOWN: usize = 10_000;
/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 10;

#[derive(Debug)]
pub struct Only {
    patterns: Vec<String>,
    /// Two globs for each pattern: the pattern itself, and an escaped version. The escaped version
    /// matches a job whose name is identical to the pattern.
    globs: GlobSet,
}

/// Records which patterns have matched at least one job so far.
pub(crate) struct OnlyCheck<'o> {
    only: Option<&'o Only>,
    is_matched: Vec<bool>,
    known: Vec<String>,
    matching: Vec<usize>,
}

impl Only {
    /// Parses patterns. Returns `None` if there are none.
    pub fn parse(patterns: &[String]) -> Result<Option<Self>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            globs.add(Glob::new(pattern).map_err(|e| Error::usage(format!("--only {pattern}: {e}")))?);
            globs.add(Glob::new(&globset::escape(pattern)).map_err(|e| Error::usage(e.to_string()))?);
        }
        let globs = globs.build().map_err(|e| Error::usage(format!("--only: {e}")))?;
        Ok(Some(Self { patterns: patterns.to_vec(), globs }))
    }

    pub(super) fn is_match(&self, name: &str) -> bool {
        self.globs.is_match(name)
    }

    /// Checks that each pattern matches at least one of the names. The error suggests similar
    /// names.
    pub fn check<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<()> {
        let mut check = OnlyCheck::of(Some(self));
        names.into_iter().for_each(|name| check.see(name));
        check.finish()
    }
}

impl<'o> OnlyCheck<'o> {
    pub(crate) fn of(only: Option<&'o Only>) -> Self {
        let patterns = only.map_or(0, |only| only.patterns.len());
        Self { only, is_matched: vec![false; patterns], known: Vec::new(), matching: Vec::new() }
    }

    pub(crate) fn see(&mut self, name: &str) {
        let Some(only) = self.only else { return };
        if self.known.len() < MAX_KNOWN {
            self.known.push(name.to_owned());
        }
        only.globs.matches_into(name, &mut self.matching);
        for glob in &self.matching {
            self.is_matched[glob / 2] = true;
        }
    }

    /// Returns whether any pattern has matched a job.
    pub(crate) fn has_any(&self) -> bool {
        self.only.is_none() || self.is_matched.contains(&true)
    }

    pub(crate) fn finish(self) -> Result<()> {
        let patterns = self.only.map_or(&[][..], |only| &only.patterns).iter().zip(&self.is_matched);
        let unmatched: Vec<&str> =
            patterns.filter(|(_, is_matched)| !**is_matched).map(|(pattern, _)| pattern.as_str()).collect();
        let Some(first) = unmatched.first() else { return Ok(()) };
        let near = suggest(first, self.known.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        let unmatched: Vec<String> = unmatched.iter().map(|pattern| format!("{pattern:?}")).collect();
        let known = &self.known[..self.known.len().min(MAX_LISTED)];
        Err(Error::usage(format!("no job matches --only {}{near}", unmatched.join(", ")))
            .found(format!("names such as {}", known.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_pattern_has_a_job() {
        let check = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            Only::parse(&patterns).unwrap().unwrap().check(["in/a.pt", "in/b[1].pt"])
        };
        for matched in [&["in/*"][..], &["in/a.pt", "in/b[1].pt"]] {
            assert!(check(matched).is_ok(), "{matched:?}");
        }
        let error = check(&["in/a.pt", "in/c.pt", "x"]).unwrap_err().to_string();
        for word in ["--only \"in/c.pt\", \"x\"; did you mean \"in/a.pt\"?", "such as in/a.pt, in/b[1].pt"] {
            assert!(error.contains(word), "no {word:?} in {error}");
        }
        assert!(Only::parse(&[]).unwrap().is_none());
        assert!(Only::parse(&["a[".to_owned()]).is_err());
    }
}
