//! Probing finds the format of an input. ferry first compares the input with what the formats
//! declare, and then calls the probes of the formats that fit.
//!
//! A score is at most 100, plus 20 for the extension. If a format's score cannot exceed the best
//! score so far, its probe is not called, so its library is not opened. If scores are equal, a
//! built-in format wins. If two other formats tie, the error lists both and suggests `--from`. If a
//! probe fails, ferry adds a note.
//!
//! In a folder, a score of at most [`ACCOMPANIES_A_MODEL`] does not make the folder a model of that
//! format.

use crate::formats::placeholder::explain_unknown;
use crate::formats::registry::{Formats, RegisteredFormat};
use globset::GlobBuilder;
use std::cmp::Reverse;
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Context, Description, Entry, Error, ErrorKind, Result, Score, Side, Source};

/// Scores for properties that formats declare, on the same scale as [`Score`].
const BY_MAGIC: u32 = 70;
const BY_MEMBER: u32 = 60;
const BY_SUFFIX: u32 = 20;

/// Returns the format of `source`: the one that the user named, or the one with the highest score.
/// On a tie, a built-in format wins. The probes of formats that cannot win are not called, so that
/// their libraries are not opened. If a probe fails, ferry adds a note and skips the format.
///
/// Returns a usage error if two formats have the same highest score. If no format recognizes the
/// source, returns the error of a failed probe, or an "unsupported" error if no probe failed.
pub fn probe<'a>(
    registry: &'a Formats,
    source: &dyn Source,
    named: Option<&str>,
    context: &dyn Context,
) -> Result<&'a RegisteredFormat> {
    match named {
        Some(id) => registry.format(id, Side::Reader),
        None => Ok(best_match(registry, source, context)?.1),
    }
}

/// Maximum score of a folder whose files only accompany a model: exports to other formats, or
/// companion files. The format is used if the folder contains no other model; otherwise these files
/// are copied along with the model.
pub const ACCOMPANIES_A_MODEL: Score = Score(15);

/// Returns the format with the highest score for `source`, and the score.
pub fn best_match<'a>(
    registry: &'a Formats,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<(Score, &'a RegisteredFormat)> {
    registry.check_any()?;
    let readers = registry.formats().iter().filter(|f| f.description.reads());
    let mut candidates: Vec<Candidate<'_>> = readers.map(|format| Candidate::new(format, source)).collect();
    candidates.sort_by_key(|candidate| (Reverse(candidate.max_score()), !candidate.format.is_built_in()));
    let mut scored: Vec<(u32, &RegisteredFormat)> = Vec::new();
    let mut failure = None;
    for candidate in candidates {
        // Whether none of the remaining candidates can have a higher score than this format.
        let is_beaten = |(score, best): &(u32, &RegisteredFormat)| {
            let wins_ties = best.is_built_in() && !candidate.format.is_built_in();
            *score > candidate.max_score() || *score == candidate.max_score() && wins_ties
        };
        if scored.iter().any(is_beaten) {
            break;
        }
        match candidate.score(source, context) {
            Ok(0) => {}
            Ok(score) => scored.push((score, candidate.format)),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                let id = &candidate.format.description.id;
                context.note(&format!("format {id} was skipped: {error}"));
                failure.get_or_insert(error);
            }
        }
    }
    scored.sort_by_key(|(score, format)| (Reverse(*score), !format.is_built_in(), &format.description.id));
    match &*scored {
        [] => Err(failure.unwrap_or_else(|| explain_unknown(source, unknown(registry, source)))),
        [(first, a), (second, b), ..] if first == second && a.is_built_in() == b.is_built_in() => {
            let ids = format!("{} or {}", a.description.id, b.description.id);
            let error = |input| {
                Error::usage(format!("the {input} may be {ids}")).hint("pass --from to choose the format")
            };
            Err(match source.entry() {
                Entry::Folder => error("folder"),
                Entry::File(name) | Entry::Prefix(name) => error("input").file(name),
            })
        }
        [(score, best), ..] => Ok((Score(*score), best)),
    }
}

