//! Decodes messages with the Arrow library after checking their counts and buffer positions.

use super::claims;
use super::contents::{Batch, Contents, DictionaryMessage};
use super::message::parse;
use crate::fault::decoded;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use std::collections::HashMap;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::{Error, Limits, Result};

/// The values of each dictionary, by dictionary ID.
pub(super) type Values = HashMap<i64, ArrayRef>;

/// Reads a dictionary message and adds it to `values`.
pub(super) fn dictionary(
    contents: &Contents,
    dictionary: &DictionaryMessage,
    values: &mut Values,
    limits: &Limits,
) -> Result<()> {
    let (place, mut read) = (&dictionary.place, || -> Result<()> {
        let bytes = contents.file.message(&dictionary.place, limits)?;
        let message = parse(&bytes)?;
        let changed = || Error::transient("the file has changed");
        let batch = message.header_as_dictionary_batch().ok_or_else(changed)?;
        let data = batch.data().ok_or_else(changed)?;
        // Repeat the check, because the file may have changed.
        claims::check(data, &dictionary.place)?;
        let body = contents.file.body(&dictionary.place, limits)?;
        let held = claims::decompressed(data, &body)?;
        if held > limits.header_bytes {
            return Err(Error::limit("a decompressed dictionary is too long to hold in memory")
                .hint("pass --limit header_bytes=N to allow more")
                .expected(format!("at most {} bytes", limits.header_bytes))
                .found(held));
        }
        decoded(|| read_dictionary(&body, batch, &contents.schema, values, &message.version()))?;
        let held: usize = values.values().map(|values| values.get_array_memory_size()).sum();
        if held as u64 > limits.header_bytes {
            return Err(Error::limit("the dictionaries are too long to hold in memory")
                .hint("pass --limit header_bytes=N to allow more")
                .expected(format!("at most {} bytes", limits.header_bytes))
                .found(held));
        }
        Ok(())
    });
    read().map_err(|error| {
        error.context(format!("dictionary {}", dictionary.id)).file(contents.name()).offset(place.offset)
    })
}

/// Reads the columns of a record batch whose indices are in `columns`. Also returns the
/// decompressed size of the batch. Returns `None` if that size is larger than `max`.
pub(super) fn batch(
    contents: &Contents,
    batch: &Batch,
    columns: &[usize],
    values: &Values,
    max: u64,
    limits: &Limits,
) -> Result<Option<(RecordBatch, u64)>> {
    let place = &batch.place;
    if place.body_len > max {
        return Ok(None);
    }
    let read = || {
        let bytes = contents.file.message(place, limits)?;
        let message = parse(&bytes)?;
        let data =
            message.header_as_record_batch().ok_or_else(|| Error::transient("the file has changed"))?;
        claims::check(data, place)?;
        let body = contents.file.body(place, limits)?;
        let held = claims::decompressed(data, &body)?;
        if held > max {
            return Ok(None);
        }
        let version = message.version();
        let rows = decoded(|| {
            let decoder =
                RecordBatchDecoder::try_new(&body, data, contents.schema.clone(), values, &version)?;
            decoder.with_projection(Some(columns)).read_record_batch()
        })?;
        Ok(Some((rows, held)))
    };
    read().map_err(|error: Error| error.file(contents.name()).offset(place.offset))
}
