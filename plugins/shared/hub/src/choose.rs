//! Chooses the files of a source that make up the model.
//!
//! ferry never reads a single shard as if it were the whole model. The user must pass the index or
//! the folder, or set `shard=alone`.

use crate::Naming;
use crate::index::Index;
use crate::listing::list;
use crate::ranks::{are_ranks_of_one_model, refuse_part};
use std::collections::BTreeSet;
use tensorferry_sdk::file_name::{base_of_variant, has_suffix, strip_suffix};
use tensorferry_sdk::{Context, Entry, Error, Purpose, Result, ShardName, Side, Source, TypedOption};

/// Reader option that controls whether a single shard of a model may be read.
pub const SHARD_OPTION: TypedOption<bool> = TypedOption::choice(
    Side::Reader,
    "shard",
    &[("refuse", false), ("alone", true)],
    "how to read one shard of a model: refuse it, or read only that file",
);

/// The files that make up the model.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// The index with this name, and all files to which it refers.
    Index(String),
    /// One file, or a complete set of shards that has no index.
    Files(Vec<String>),
}

/// Chooses the files that the source's entry refers to. If the entry is a file, only that file is
/// chosen. A shard is rejected unless `shard_is_alone` is set or the model is only displayed. In a
/// folder, the function looks for the following, in order: the index or file with the default name,
/// the only index, the only file, or a complete set of shards.
///
/// Returns a usage error if the choice is ambiguous.
pub fn choose(
    naming: &Naming,
    shard_is_alone: bool,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<Choice> {
    match source.entry() {
        Entry::File(name) if has_suffix(name, ".json") => Ok(Choice::Index(name.clone())),
        Entry::File(name) => {
            if let Some(shard) = naming.shard(name).filter(|shard| shard.count > 1 && !shard_is_alone) {
                refuse_shard(naming, name, &shard, source, context)?;
            } else if !shard_is_alone {
                refuse_part(source, name, context)?;
            }
            Ok(Choice::Files(vec![name.clone()]))
        }
        Entry::Folder => {
            let choice = choose_among(naming, naming.stem, &source.list("")?, source, context)?;
            refuse_partial(choice, shard_is_alone, source, context)
        }
        Entry::Prefix(prefix) => {
            let mut names = source.list(prefix)?;
            // The name of a variant's index might not start with the prefix of the variant's
            // shards.
            for name in naming.indexes(prefix) {
                if !name.starts_with(prefix) && source.contains(&name)? {
                    names.push(name);
                }
            }
            refuse_partial(
                choose_among(naming, prefix, &names, source, context)?,
                shard_is_alone,
                source,
                context,
            )
        }
    }
}

/// Returns an error if the choice is a single file that contains only a part of a model.
fn refuse_partial(
    choice: Choice,
    shard_is_alone: bool,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<Choice> {
    if let Choice::Files(names) = &choice
        && let ([one], false) = (&**names, shard_is_alone)
    {
        refuse_part(source, one, context)?;
    }
    Ok(choice)
}

/// Rejects a shard, because the user may want to read the whole model. If the model is only
/// displayed, reports a note instead.
fn refuse_shard(
    naming: &Naming,
    name: &str,
    shard: &ShardName<'_>,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<()> {
    let folder = name.strip_suffix(name.rsplit('/').next().unwrap_or_default()).unwrap_or_default();
    let indexes =
        naming.indexes(Naming::stem_of_shard(shard)).into_iter().map(|index| format!("{folder}{index}"));
    let index = source.first_of(indexes)?;
    let whole = index.map_or("the folder".to_owned(), |index| format!("{index:?} or the folder"));
    if context.purpose().has(Purpose::SHOW) {
        context.note(&format!("{name:?} is one of {} shards: {whole} is the whole model", shard.count));
        return Ok(());
    }
    Err(Error::usage(format!("the file is shard {} of {}", shard.number, shard.count))
        .file(name)
        .hint(format!("pass {whole} to read the whole model, or -i shard=alone to read only this file")))
}

/// Returns whether a file in a folder may be a part of a model. Hidden files are skipped, because
/// macOS writes files such as `._model.safetensors` to disks with other file systems.
#[must_use]
pub fn is_member(naming: &Naming, name: &str) -> bool {
    !name.starts_with('.') && (has_suffix(name, naming.suffix) || naming.stem_of_index(name).is_some())
}

fn choose_among(
    naming: &Naming,
    stem: &str,
    names: &[String],
    source: &dyn Source,
    context: &dyn Context,
) -> Result<Choice> {
    let members: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| is_member(naming, name)).collect();
    let chosen_among = without_variants(naming, &members);
    let (indexes, files): (Vec<&str>, Vec<&str>) =
        chosen_among.iter().partition(|name| naming.stem_of_index(name).is_some());
    let mut preferred = naming.indexes(stem);
    preferred.push(format!("{stem}{}", naming.suffix));
    let choice = if let Some(name) = preferred.into_iter().find(|name| members.contains(&name.as_str())) {
        name
    } else {
        match (&*indexes, &*files) {
            ([index], _) => (*index).to_owned(),
            ([], [file]) if naming.shard(file).is_none_or(|shard| (shard.number, shard.count) == (1, 1)) => {
                (*file).to_owned()
            }
            ([], []) => return Err(no_model_error(naming, names)),
            ([], files) => return shards(naming, files),
            (indexes, _) => return Err(ambiguous_error(indexes)),
        }
    };
    note_others(naming, &choice, &members, source, context)?;
    Ok(match naming.stem_of_index(&choice) {
        Some(_) => Choice::Index(choice),
        None => Choice::Files(vec![choice]),
    })
}

/// Returns the names except those of variants whose base model is also in the list. For example,
/// `x.fp16.bin` is a variant of `x.bin`.
#[must_use]
pub fn without_variants<'n>(naming: &Naming, names: &[&'n str]) -> Vec<&'n str> {
    let stem_of = |name: &str| {
        let shard = naming.shard(name).map(|shard| shard.stem.to_owned());
        let whole = || strip_suffix(name, naming.suffix).map(str::to_owned);
        naming.stem_of_index(name).or(shard).or_else(whole)
    };
    let stems: BTreeSet<String> = names.iter().filter_map(|name| stem_of(name)).collect();
    let is_variant = |name: &str| {
        let stem = stem_of(name);
        stem.as_deref().and_then(base_of_variant).is_some_and(|base| stems.contains(base))
    };
    names.iter().copied().filter(|name| !is_variant(name)).collect()
}