/// Returns whether a format's files in a folder only accompany a model of another format
/// ([`ACCOMPANIES_A_MODEL`]).
#[must_use]
pub fn accompanies_a_model(registry: &Formats, id: &str, folder: &dyn Source, context: &dyn Context) -> bool {
    let Ok(format) = registry.format(id, Side::Reader) else { return false };
    let score = format.probe(folder, context);
    score.is_ok_and(|score| score.is_some_and(|score| score > Score::NO && score <= ACCOMPANIES_A_MODEL))
}

struct Candidate<'a> {
    format: &'a RegisteredFormat,
    /// The score for the suffix of the input's name.
    suffix: u32,
}

impl<'a> Candidate<'a> {
    fn new(format: &'a RegisteredFormat, source: &dyn Source) -> Self {
        let is_named = has_any_suffix(source.entry().name(), &format.description.suffixes);
        Self { format, suffix: if is_named { BY_SUFFIX } else { 0 } }
    }

    /// Returns the highest score that this candidate can reach.
    fn max_score(&self) -> u32 {
        Score::CERTAIN.0 + self.suffix
    }

    fn score(&self, source: &dyn Source, context: &dyn Context) -> Result<u32> {
        Ok(match self.format.probe(source, context)? {
            // If several formats have the same score for the content, the suffix decides between
            // these formats.
            Some(Score(0)) => 0,
            Some(Score(requested)) => requested.min(Score::CERTAIN.0) + self.suffix,
            None => declared_content(&self.format.description, source) + self.suffix,
        })
    }
}

/// Returns the score of the source's content for the magic bytes or file names that the format
/// declares.
fn declared_content(description: &Description, source: &dyn Source) -> u32 {
    match source.entry() {
        Entry::File(name) if has_magic(description, source, name) => BY_MAGIC,
        Entry::Folder if has_member(description, source) => BY_MEMBER,
        _ => 0,
    }
}

fn has_magic(description: &Description, source: &dyn Source, name: &str) -> bool {
    let Ok(file) = source.open(name) else { return false };
    description.magic.iter().any(|magic| magic.is_in(source, file).unwrap_or(false))
}

fn has_member(description: &Description, source: &dyn Source) -> bool {
    let names = source.list("").unwrap_or_default();
    description.members.iter().any(|pattern| {
        GlobBuilder::new(pattern).case_insensitive(true).build().is_ok_and(|glob| {
            let matcher = glob.compile_matcher();
            names.iter().any(|name| matcher.is_match(name))
        })
    })
}

