//! Probing finds the format of an input: by what formats declare, then by asking those that fit.

use crate::formats::placeholder::explain;
use crate::formats::registry::{RegisteredFormat, Registry};
use globset::GlobBuilder;
use std::cmp::Reverse;
use tensorferry_sdk::{Context, Description, Entry, Error, ErrorKind, Result, Score, Side, Source};

/// What declared data is worth, on the scale of [`Score`].
const BY_MAGIC: u32 = 70;
const BY_MEMBER: u32 = 60;
const BY_SUFFIX: u32 = 20;

/// The format of `source`: the one that the user named, or the one that is surest of it. Of formats that are equally
/// sure, one that is built in wins. A format that could not win whatever it said is not asked, so that its library
/// stays closed; one whose probe fails is noted, and is not the input's.
///
/// # Errors
/// Usage, if the user named one that is not there, or if two are equally sure; unsupported, if none
/// knows it; what a probe gave, if none knows it and one failed.
pub fn probe<'a>(
    registry: &'a Registry,
    source: &dyn Source,
    named: Option<&str>,
    context: &dyn Context,
) -> Result<&'a RegisteredFormat> {
    if let Some(id) = named {
        return registry.format(id, Side::Reader);
    }
    registry.check_any()?;
    let readers = registry.formats().iter().filter(|f| f.description.reads());
    let mut candidates: Vec<Candidate<'_>> = readers.map(|format| Candidate::new(format, source)).collect();
    candidates.sort_by_key(|candidate| (Reverse(candidate.most()), !candidate.format.is_built_in()));
    let mut scored: Vec<(u32, &RegisteredFormat)> = Vec::new();
    let mut failure = None;
    for candidate in candidates {
        // Those that follow can at most be as sure as this one.
        let is_beaten = |(score, best): &(u32, &RegisteredFormat)| {
            let wins_ties = best.is_built_in() && !candidate.format.is_built_in();
            *score > candidate.most() || *score == candidate.most() && wins_ties
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
                context.note(&format!("format {id} was not considered: {error}"));
                failure.get_or_insert(error);
            }
        }
    }
    scored.sort_by_key(|(score, format)| (Reverse(*score), !format.is_built_in(), &format.description.id));
    match &*scored {
        [] => Err(failure.unwrap_or_else(|| explain(source, unknown(registry, source)))),
        [(first, a), (second, b), ..] if first == second && a.is_built_in() == b.is_built_in() => {
            let ids = format!("{} or {}", a.description.id, b.description.id);
            Err(Error::usage(format!("the input may be {ids}: say which with --from"))
                .file(source.entry().name()))
        }
        [(_, best), ..] => Ok(best),
    }
}

/// A format that may be the input's.
struct Candidate<'a> {
    format: &'a RegisteredFormat,
    /// What the input's name is worth.
    suffix: u32,
}

impl<'a> Candidate<'a> {
    fn new(format: &'a RegisteredFormat, source: &dyn Source) -> Self {
        let lower = source.entry().name().to_ascii_lowercase();
        let is_named = format.description.suffixes.iter().any(|suffix| lower.ends_with(suffix.as_str()));
        Self { format, suffix: if is_named { BY_SUFFIX } else { 0 } }
    }

    /// The highest score that it could have.
    fn most(&self) -> u32 {
        Score::CERTAIN.0 + self.suffix
    }

    fn score(&self, source: &dyn Source, context: &dyn Context) -> Result<u32> {
        Ok(match self.format.format.probe(source, context)? {
            // A suffix decides between formats that are equally sure of the bytes.
            Some(Score(0)) => 0,
            Some(Score(asked)) => asked.min(Score::CERTAIN.0) + self.suffix,
            None => declared_content(&self.format.description, source) + self.suffix,
        })
    }
}

/// What the content is worth by what the format declares.
fn declared_content(description: &Description, source: &dyn Source) -> u32 {
    match source.entry() {
        Entry::File(name) if has_magic(description, source, name) => BY_MAGIC,
        Entry::Folder if has_member(description, source) => BY_MEMBER,
        _ => 0,
    }
}

fn has_magic(description: &Description, source: &dyn Source, name: &str) -> bool {
    description.magic.iter().any(|magic| {
        let mut found = vec![0; magic.bytes.len()];
        let read = source.open(name).and_then(|file| source.read_at(file, magic.offset, &mut found));
        read.is_ok() && found == magic.bytes
    })
}

fn has_member(description: &Description, source: &dyn Source) -> bool {
    let names = source.list("").unwrap_or_default();
    description.members.iter().any(|pattern| {
        GlobBuilder::new(pattern).build().is_ok_and(|glob| {
            let matcher = glob.compile_matcher();
            names.iter().any(|name| matcher.is_match(name))
        })
    })
}

fn unknown(registry: &Registry, source: &dyn Source) -> Error {
    let ids: Vec<&str> = registry
        .formats()
        .iter()
        .filter(|f| f.description.reads())
        .map(|f| f.description.id.as_str())
        .collect();
    let error = match source.entry() {
        Entry::Folder => Error::unsupported("no plugin knows what this folder holds"),
        Entry::File(name) | Entry::Prefix(name) => {
            Error::unsupported("no plugin knows this format").file(name)
        }
    };
    error.expected(format!("one of {}", ids.join(", ")))
}
