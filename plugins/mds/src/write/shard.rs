//! Encodes rows as a shard, and creates the shard's entry in the index.

use super::column::OutColumn;
use crate::hash;
use crate::options::WriteOptions;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tensorferry_row_text::json::{repeated_keys, repeats_keys};
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::records::Group;
use tensorferry_sdk::{Error, Loss, LossKind, LossSink, Result};

pub(super) struct Encoder {
    columns: Vec<OutColumn>,
    options: WriteOptions,
    /// The JSON configuration in each shard.
    configuration: Vec<u8>,
}

/// An encoded shard, and the note from which the shard's index entry is created.
pub(super) struct EncodedShard {
    pub(super) bytes: Vec<u8>,
    pub(super) note: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Note {
    raw: FileNote,
    zip: Option<FileNote>,
}

/// Length and hashes of a file.
#[derive(Serialize, Deserialize)]
struct FileNote {
    bytes: u64,
    hashes: BTreeMap<String, String>,
}

impl Encoder {
    pub(super) fn new(columns: Vec<OutColumn>, options: WriteOptions) -> Self {
        let mut encoder = Self { columns, options, configuration: Vec::new() };
        encoder.configuration = encoder.settings().to_string().into_bytes();
        encoder
    }

    /// Returns the settings that are in both the index and every shard.
    fn settings(&self) -> Value {
        let of = |value: &dyn Fn(&OutColumn) -> Value| self.columns.iter().map(value).collect::<Vec<_>>();
        json!({
            "column_encodings": of(&|column| json!(column.word)),
            "column_names": of(&|column| json!(column.field.name())),
            "column_sizes": of(&|column| json!(column.size())),
            "compression": self.options.compression_word(),
            "format": "mds",
            "hashes": self.options.hashes,
            "size_limit": self.options.shard_bytes,
            "version": 2,
        })
    }

    /// Returns the maximum in-memory size of a group, which contains the rows of one shard. The
    /// size accounts for the shard's header and for the 4-byte offset of each sample. If values are
    /// as long in the shard as in memory, the shard does not exceed the maximum shard size.
    pub(super) fn group(&self) -> Group {
        let min: u64 = self.columns.iter().map(|column| column.size().unwrap_or(4)).sum::<u64>().max(1);
        let head = 4 + 4 + self.configuration.len() as u64;
        let max = self.options.shard_bytes.saturating_sub(head);
        let rows = self.options.shard_rows.unwrap_or(u64::MAX).min(max / (min + 4)).max(1);
        let bytes = (max.saturating_mul(min) / (min + 4)).max(1);
        Group { rows: usize::try_from(rows).unwrap_or(usize::MAX), bytes }
    }

    pub(super) fn encode(&self, batches: &[RecordBatch], losses: &mut dyn LossSink) -> Result<EncodedShard> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let mut nulls = vec![0_u64; self.columns.len()];
        let head = 4 + 4 * (rows + 1) + self.configuration.len();
        let mut bytes = vec![0; head];
        let count = u32::try_from(rows).map_err(|_| too_long())?;
        bytes[..4].copy_from_slice(&count.to_le_bytes());
        bytes[head - self.configuration.len()..].copy_from_slice(&self.configuration);
        let mut offset_at = 4;
        put_offset(&mut bytes, &mut offset_at)?;
        for batch in batches {
            let mut encoded = Vec::with_capacity(self.columns.len());
            for (column, nulls) in self.columns.iter().zip(&mut nulls) {
                let array = batch.columns().get(column.place);
                let array = array.ok_or_else(|| Error::plugin("a batch does not match the schema"))?;
                if column.is_json() && repeats_keys(array) {
                    losses.loss(repeated_keys(column.field.name()))?;
                }
                let (values, filled) = column.encode(array)?;
                *nulls += filled;
                encoded.push((values, column.size().is_none()));
            }
            for row in 0..batch.num_rows() {
                for (values, _) in encoded.iter().filter(|(_, is_sized)| *is_sized) {
                    let len = u32::try_from(values.value(row).len()).map_err(|_| too_long())?;
                    bytes.extend_from_slice(&len.to_le_bytes());
                }
                encoded.iter().for_each(|(values, _)| bytes.extend_from_slice(values.value(row)));
                put_offset(&mut bytes, &mut offset_at)?;
            }
        }
        for (column, nulls) in self.columns.iter().zip(nulls).filter(|(_, nulls)| *nulls > 0) {
            let why = format!("nulls written as zero, NaN or an empty value: {nulls} (see -o nulls)");
            losses.loss(Loss::new(LossKind::Record, column.field.name(), why))?;
        }
        self.finish(bytes)
    }

    fn finish(&self, bytes: Vec<u8>) -> Result<EncodedShard> {
        let raw = self.note(&bytes);
        let (bytes, zip) = match self.options.compression {
            None => (bytes, None),
            Some((codec, level)) => {
                let compressed = codec.compress(&bytes, level)?;
                let zip = self.note(&compressed);
                (compressed, Some(zip))
            }
        };
        let note = serde_json::to_vec(&Note { raw, zip });
        let note = note.map_err(|error| Error::plugin(error.to_string()))?;
        Ok(EncodedShard { bytes, note })
    }

    fn note(&self, bytes: &[u8]) -> FileNote {
        let hash = |name: &String| Some((name.clone(), hash::of(name, bytes)?));
        FileNote { bytes: bytes.len() as u64, hashes: self.options.hashes.iter().filter_map(hash).collect() }
    }

    /// Returns the index entry of a shard. `raw` is the file name of the uncompressed shard.
    pub(super) fn entry(&self, raw: &str, file: &str, samples: u64, note: &[u8]) -> Result<Value> {
        let note: Note =
            serde_json::from_slice(note).map_err(|_| Error::plugin("a note has the wrong format"))?;
        let of = |name: &str, file: FileNote| json!({"basename": name, "bytes": file.bytes, "hashes": file.hashes});
        let mut entry = self.settings();
        entry["samples"] = json!(samples);
        entry["raw_data"] = of(raw, note.raw);
        entry["zip_data"] = note.zip.map_or(Value::Null, |zip| of(file, zip));
        Ok(entry)
    }
}

/// Writes the current length of the shard as the next offset of the table, which is at position
/// `at`.
fn put_offset(bytes: &mut [u8], at: &mut usize) -> Result<()> {
    let offset = u32::try_from(bytes.len()).map_err(|_| too_long())?;
    bytes[*at..*at + 4].copy_from_slice(&offset.to_le_bytes());
    *at += 4;
    Ok(())
}

fn too_long() -> Error {
    Error::unsupported("a shard is 4 GiB or larger").hint("pass -o shard_rows=N to write smaller shards")
}