fn unknown(registry: &Formats, source: &dyn Source) -> Error {
    let ids: Vec<&str> = registry
        .formats()
        .iter()
        .filter(|f| f.description.reads())
        .map(|f| f.description.id.as_str())
        .collect();
    let error = match source.entry() {
        Entry::Folder => {
            Error::unsupported(format!("no plugin recognizes this folder{}", registry.refusals()))
        }
        Entry::File(name) | Entry::Prefix(name) => {
            Error::unsupported(format!("no plugin recognizes this file{}", registry.refusals())).file(name)
        }
    };
    error.expected(format!("one of {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::context::session::Session;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tensorferry_sdk::{Capabilities, Format, MemorySource};

    /// A format with a suffix such as `.a`, or without a suffix. The field `gives` contains the
    /// result of its probe.
    struct Sure {
        id: &'static str,
        suffix: Option<&'static str>,
        gives: Result<Option<Score>>,
        requested: Arc<AtomicUsize>,
    }

    impl Format for Sure {
        fn describe(&self) -> Description {
            Description::new(self.id, "")
                .suffixes(self.suffix)
                .magic(0, *b"magic")
                .capabilities(Capabilities::READ)
        }

        fn probe(&self, _: &dyn Source, _: &dyn Context) -> Result<Option<Score>> {
            self.requested.fetch_add(1, Ordering::Relaxed);
            self.gives.clone()
        }
    }

    /// A format registry and the number of probe calls so far. Some of the formats are not built
    /// in.
    #[derive(Default)]
    struct AskedFormats {
        registry: Formats,
        requested: Arc<AtomicUsize>,
    }

    impl AskedFormats {
        fn format(&self, id: &'static str, suffix: &'static str, gives: Result<Option<u32>>) -> Box<Sure> {
            let suffix = Some(suffix).filter(|suffix| !suffix.is_empty());
            let gives = gives.map(|score| score.map(Score));
            Box::new(Sure { id, suffix, gives, requested: self.requested.clone() })
        }

        fn own(self, id: &'static str, suffix: &'static str, score: u32) -> Self {
            let format = self.format(id, suffix, Ok(Some(score)));
            Self { registry: self.registry.with(format), ..self }
        }

        fn foreign(self, id: &'static str, suffix: &'static str, gives: Result<Option<u32>>) -> Self {
            let format = self.format(id, suffix, gives);
            Self { registry: self.registry.with_foreign(format), ..self }
        }

        /// Probes a file with this name. Returns its format, the number of probe calls, and the
        /// notes.
        fn probe(&self, name: &str) -> (Result<String>, usize, Vec<String>) {
            let session = Session::new(1, 1 << 20);
            self.requested.store(0, Ordering::Relaxed);
            let found = probe(&self.registry, &MemorySource::file(name, *b"magic"), None, &session);
            let id = found.map(|format| format.description.id.clone());
            (id, self.requested.load(Ordering::Relaxed), session.take_notes())
        }
    }

    #[test]
    fn a_format_that_could_not_win_is_not_asked() {
        let formats =
            AskedFormats::default().own("b", "", 90).own("a", ".a", 100).foreign("c", ".c", Ok(Some(100)));
        assert_eq!(formats.probe("x.a"), (Ok("a".to_owned()), 1, Vec::new()));
        // Without a matching suffix, either built-in format could win, so both are probed.
        assert_eq!(formats.probe("x"), (Ok("a".to_owned()), 2, Vec::new()));
        let (found, requested, _) = formats.probe("x.c");
        assert_eq!((found.unwrap().as_str(), requested), ("c", 1));
        // A format with a lower score does not prevent other formats from being probed.
        let formats = AskedFormats::default().own("b", "", 100).own("a", ".a", 70);
        assert_eq!(formats.probe("x.a"), (Ok("b".to_owned()), 2, Vec::new()));
    }

    #[test]
    fn of_equals_a_built_in_one_wins_and_two_of_others_are_named() {
        let formats = AskedFormats::default().foreign("a", "", Ok(Some(60))).own("b", "", 60);
        assert_eq!(formats.probe("x").0.unwrap(), "b");
        let formats = AskedFormats::default()
            .foreign("a", "", Ok(Some(60)))
            .foreign("b", "", Ok(Some(60)))
            .own("c", "", 50);
        let (error, requested, _) = formats.probe("x");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a or b"), "{error}");
        assert_eq!(requested, 3);
        let formats = AskedFormats::default().own("a", "", 60).own("b", "", 60);
        assert!(formats.probe("x").0.is_err());
    }

    #[test]
    fn a_probe_that_fails_is_a_note_and_the_reason_where_nothing_else_fits() {
        let broken = || Err(Error::plugin("plugin p: panicked in probe"));
        let formats = AskedFormats::default().foreign("a", ".x", broken()).own("b", "", 30);
        let (found, _, notes) = formats.probe("x.x");
        assert_eq!(found.unwrap(), "b");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("format a") && notes[0].contains("panicked in probe"), "{notes:?}");
        let formats = AskedFormats::default().foreign("a", "", broken()).own("b", "", 0);
        assert_eq!(formats.probe("x").0, broken().map(|_: Option<u32>| String::new()));
        // A cancellation by the user is not a plugin's fault.
        let formats =
            AskedFormats::default().foreign("a", ".x", Err(Error::cancelled("ended"))).own("b", "", 30);
        assert_eq!(formats.probe("x.x").0.unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_format_without_a_probe_is_known_by_what_it_declares() {
        let formats = AskedFormats::default().foreign("a", ".x", Ok(None)).own("b", "", 80);
        assert_eq!(formats.probe("x.x").0.unwrap(), "a");
        assert_eq!(formats.probe("x.y").0.unwrap(), "b");
    }
}
