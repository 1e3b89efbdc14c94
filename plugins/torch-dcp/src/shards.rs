//! Reads checkpoints that consist of safetensors files (shards). Each shard contains parts of
//! tensors and records the positions of these parts. The `safetensors` crate parses the headers.

use crate::SHARDING_KEY;
use safetensors::tensor::Metadata;
use serde::Deserialize;
use std::collections::HashMap;
use tensorferry_sdk::{
    Block, CatalogSink, Context, Dtype, Error, FileId, Limits, Region, Result, Source, Storage, StorageId,
    row_major_strides,
};

/// Length in bytes of the field at the start of the file that contains the header's length.
const WORD: usize = 8;

/// Metadata keys that describe the shard file instead of the model.
const OTHER_KEYS: [&str; 3] = [SHARDING_KEY, "DCP_VERSION", "format"];

/// The entry for a tensor in [`SHARDING_KEY`].
#[derive(Debug, Deserialize)]
struct SavedPosition {
    saved_offsets: Vec<u64>,
}

/// Returns whether a file is a shard of a distributed checkpoint.
pub(crate) fn is_shard(source: &dyn Source, file: FileId, limits: &Limits) -> Result<bool> {
    let (header, _) = header(source, file, limits)?;
    Ok(header.metadata().as_ref().is_some_and(|metadata| metadata.contains_key(SHARDING_KEY)))
}

/// The parts of a tensor found in the shards read so far.
struct ShardedTensor {
    name: String,
    dtype: Dtype,
    /// The tensor's shape: in each dimension, the end of the last part.
    shape: Vec<u64>,
    parts: Vec<ShardPart>,
}

struct ShardPart {
    region: Region,
    storage: StorageId,
    offset: u64,
}

pub(crate) fn read(
    source: &dyn Source,
    names: &[String],
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<()> {
    context.note(&format!(
        "read {} shards; they do not record how many there are, so missing shards at the end cannot be detected",
        names.len()
    ));
    let mut tensors: Vec<ShardedTensor> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for file_name in names {
        context.check_cancelled()?;
        let shard = source
            .open(file_name)
            .and_then(|file| read_shard(source, file, &mut tensors, &mut places, catalog, context));
        shard.map_err(|error| error.file(file_name))?;
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    for ShardedTensor { name, dtype, shape, parts } in tensors {
        let block = |part: ShardPart| Block {
            strides: row_major_strides(&part.region.shape),
            region: part.region,
            storage: part.storage,
            offset: part.offset,
        };
        catalog.tensor_of_blocks(&name, dtype, &shape, parts.into_iter().map(block).collect())?;
    }
    Ok(())
}

fn read_shard(
    source: &dyn Source,
    file: FileId,
    tensors: &mut Vec<ShardedTensor>,
    places: &mut HashMap<String, usize>,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<()> {
    let (header, data) = header(source, file, context.limits())?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let sharding = metadata.get(SHARDING_KEY).ok_or_else(|| {
        Error::malformed("the shard does not record the positions of its tensors").expected(SHARDING_KEY)
    })?;
    let mut sharding: HashMap<String, SavedPosition> = serde_json::from_str(sharding)
        .map_err(|error| Error::malformed(format!("{SHARDING_KEY}: {}", truncated_message(&error))))?;
    for (key, value) in metadata.iter().filter(|(key, _)| !OTHER_KEYS.contains(&key.as_str())) {
        catalog.metadata_text(key, value)?;
    }
    let storage = catalog.storage(data)?;
    for (name, info) in header.tensors() {
        let dtype = Dtype::named(&info.dtype.to_string())
            .ok_or_else(|| Error::unsupported("unknown dtype").tensor(&name).found(info.dtype))?;
        let shape: Vec<u64> = info.shape.iter().map(|&dim| dim as u64).collect();
        let place = sharding.remove(&name).filter(|place| place.saved_offsets.len() == shape.len());
        let origin = place.map(|place| place.saved_offsets).ok_or_else(|| {
            Error::malformed(format!("{SHARDING_KEY} has no position for the tensor"))
                .tensor(&name)
                .expected(format!("{} offsets", shape.len()))
        })?;
        let ends: Option<Vec<u64>> =
            origin.iter().zip(&shape).map(|(start, len)| start.checked_add(*len)).collect();
        let ends = ends.ok_or_else(|| Error::malformed("the offsets do not fit in 64 bits").tensor(&name))?;
        let place = *places.entry(name.clone()).or_insert(tensors.len());
        if place == tensors.len() {
            tensors.push(ShardedTensor { name: name.clone(), dtype, shape: ends.clone(), parts: Vec::new() });
        }
        let tensor = &mut tensors[place];
        if tensor.dtype != dtype || tensor.shape.len() != shape.len() {
            return Err(Error::malformed("two shards differ in a tensor's dtype or rank").tensor(&name));
        }
        tensor.shape.iter_mut().zip(ends).for_each(|(dim, end)| *dim = end.max(*dim));
        if !shape.contains(&0) {
            let offset = info.data_offsets.0 as u64;
            tensor.parts.push(ShardPart { region: Region { origin, shape }, storage, offset });
        }
    }
    Ok(())
}

/// Returns the header of a shard, and the storage that contains the bytes of its tensors.
fn header(source: &dyn Source, file: FileId, limits: &Limits) -> Result<(Metadata, Storage)> {
    let mut word = [0; WORD];
    source.read_at(file, 0, &mut word)?;
    let bytes = source.read_vec(file, WORD as u64, u64::from_le_bytes(word), limits)?;
    let header: Metadata = serde_json::from_slice(&bytes).map_err(|error| {
        Error::malformed(format!("the header: {}", truncated_message(&error))).offset(WORD as u64)
    })?;
    let start = (WORD + bytes.len()) as u64;
    let (len, expected) = (source.len(file) - start, header.data_len() as u64);
    if len != expected {
        return Err(Error::malformed("the length of the file does not match its tensors")
            .expected(format!("{expected} bytes of data"))
            .found(len));
    }
    Ok((header, Storage::file(file, start, len)))
}

/// Returns only the beginning of a parser's message, because the message may quote the file.
fn truncated_message(error: &serde_json::Error) -> String {
    error.to_string().chars().take(1000).collect()
}
