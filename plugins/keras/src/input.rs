//! Finds the files of an input. An input is an HDF5 file, an archive or folder with an HDF5 file
//! and its configuration, or a set of shards and their map.

use crate::{ARCHIVE_SUFFIX, CONFIG, MAP_SUFFIX, METADATA, WEIGHTS, WEIGHTS_SUFFIX, config};
use serde_json::Value;
use std::collections::BTreeSet;
use tensorferry_hub::only_file;
use tensorferry_sdk::file_name::{has_any_suffix, has_suffix, strip_suffix};
use tensorferry_sdk::{Context, Entry, Error, Limits, Purpose, Result, ShardName, Source, check_name};
use tensorferry_zip::{Archive, Extent, MAGIC, Member, Method, Names};

/// Maximum length in bytes of a deflated archive member whose expansion is not limited. A longer
/// member is rejected if it expands more than a hundredfold. Keras applies the same rule.
const MAX_UNCHECKED: u64 = 1 << 20;
const MAX_EXPANSION: u64 = 100;

/// The files of an input.
pub(crate) struct Input {
    pub(crate) weights: Vec<Weights>,
    /// Content of `config.json`, if that file exists.
    pub(crate) config: Option<Vec<u8>>,
    /// Content of `metadata.json`, if that file exists.
    pub(crate) metadata: Option<Vec<u8>>,
    /// Map of the shards: the name of each group, and the files that contain the group.
    pub(crate) map: Option<Vec<(String, Vec<String>)>>,
    /// The archive, if the input is an archive.
    pub(crate) archive: Option<Archive>,
    /// Names of the other files in the archive, which are not read.
    pub(crate) others: Vec<String>,
    /// Shards that are in the same folder as the map, but that the map does not list. The list is
    /// empty if the input is a folder, because the host reports its unread files.
    pub(crate) unmapped: Vec<String>,
}

/// Location of an HDF5 file.
pub(crate) enum Weights {
    /// A whole file, or a stored member of an archive.
    Stored(Extent),
    /// A deflated member of an archive.
    Deflated(Member),
}

/// Returns whether a file's name has a Keras suffix. Returns false for the names of shards.
pub(crate) fn has_keras_suffix(name: &str) -> bool {
    let is_h5 = has_any_suffix(name, [".h5", ".hdf5"]);
    !name.starts_with('.') && (has_any_suffix(name, [ARCHIVE_SUFFIX, MAP_SUFFIX]) || is_h5 && !is_shard(name))
}

/// Returns whether a file has the name of a Keras shard, such as `x_00000.weights.h5`.
pub(crate) fn is_shard(name: &str) -> bool {
    stem_of_shard(name).is_some()
}

