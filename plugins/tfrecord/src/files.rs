//! Finds the files of an input: a single file, the shards of a prefix, or the files of a folder.

use crate::codec::{Codec, SharedSource, sniff};
use globset::GlobBuilder;
use tensorferry_sdk::{Context, Entry, Error, FileId, Limits, Result, ShardName, Source};

/// Extensions of record files.
pub(crate) const SUFFIXES: [&str; 3] = [".tfrecord", ".tfrecords", ".tfrec"];
/// Additional extensions of compressed record files.
const COMPRESSED: [&str; 5] = [".gz", ".gzip", ".zlib", ".zz", ".snappy"];
/// Extensions of index files. An extension is appended to the name of the indexed file.
pub(crate) const INDEX_SUFFIXES: [&str; 2] = [".idx", ".index"];
/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 8;

/// A file of records.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    pub(crate) name: String,
    pub(crate) id: FileId,
    /// The length of the stored file.
    pub(crate) len: u64,
    pub(crate) codec: Codec,
}

pub(crate) fn open<S: SharedSource>(
    source: &S,
    glob: Option<&str>,
    codec: Option<Codec>,
    context: &dyn Context,
) -> Result<Vec<InputFile>> {
    let names = find(source, glob, context.limits())?;
    let open = |name: String| {
        let id = source.open(&name)?;
        let codec = match codec {
            Some(codec) => codec,
            None => sniff(source, id, context.limits())?.codec,
        };
        Ok(InputFile { len: source.len(id), name, id, codec })
    };
    names.into_iter().map(open).collect()
}

pub(crate) fn find<S: SharedSource>(source: &S, glob: Option<&str>, limits: &Limits) -> Result<Vec<String>> {
    match (glob, source.entry()) {
        (Some(glob), _) => matching(&**source, glob, limits),
        (None, Entry::File(name)) => Ok(vec![name.clone()]),
        (None, Entry::Prefix(prefix)) => of_prefix(&**source, prefix),
        (None, Entry::Folder) => of_folder(source, limits),
    }
}

/// Returns all files whose path relative to the folder matches a glob.
fn matching<S: Source + ?Sized>(source: &S, glob: &str, limits: &Limits) -> Result<Vec<String>> {
    let matcher = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| {
        Error::usage(format!("option files: {}", error.kind())).found(format!("{glob:?}"))
    })?;
    let matcher = matcher.compile_matcher();
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let files = source.list(&prefix)?;
        seen += files.len() as u64 + 1;
        if seen > limits.entries {
            return Err(Error::limit("too many files")
                .hint("raise the limit with --limit entries=N")
                .expected(format!("at most {}", limits.entries))
                .found(seen));
        }
        names.extend(files.into_iter().filter(|name| matcher.is_match(name)));
        if glob.contains('/') {
            folders.extend(source.folders(&folder)?);
        }
    }
    if names.is_empty() {
        return Err(Error::usage(format!("no file matches the option files={glob:?}")));
    }
    names.sort();
    Ok(names)
}

/// Parses the shard number in a file name. Some programs write shard numbers with four digits.
fn shard_of(name: &str) -> Option<ShardName<'_>> {
    let ends_well = |ending: &str| ending.is_empty() || ending.starts_with('.');
    ShardName::parse_short(name, 4).filter(|shard| shard.number < shard.count && ends_well(shard.ending))
}

/// Returns all shards of the set that contains `shard`.
fn shards<S: Source + ?Sized>(source: &S, shard: ShardName<'_>) -> Result<Vec<String>> {
    let mut names = source.list(&format!("{}-", shard.stem))?;
    names.retain(|name| shard_of(name).is_some_and(|other| other.is_of_set(&shard)));
    let is_there =
        |number: &u64| names.iter().any(|name| shard_of(name).is_some_and(|other| other.number == *number));
    let missing: Vec<u64> = (0..shard.count).filter(|number| !is_there(number)).take(MAX_LISTED).collect();
    if !missing.is_empty() || names.len() as u64 != shard.count {
        return Err(Error::malformed("shards of the set are missing")
            .hint("pass -i files=GLOB to read the existing shards")
            .file(shard.pattern())
            .expected(format!("{} files", shard.count))
            .found(format!("{} files; missing numbers {missing:?}", names.len())));
    }
    Ok(names)
}