/// Reports a note that lists the other files in the folder, which are not read.
fn note_others(
    naming: &Naming,
    choice: &str,
    members: &[&str],
    source: &dyn Source,
    context: &dyn Context,
) -> Result<()> {
    let stem = naming.stem_of_index(choice);
    let is_other = |name: &&str| {
        let is_shard = stem.is_some()
            && naming.shard(name).map(|shard| Naming::stem_of_shard(&shard)) == stem.as_deref();
        *name != choice && !is_shard
    };
    let mut others: Vec<&str> = members.iter().copied().filter(is_other).collect();
    // An index may refer to files whose names are not shard names.
    if stem.is_some() && !others.is_empty() {
        let index = Index::read(source, choice, context.limits())?;
        others.retain(|name| !index.contains_file(name));
    }
    if let Some(others) = list(others.iter().map(|name| format!("{name:?}"))) {
        context.note(&format!("reading {choice:?}; other files there are not part of it: {others}"));
    }
    Ok(())
}

/// Chooses several files. Fails unless they are all the shards of a single set.
fn shards(naming: &Naming, files: &[&str]) -> Result<Choice> {
    if are_ranks_of_one_model(files) && files.iter().all(|name| naming.shard(name).is_none()) {
        return Err(unjoinable_ranks(files));
    }
    let parsed: Option<Vec<ShardName<'_>>> = files.iter().map(|name| naming.shard(name)).collect();
    let parsed = parsed.ok_or_else(|| ambiguous_error(files))?;
    let first = parsed[0];
    if parsed.iter().any(|shard| (shard.stem, shard.count) != (first.stem, first.count)) {
        return Err(ambiguous_error(files));
    }
    let numbers: BTreeSet<u64> = parsed.iter().map(|shard| shard.number).collect();
    // If there are N files and a shard is missing, the lowest missing number is at most N + 1. The
    // search therefore does not depend on the shard count in the file names, which may be huge.
    let missing = (1..=first.count).take(numbers.len() + 1).find(|number| !numbers.contains(number));
    if let Some(missing) = missing {
        return Err(Error::malformed("a shard is missing, and so is the index")
            .expected(format!("{} files", first.count))
            .found(format!("{}, without number {missing}", files.len())));
    }
    if let Some(beyond) = numbers.iter().find(|number| !(1..=first.count).contains(number)) {
        return Err(Error::malformed("a shard's number is outside of its set, and the index is missing")
            .expected(format!("1 to {}", first.count))
            .found(beyond));
    }
    Ok(Choice::Files(files.iter().map(|&name| name.to_owned()).collect()))
}

