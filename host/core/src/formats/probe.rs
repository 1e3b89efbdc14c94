//! Probing finds the format of an input: by what formats declare, then by asking those that fit.

use crate::formats::placeholder::explain;
use crate::formats::registry::{RegisteredFormat, Registry};
use globset::GlobBuilder;
use tensorferry_sdk::{Context, Description, Entry, Error, Result, Score, Side, Source};

/// What declared data is worth, on the scale of [`Score`].
const BY_MAGIC: u32 = 70;
const BY_MEMBER: u32 = 60;
const BY_SUFFIX: u32 = 20;

/// The format of `source`: the one that the user named, or the one that is surest of it.
///
/// # Errors
/// Usage, if the user named one that is not there, or if two are equally sure; unsupported, if none
/// knows it.
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
    let mut scored: Vec<(u32, &RegisteredFormat)> = Vec::new();
    for format in registry.formats().iter().filter(|f| f.description.reads()) {
        let declared = declared_score(&format.description, source);
        let score = match format.format.probe(source, context)? {
            // A suffix decides between formats that are equally sure of the bytes.
            Some(Score(0)) => 0,
            Some(Score(asked)) => asked.min(Score::CERTAIN.0) + declared.suffix,
            None => declared.total(),
        };
        if score > 0 {
            scored.push((score, format));
        }
    }
    scored.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.description.id.cmp(&b.1.description.id)));
    match &*scored {
        [] => Err(explain(source, unknown(registry, source))),
        [(first, a), (second, b), ..] if first == second => {
            let ids = format!("{} or {}", a.description.id, b.description.id);
            Err(Error::usage(format!("the input may be {ids}: say which with --from"))
                .file(source.entry().name()))
        }
        [(_, best), ..] => Ok(best),
    }
}

struct Declared {
    content: u32,
    suffix: u32,
}

impl Declared {
    fn total(&self) -> u32 {
        self.content + self.suffix
    }
}

fn declared_score(description: &Description, source: &dyn Source) -> Declared {
    let name = source.entry().name();
    let lower = name.to_ascii_lowercase();
    let suffix = description.suffixes.iter().any(|suffix| lower.ends_with(suffix.as_str()));
    let content = match source.entry() {
        Entry::File(name) if has_magic(description, source, name) => BY_MAGIC,
        Entry::Folder if has_member(description, source) => BY_MEMBER,
        _ => 0,
    };
    Declared { content, suffix: if suffix { BY_SUFFIX } else { 0 } }
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