/// Returns the shards of a prefix, or the only file whose name starts with the prefix.
fn of_prefix<S: Source + ?Sized>(source: &S, prefix: &str) -> Result<Vec<String>> {
    let base = prefix.strip_suffix('-').unwrap_or(prefix);
    let mut names = Vec::new();
    for name in source.list(prefix)? {
        if !is_index_of(source, &name)? {
            names.push(name);
        }
    }
    let mut sets: Vec<ShardName<'_>> = Vec::new();
    for shard in names.iter().filter_map(|name| shard_of(name)) {
        if !sets.iter().any(|known| known.is_of_set(&shard)) {
            sets.push(shard);
        }
    }
    // The prefix `data` selects the set `data-?????-of-?????`, even if a set `data2-...` also
    // exists.
    if let Some(exact) = sets.iter().position(|set| set.stem == base) {
        let others = sets.iter().filter(|set| set.stem == base).count();
        if others == 1 {
            return shards(source, sets[exact]);
        }
    }
    let plain: Vec<String> =
        names.iter().filter(|name| has_record_name(name) && shard_of(name).is_none()).cloned().collect();
    match (&sets[..], &plain[..]) {
        ([only], []) => shards(source, *only),
        ([], [_]) => Ok(plain),
        ([], []) => {
            Err(Error::malformed("no TFRecord file has a name that starts with this prefix").file(prefix))
        }
        _ => {
            let all: Vec<String> = sets.iter().map(ShardName::pattern).chain(plain.clone()).collect();
            Err(Error::usage(format!(
                "several files or sets have names that start with this prefix: {}",
                listed(&all)
            ))
            .hint("name one of them, or pass -i files=GLOB")
            .file(prefix))
        }
    }
}

/// Returns the files of a folder that have a known extension. If there are no such files, returns
/// the files that start with a record.
fn of_folder<S: SharedSource>(source: &S, limits: &Limits) -> Result<Vec<String>> {
    let mut called = Vec::new();
    let mut others = Vec::new();
    for name in source.list("")? {
        if name.starts_with(['.', '_']) || is_index_of(&**source, &name)? {
            continue;
        }
        if has_record_name(&name) { called.push(name) } else { others.push(name) }
    }
    if called.is_empty() {
        for name in others {
            if sniff(source, source.open(&name)?, limits)?.is_certain {
                called.push(name);
            }
        }
    }
    if called.is_empty() {
        return Err(Error::malformed("the folder contains no TFRecord files"));
    }
    // As with a prefix, an incomplete set of shards is an error.
    for name in &called {
        if let Some(shard) = shard_of(name)
            && shard.number
                == called
                    .iter()
                    .filter_map(|n| shard_of(n))
                    .filter(|s| s.is_of_set(&shard))
                    .map(|s| s.number)
                    .min()
                    .unwrap_or(0)
        {
            shards(&**source, shard)?;
        }
    }
    Ok(called)
}

/// Returns whether a file is the index of another file in the folder.
fn is_index_of<S: Source + ?Sized>(source: &S, name: &str) -> Result<bool> {
    for of in INDEX_SUFFIXES.iter().filter_map(|suffix| name.strip_suffix(suffix)) {
        if source.contains(of)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a name is typical of a record file. The decision depends on the extension or,
/// for a shard, on the name of its set.
pub(crate) fn has_record_name(name: &str) -> bool {
    let name = &*name.to_ascii_lowercase();
    let name = COMPRESSED.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return true;
    }
    let base = shard_of(name).map(|shard| shard.stem);
    base.is_some_and(|base| SUFFIXES.iter().any(|suffix| base.ends_with(suffix)) || base.contains("tfrecord"))
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("{name:?}")).collect();
    match names.len().checked_sub(MAX_LISTED) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests;