fn no_model_error(naming: &Naming, names: &[String]) -> Error {
    let found = list(names.iter().map(|name| format!("{name:?}")));
    let Naming { title, stem, suffix, index_suffix } = naming;
    Error::malformed(format!("no {title} file found"))
        .expected(format!("{stem}{index_suffix} or a {suffix} file"))
        .found(found.unwrap_or_else(|| "nothing".to_owned()))
}

/// Returns the error for files that contain the ranks of one model.
#[must_use]
pub fn unjoinable_ranks(names: &[&str]) -> Error {
    let found = list(names.iter().map(|name| format!("{name:?}")));
    Error::unsupported("the files contain the parts of one model, which ferry cannot join")
        .expected("one file with the whole model")
        .found(found.unwrap_or_default())
        .hint("pass one of these files and -i shard=alone to read only its part")
}

fn ambiguous_error(names: &[&str]) -> Error {
    let found = list(names.iter().map(|name| format!("{name:?}")));
    Error::usage("the folder contains several models")
        .found(found.unwrap_or_default())
        .hint("pass the file or index of one model")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::tests::NAMING;
    use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource};

    fn choose_from(entry: Entry, names: &[&str]) -> Result<(Choice, Vec<String>)> {
        let of = |name: &str| if name.ends_with(".json") { &br#"{"weight_map":{}}"#[..] } else { b"" };
        let files = names.iter().map(|&name| (name.to_owned(), of(name).to_vec())).collect();
        let context = MemoryContext::default();
        let choice = choose(&NAMING, false, &MemorySource::new(entry, files), &context)?;
        Ok((choice, context.notes()))
    }

    fn in_folder(names: &[&str]) -> Result<Choice> {
        choose_from(Entry::Folder, names).map(|(choice, _)| choice)
    }

    fn files(names: &[&str]) -> Choice {
        Choice::Files(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn a_folder_has_an_order() {
        let index = Choice::Index("model.safetensors.index.json".to_owned());
        assert_eq!(
            in_folder(&["a.safetensors", "model.safetensors", "model.safetensors.index.json"]).unwrap(),
            index
        );
        assert_eq!(
            in_folder(&["a.safetensors", "model.safetensors"]).unwrap(),
            files(&["model.safetensors"])
        );
        assert_eq!(in_folder(&["A.SAFETENSORS", "b"]).unwrap(), files(&["A.SAFETENSORS"]));
        let lone = Choice::Index("x.safetensors.index.json".to_owned());
        assert_eq!(in_folder(&["a.safetensors", "x.safetensors.index.json"]).unwrap(), lone);
        assert_eq!(in_folder(&["a.safetensors", "._a.safetensors", "b"]).unwrap(), files(&["a.safetensors"]));
        let variants = ["d.fp16.safetensors", "d.non_ema.safetensors", "d.safetensors"];
        assert_eq!(in_folder(&variants).unwrap(), files(&["d.safetensors"]));
        assert!(in_folder(&variants[..2]).is_err());
        let set = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
        assert_eq!(in_folder(&set).unwrap(), files(&set));
    }

    #[test]
    fn what_cannot_be_chosen_is_listed() {
        let error = in_folder(&["a.bin"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("found \"a.bin\""), "{error}");
        let error = in_folder(&["a.safetensors", "b.safetensors"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("\"a.safetensors\", \"b.safetensors\""), "{error}");
        let error = in_folder(&["m-00001-of-99999.safetensors", "m-00003-of-99999.safetensors"]).unwrap_err();
        assert!(error.to_string().contains("without number 2"), "{error}");
        assert!(in_folder(&["m-00001-of-00002.safetensors", "n-00002-of-00002.safetensors"]).is_err());
        // A count below the shard's own number does not make the shard a whole model.
        for name in ["m-00002-of-00000.safetensors", "m-00002-of-00001.safetensors"] {
            assert_eq!(in_folder(&[name]).unwrap_err().kind(), ErrorKind::Malformed, "{name}");
        }
    }

    /// The hint mentions both alternatives. It mentions the index only if the index exists.
    #[test]
    fn a_shard_is_not_taken_for_its_set() {
        let (name, index) = ("m-00002-of-00003.safetensors", "m.safetensors.index.json");
        let chosen = |is_alone, purpose, names: &[&str]| {
            let files = names.iter().map(|&name| (name.to_owned(), Vec::new())).collect();
            let source = MemorySource::new(Entry::File(name.to_owned()), files);
            let mut context = MemoryContext::default();
            context.purpose = purpose;
            choose(&NAMING, is_alone, &source, &context).map(|choice| (choice, context.notes()))
        };
        let error = chosen(false, Purpose::FLAT, &[name, index]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let hint = |error: &Error| error.details().find(|(name, _)| *name == "hint").unwrap().1;
        assert!(hint(&error).contains(index) && hint(&error).contains("shard=alone"), "{error}");
        let error = chosen(false, Purpose::COMPARE, &[name]).unwrap_err();
        assert!(!hint(&error).contains(index), "{error}");
        assert_eq!(chosen(true, Purpose::FLAT, &[name, index]).unwrap(), (files(&[name]), Vec::new()));
        let (choice, notes) = chosen(false, Purpose::SHOW, &[name, index]).unwrap();
        assert_eq!(choice, files(&[name]));
        assert!(notes[0].contains("one of 3 shards"), "{notes:?}");
    }

    #[test]
    fn a_set_of_one_is_its_file() {
        let name = "m-00001-of-00001.safetensors";
        let (choice, notes) = choose_from(Entry::File(name.to_owned()), &[name]).unwrap();
        assert_eq!((choice, notes), (files(&[name]), Vec::new()));
    }

    #[test]
    fn what_is_left_alone_is_noted() {
        let names =
            ["consolidated.safetensors", "model-00001-of-00001.safetensors", "model.safetensors.index.json"];
        let (_, notes) = choose_from(Entry::Folder, &names).unwrap();
        assert!(notes[0].ends_with("not part of it: \"consolidated.safetensors\""), "{notes:?}");
    }

    /// Shards with the tag of a run and shards without a tag may be in the same folder. Both kinds
    /// of shards belong to the model whose index has the same stem.
    #[test]
    fn shards_with_tags_are_of_the_index_of_their_stem() {
        let shard = "model-r0123abcd-00001-of-00002.safetensors";
        let index = "model.safetensors.index.json";
        let (choice, notes) =
            choose_from(Entry::Folder, &[shard, "model-00001-of-00003.safetensors", index]).unwrap();
        assert_eq!((choice, notes), (Choice::Index(index.to_owned()), Vec::new()));
        let refused = choose_from(Entry::File(shard.to_owned()), &[shard, index]);
        let notes = refused.unwrap().1;
        assert!(notes[0].contains(index), "{notes:?}");
    }

    #[test]
    fn a_variant_has_an_index_of_its_own() {
        let shards = ["model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors"];
        let index = "model.safetensors.index.fp16.json";
        let names = [shards[0], shards[1], index];
        let named = choose_from(Entry::File(shards[1].to_owned()), &names).unwrap().1;
        assert!(named[0].contains(index), "{named:?}");
        for entry in [Entry::Folder, Entry::Prefix("model.fp16".to_owned())] {
            let (choice, notes) = choose_from(entry.clone(), &names).unwrap();
            assert_eq!(choice, Choice::Index(index.to_owned()), "{entry:?}");
            assert_eq!(notes, Vec::<String>::new(), "{entry:?}");
        }
        let both = ["model.safetensors", shards[0], shards[1], index];
        let (choice, notes) = choose_from(Entry::Folder, &both).unwrap();
        assert_eq!(choice, files(&["model.safetensors"]));
        assert!(notes[0].contains(index), "{notes:?}");
    }

    #[test]
    fn a_prefix_is_a_stem() {
        let names = ["m.safetensors", "m.safetensors.index.json", "model.safetensors"];
        let (choice, _) = choose_from(Entry::Prefix("m".to_owned()), &names).unwrap();
        assert_eq!(choice, Choice::Index("m.safetensors.index.json".to_owned()));
    }
}
