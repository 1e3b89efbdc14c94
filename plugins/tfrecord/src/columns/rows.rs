//! Decodes the records of a batch into the builders of their columns.

use super::Column;
use super::builder::{Builder, FeatureMismatch};
use crate::keys::Keys;
use crate::message::{MessageKind, Part, entries};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use std::collections::HashMap;
use tensorferry_proto::wire::WireError;
use tensorferry_sdk::Error;

/// Maximum number of bytes in a batch. This maximum ensures that 32-bit offsets are sufficient,
/// even with one more row.
const MAX_BYTES: u64 = i32::MAX as u64 - 1;

#[derive(Debug)]
pub(crate) struct Rows {
    schema: SchemaRef,
    message: MessageKind,
    names: Vec<String>,
    keys: Keys,
    /// The index of the builder for each key, or `None` if the column is not requested.
    places: Vec<Option<usize>>,
    builders: Vec<Builder>,
    /// Whether a feature that is missing from the schema is an error.
    is_closed: bool,
    /// The number and the offset of the record for each row. They are used for errors that are
    /// found after decoding.
    records: Vec<(u64, u64)>,
    bytes: u64,
    row_bytes: u64,
}

/// The reason why a record cannot be converted to a row.
#[derive(Debug)]
pub(crate) enum RowError {
    /// The record is damaged.
    Wire(WireError),
    /// The record contradicts the schema. `record` is the record's number and offset, or `None` for
    /// the last pushed record.
    Contradiction { error: Error, record: Option<(u64, u64)> },
}

impl From<WireError> for RowError {
    fn from(broken: WireError) -> Self {
        Self::Wire(broken)
    }
}

impl Rows {
    /// Creates an empty batch. `wanted` contains the indices of the columns to decode, in ascending
    /// order. `schema` contains only these columns.
    pub(crate) fn new(
        columns: &[Column],
        wanted: &[usize],
        schema: SchemaRef,
        message: MessageKind,
        is_closed: bool,
    ) -> Self {
        let mut keys = Keys::default();
        let mut places = Vec::with_capacity(columns.len());
        for (number, column) in columns.iter().enumerate() {
            keys.add(column.part, &column.key);
            places.push(wanted.binary_search(&number).ok());
        }
        let builders: Vec<Builder> = wanted
            .iter()
            .filter_map(|&number| columns.get(number))
            .map(|c| Builder::new(c.clone(), 0))
            .collect();
        Self {
            schema,
            message,
            names: columns.iter().map(|column| column.name.clone()).collect(),
            keys,
            places,
            row_bytes: builders.iter().map(Builder::row_bytes).sum(),
            builders,
            is_closed,
            records: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the approximate size of the rows in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the batch is too full for another record of this length.
    pub(crate) fn is_full_for(&self, length: usize) -> bool {
        self.bytes + length as u64 + self.row_bytes > MAX_BYTES && !self.records.is_empty()
    }

    /// Decodes a record into a row. If decoding fails, the batch remains unchanged.
    #[inline]
    pub(crate) fn push(&mut self, record: &[u8], number: u64, offset: u64) -> Result<(), RowError> {
        let row = self.records.len();
        let Self { keys, places, builders, names, message, is_closed, records, .. } = self;
        keys.begin();
        let mut widened = 0;
        let mut last = None;
        let decoded = entries(record, *message, |part, entry| {
            let Some(key) = keys.find(part, entry.key) else {
                return if *is_closed { Err(unknown(entry.key)) } else { Ok(()) };
            };
            let Some(place) = places[key] else { return Ok(()) };
            match builders[place].set(row, entry.value) {
                Ok(()) => {
                    widened += builders[place].widened();
                    Ok(())
                }
                Err(FeatureMismatch::Contradiction { .. })
                    if !last
                        .get_or_insert_with(|| LastEntries::of(record, *message))
                        .has(part, entry.key) =>
                {
                    builders[place].rollback(row);
                    Ok(())
                }
                Err(misfit) => Err(row_error(misfit, &names[key], records)),
            }
        });
        if decoded.is_err() {
            self.rollback(record, row);
            return decoded;
        }
        self.records.push((number, offset));
        self.bytes += record.len() as u64 + self.row_bytes + widened;
        Ok(())
    }

    /// Drops a record. The function visits only the columns that the record contains, because there
    /// may be many more columns.
    #[cold]
    fn rollback(&mut self, record: &[u8], row: usize) {
        let Self { keys, places, builders, message, .. } = self;
        keys.begin();
        // The iteration visits at least the entries that were decoded before the failure.
        let _ = entries::<WireError>(record, *message, |part, entry| {
            if let Some(place) = keys.find(part, entry.key).and_then(|key| places[key]) {
                builders[place].rollback(row);
            }
            Ok(())
        });
    }

    /// Returns the rows as a batch, and resets this batch.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, RowError> {
        let rows = self.records.len();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.builders.len());
        let wanted: Vec<usize> = (0..self.places.len()).filter(|&key| self.places[key].is_some()).collect();
        for (builder, key) in self.builders.iter_mut().zip(wanted) {
            let array =
                builder.finish(rows).map_err(|misfit| row_error(misfit, &self.names[key], &self.records))?;
            arrays.push(array);
        }
        self.records.clear();
        self.bytes = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(|error| {
            RowError::Contradiction {
                error: Error::plugin(format!("the batch does not match the schema: {error}")),
                record: None,
            }
        })
    }