/// Returns the part of a shard's name that precedes its number. The name of the shards' map starts
/// with the same prefix.
fn stem_of_shard(name: &str) -> Option<&str> {
    let (stem, number) = strip_suffix(name, WEIGHTS_SUFFIX)?.rsplit_once('_')?;
    (number.len() == 5 && number.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}

impl Input {
    /// Finds the files of an input. A single shard is accepted only if `shard_is_alone` is set.
    pub(crate) fn find(source: &dyn Source, shard_is_alone: bool, context: &dyn Context) -> Result<Self> {
        let limits = context.limits();
        let name = match source.entry() {
            Entry::Folder if source.contains(WEIGHTS)? => return folder(source, limits),
            Entry::Folder => only_in_folder(source)?,
            _ => only_file(source, &[])?,
        };
        if !shard_is_alone {
            refuse_shard(source, &name, context)?;
        }
        let extent = Extent::whole(source, source.open(&name)?);
        let mut start = [0; 4];
        if extent.read_start(source, &mut start)? == MAGIC || has_suffix(&name, ARCHIVE_SUFFIX) {
            return archive(source, extent, limits).map_err(|error| error.file(&name));
        }
        if has_suffix(&name, MAP_SUFFIX) {
            return shards(source, &name, extent, limits).map_err(|error| error.file(&name));
        }
        Ok(Self::of(vec![Weights::Stored(extent)]))
    }

    fn of(weights: Vec<Weights>) -> Self {
        let (others, unmapped) = (Vec::new(), Vec::new());
        Self { weights, config: None, metadata: None, map: None, archive: None, others, unmapped }
    }
}

/// Rejects a shard, because the user may want either the whole model or only the shard. If the
/// input is only displayed, reports a note instead. Without a map, a file with the name of a
/// Keras shard is accepted. It may contain the weights of a training epoch, which can have a
/// similar name.
fn refuse_shard(source: &dyn Source, name: &str, context: &dyn Context) -> Result<()> {
    let map = stem_of_shard(name).map(|stem| format!("{stem}{MAP_SUFFIX}"));
    let map = source.first_of(map)?;
    let whole = match &map {
        Some(map) => format!("{map:?} or the folder is the whole model"),
        None if is_counted_shard(name) => "ferry does not join HDF5 shards without a map".to_owned(),
        None => return Ok(()),
    };
    if context.purpose().has(Purpose::SHOW) {
        context.note(&format!("{name:?} is one of several shards: {whole}"));
        return Ok(());
    }
    let hint = match map {
        Some(map) => {
            format!("pass {map:?} or the folder for the whole model, or -i shard=alone for only this file")
        }
        None => format!("{whole}; pass -i shard=alone to convert only this file"),
    };
    Err(Error::usage("the file is only one shard of a model").file(name).hint(hint))
}

/// Returns whether a file has the name of a transformers shard, such as
/// `tf_model-00001-of-00002.h5`.
fn is_counted_shard(name: &str) -> bool {
    ShardName::parse(name).is_some_and(|shard| shard.count > 1)
}

fn only_in_folder(source: &dyn Source) -> Result<String> {
    let maps = source.list("")?.into_iter().filter(|name| has_suffix(name, MAP_SUFFIX)).count();
    match maps {
        0 => only_file(source, &[ARCHIVE_SUFFIX, ".h5", ".hdf5"]),
        _ => only_file(source, &[MAP_SUFFIX]),
    }
}

fn folder(source: &dyn Source, limits: &Limits) -> Result<Input> {
    let read = |name: &str| -> Result<Option<Vec<u8>>> {
        if !source.contains(name)? {
            return Ok(None);
        }
        Extent::whole(source, source.open(name)?).read(source, limits).map(Some)
    };
    let weights = Extent::whole(source, source.open(WEIGHTS)?);
    Ok(Input {
        config: read(CONFIG)?,
        metadata: read(METADATA)?,
        ..Input::of(vec![Weights::Stored(weights)])
    })
}

fn archive(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Input> {
    let archive = Archive::open(source, extent, Names::Any, limits)?;
    let (mut weights, mut config, mut metadata, mut is_npz) = (None, None, None, false);
    let mut others = Vec::new();
    for (index, entry) in archive.entries().iter().enumerate() {
        let at = |error: Error| archive.at(error, entry.header_offset());
        check_name(entry.name.strip_suffix('/').unwrap_or(&entry.name))
            .map_err(|error| at(error.context("zip entry")))?;
        let expanded = entry.stored_len.saturating_mul(MAX_EXPANSION);
        if entry.method == Method::Deflated && entry.len > MAX_UNCHECKED.max(expanded) {
            return Err(at(Error::limit(format!(
                "zip entry {:?} is far longer than its stored bytes",
                entry.name
            ))
            .expected(format!("at most {} bytes", MAX_UNCHECKED.max(expanded)))
            .found(entry.len)));
        }
        let small = || {
            let member = archive.member(index)?;
            let mut bytes = Vec::new();
            if member.len > limits.header_bytes {
                return Err(Error::limit("too large to hold in memory").found(member.len));
            }
            member.write(source, &mut bytes, &SilentContext(limits))?;
            Ok(bytes)
        };
        match &*entry.name {
            WEIGHTS => weights = Some(archive.member(index)?),
            CONFIG => config = Some(small().map_err(at)?),
            METADATA => metadata = Some(small().map_err(at)?),
            "model.weights.npz" => is_npz = true,
            name if name.ends_with('/') && entry.len == 0 => {}
            name => others.push(name.to_owned()),
        }
    }
    let weights = match weights {
        Some(member) if member.method == Method::Stored => Weights::Stored(member.stored),
        Some(member) => Weights::Deflated(member),
        None if is_npz => {
            return Err(Error::unsupported("the weights are in model.weights.npz, as pickled objects"));
        }
        None => return Err(Error::malformed(format!("the archive has no {WEIGHTS}"))),
    };
    if config.is_none() {
        return Err(Error::malformed(format!("the archive has no {CONFIG}")));
    }
    Ok(Input { config, metadata, archive: Some(archive), others, ..Input::of(vec![weights]) })
}

/// A context that discards all messages. It is used for reading small members of an archive.
struct SilentContext<'a>(&'a Limits);

impl Context for SilentContext<'_> {
    fn limits(&self) -> &Limits {
        self.0
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn log(&self, _: tensorferry_sdk::Level, _: &str) {}
}

fn shards(source: &dyn Source, name: &str, extent: Extent, limits: &Limits) -> Result<Input> {
    let wrong = |why: &str| Error::malformed(format!("invalid map of shards: {why}"));
    let bytes = extent.read(source, limits)?;
    let map = config::parse(&bytes, "the map of shards", limits)?;
    let map = map.get("weight_map").and_then(Value::as_object).ok_or_else(|| wrong("no weight_map"))?;
    let mut files = BTreeSet::new();
    let mut groups = Vec::new();
    for (group, value) in map {
        let path = group.strip_prefix('/').filter(|path| check_name(path).is_ok());
        let path = path.ok_or_else(|| wrong("not the path of a group").found(format!("{group:?}")))?;
        let names: Vec<&str> = match value {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if names.is_empty() || value.as_array().is_some_and(|all| all.len() != names.len()) {
            return Err(wrong("not the names of files").found(format!("{value}")));
        }
        for name in &names {
            if check_name(name).is_err() || name.contains('/') || !name.ends_with(WEIGHTS_SUFFIX) {
                return Err(wrong("not the name of a shard in the same folder").found(format!("{name:?}")));
            }
            files.insert((*name).to_owned());
        }
        groups.push((path.to_owned(), names.into_iter().map(str::to_owned).collect()));
    }
    if files.is_empty() {
        return Err(wrong("it does not list any file"));
    }
    let open = |file: &String| {
        let id = source.open(file).map_err(|error| error.context(format!("a shard of {name:?}")))?;
        Ok(Weights::Stored(Extent::whole(source, id)))
    };
    let weights = files.iter().map(open).collect::<Result<_>>()?;
    let stem = strip_suffix(name, MAP_SUFFIX).filter(|_| *source.entry() != Entry::Folder);
    let mut unmapped = stem.map_or_else(|| Ok(Vec::new()), |stem| source.list(&format!("{stem}_")))?;
    unmapped.retain(|file| stem_of_shard(file) == stem && !files.contains(file));
    Ok(Input { map: Some(groups), unmapped, ..Input::of(weights) })
}