    /// Returns, for each column, the number of features without a kind. Resets the counts.
    pub(crate) fn take_unset(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.builders.iter_mut().map(Builder::take_unset)
    }
}

/// The last entry of each key in a record, or `None` if the record is broken. Only the last entry
/// of a key counts, so earlier entries may contradict the schema.
struct LastEntries<'a>(Option<HashMap<(Part, &'a [u8]), *const u8>>);

impl<'a> LastEntries<'a> {
    #[cold]
    fn of(record: &'a [u8], message: MessageKind) -> Self {
        let mut last = HashMap::new();
        let walked = entries::<WireError>(record, message, |part, entry| {
            last.insert((part, entry.key), entry.key.as_ptr());
            Ok(())
        });
        Self(walked.is_ok().then_some(last))
    }

    /// Returns whether an entry is the last one with its key. `key` must be a slice of the record.
    fn has(&self, part: Part, key: &'a [u8]) -> bool {
        self.0.as_ref().is_none_or(|last| last.get(&(part, key)) == Some(&key.as_ptr()))
    }
}

#[cold]
fn unknown(key: &[u8]) -> RowError {
    let error = Error::malformed("the feature is not in the records that the schema was inferred from")
        .hint("infer the schema from more records (-i infer=N), or pass one with -i schema=FILE")
        .column(String::from_utf8_lossy(key));
    RowError::Contradiction { error, record: None }
}

#[cold]
fn row_error(misfit: FeatureMismatch, column: &str, records: &[(u64, u64)]) -> RowError {
    match misfit {
        FeatureMismatch::Wire(broken) => RowError::Wire(broken),
        FeatureMismatch::Contradiction { expected, found } => RowError::Contradiction {
            error: Error::malformed("the record contradicts the schema")
                .column(column)
                .expected(expected)
                .found(found),
            record: None,
        },
        FeatureMismatch::Missing(row) => RowError::Contradiction {
            error: Error::malformed("the record lacks this required feature").column(column),
            record: records.get(row).copied(),
        },
        FeatureMismatch::Value { row, expected, found } => {
            let is_text = expected == "UTF-8";
            let error = Error::malformed("a value does not fit the schema")
                .column(column)
                .expected(expected)
                .found(found);
            let hint = "pass -i bytes=binary, or set the type to binary in the schema";
            let error = if is_text { error.hint(hint) } else { error };
            RowError::Contradiction { error, record: records.get(row).copied() }
        }
    }
}

#[cfg(test)]
mod tests;
