//! The schema of a file, and the positions of the file's dictionaries and batches.

use super::claims;
use super::experimental::COMPRESSION;
use super::message::{MessageExtent, NextMessage, SourceFile, next, parse, parse_footer};
use crate::fault::decoded;
use crate::{FEATHER_V1, MAGIC};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, Endianness, KeyValue, MessageHeader};
use std::collections::BTreeSet;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::{Context, Error, Limits, Result, Source};

/// Maximum number of metadata keys that a loss lists, and maximum number of characters per key.
const MAX_KEYS: usize = 8;
const MAX_KEY: usize = 100;

pub(super) struct Contents {
    pub(super) file: SourceFile,
    /// The schema of the file. It contains dictionary IDs, which are not in the schema of the
    /// records.
    pub(super) schema: SchemaRef,
    pub(super) dictionaries: Vec<DictionaryMessage>,
    pub(super) batches: Vec<Batch>,
    /// Metadata keys of the file and its messages, excluding the keys of the schema's metadata.
    pub(super) custom: BTreeSet<String>,
}

impl Contents {
    pub(super) fn name(&self) -> &str {
        self.file.name()
    }
}

/// A message that sets or extends the values of a dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct DictionaryMessage {
    pub(super) place: MessageExtent,
    pub(super) id: i64,
    pub(super) is_delta: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) place: MessageExtent,
    pub(super) rows: u64,
    pub(super) is_compressed: bool,
    /// Number of dictionary messages before the batch.
    pub(super) dictionaries: usize,
}

/// Reads the schema of a file and locates its dictionaries and batches.
pub(super) fn read(source: &Arc<dyn Source>, name: &str, context: &dyn Context) -> Result<Contents> {
    let file = SourceFile::open(source, name)?;
    if file.len() >= 4 && &file.array::<4>(0)? == FEATHER_V1 {
        return Err(Error::unsupported("Feather V1 is not Arrow IPC")
            .hint("convert the file to Feather V2 with pyarrow.feather"));
    }
    if file.len() >= 6 && &file.array::<6>(0)? == MAGIC {
        of_file(file, context)
    } else {
        of_stream(file, context)
    }
}

fn of_file(file: SourceFile, context: &dyn Context) -> Result<Contents> {
    let limits = context.limits();
    let cut = || Error::malformed("the file ends too early").expected("a footer, its length and \"ARROW1\"");
    let tail = file.len().checked_sub(10).filter(|tail| *tail >= 8).ok_or_else(cut)?;
    let end: [u8; 10] = file.array(tail)?;
    let [a, b, c, d, magic @ ..] = end;
    if &magic != MAGIC {
        return Err(cut().offset(tail + 4).found(format!("{:?}", String::from_utf8_lossy(&magic))));
    }
    let found = i32::from_le_bytes([a, b, c, d]);
    let len = u64::try_from(found).ok().filter(|len| *len > 0 && *len <= tail - 8);
    let wrong = || Error::malformed("the footer has an impossible length").offset(tail).found(found);
    let len = len.ok_or_else(|| wrong().expected(format!("at most {} bytes", tail - 8)))?;
    let bytes = file.read(tail - len, len, limits)?;
    let footer = parse_footer(&bytes).map_err(|error| error.offset(tail - len))?;
    let none = || Error::malformed("the footer has no schema").offset(tail - len);
    let schema = schema_of(footer.schema().ok_or_else(none)?, limits)?;
    let mut contents =
        Contents { file, schema, dictionaries: Vec::new(), batches: Vec::new(), custom: BTreeSet::new() };
    contents.keep_keys(footer.custom_metadata());
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    let range = |block: &Block| {
        let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        let [start, metadata, body] = parts.map(|part| u64::try_from(part).unwrap_or(0));
        start..start.saturating_add(metadata).saturating_add(body)
    };
    claims::check_disjoint(blocks.map(range).collect(), "the footer's blocks")?;
    for block in footer.dictionaries().into_iter().flatten() {
        context.check_cancelled()?;
        let place = place_of(&contents.file, block, tail - len)?;
        contents.add(place, Some(MessageHeader::DictionaryBatch), limits)?;
    }
    for block in footer.recordBatches().into_iter().flatten() {
        context.check_cancelled()?;
        let place = place_of(&contents.file, block, tail - len)?;
        contents.add(place, Some(MessageHeader::RecordBatch), limits)?;
    }
    Ok(contents)
}

/// Returns the extent of the message that a block of the footer describes.
fn place_of(file: &SourceFile, block: &Block, end: u64) -> Result<MessageExtent> {
    let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()].map(u64::try_from);
    let range = match parts {
        [Ok(offset), Ok(metadata), Ok(body)] => offset
            .checked_add(metadata)
            .and_then(|start| Some((offset, start, start.checked_add(body)?)))
            .filter(|(_, _, stop)| *stop <= end),
        _ => None,
    };
    let (offset, body, stop) = range.ok_or_else(|| {
        Error::malformed("a block in the footer refers to bytes outside the file")
            .expected(format!("within {end} bytes"))
            .found(format!("{} + {} + {}", block.offset(), block.metaDataLength(), block.bodyLength()))
    })?;
    match next(file, offset, body)? {
        NextMessage::Message { metadata, metadata_len } => {
            Ok(MessageExtent { offset, metadata, metadata_len, body, body_len: stop - body })
        }
        NextMessage::End(_) => {
            Err(Error::malformed("a block in the footer does not refer to a message").offset(offset))
        }
    }
}

fn of_stream(file: SourceFile, context: &dyn Context) -> Result<Contents> {
    let (limits, end) = (context.limits(), file.len());
    let none = || Error::malformed("the file starts with neither \"ARROW1\" nor a schema message").offset(0);
    let NextMessage::Message { metadata, metadata_len } = next(&file, 0, end)? else { return Err(none()) };
    let bytes = file.read(metadata, metadata_len, limits)?;
    let message = parse(&bytes).map_err(|error| error.offset(0))?;
    let schema = schema_of(message.header_as_schema().ok_or_else(none)?, limits)?;
    let mut offset = metadata + metadata_len;
    let mut contents =
        Contents { file, schema, dictionaries: Vec::new(), batches: Vec::new(), custom: BTreeSet::new() };
    loop {
        context.check_cancelled()?;
        match next(&contents.file, offset, end)? {
            NextMessage::End(behind) if behind < end => {
                return Err(Error::malformed("extra bytes after the end of the stream")
                    .offset(behind)
                    .found(format!("{} bytes", end - behind)));
            }
            NextMessage::End(_) => return Ok(contents),
            NextMessage::Message { metadata, metadata_len } => {
                let body = metadata + metadata_len;
                offset = contents.add(
                    MessageExtent { offset, metadata, metadata_len, body, body_len: 0 },
                    None,
                    limits,
                )?;
            }
        }
    }
}

impl Contents {
    fn keep_keys<'m>(&mut self, entries: Option<impl IntoIterator<Item = KeyValue<'m>>>) {
        let keys = entries.into_iter().flatten().filter_map(|entry| entry.key());
        let own = keys.filter(|key| *key != COMPRESSION);
        let more = MAX_KEYS.saturating_sub(self.custom.len());
        self.custom.extend(own.take(more).map(|key| key.chars().take(MAX_KEY).collect()));
    }

    /// Adds a message and returns the offset of its end. In a file, `kind` is the message type
    /// according to the footer. In a stream, `kind` is `None`, and the message itself specifies the
    /// length of its body.
    fn add(&mut self, mut place: MessageExtent, kind: Option<MessageHeader>, limits: &Limits) -> Result<u64> {
        let at = |error: Error| error.offset(place.offset);
        let bytes = self.file.message(&place, limits).map_err(at)?;
        let message = parse(&bytes).map_err(at)?;
        if kind.is_some_and(|kind| kind != message.header_type()) {
            return Err(at(Error::malformed("the kind of a message differs from the footer"))
                .found(format!("{:?}", message.header_type())));
        }
        let max = if kind.is_some() { place.body_len } else { self.file.len() - place.body };
        let len = u64::try_from(message.bodyLength()).ok().filter(|len| *len <= max);
        let len = len.ok_or_else(|| {
            at(Error::malformed("the body of a message is outside the file"))
                .expected(format!("at most {max} bytes"))
                .found(message.bodyLength())
        })?;
        place.body_len = len;
        if self.dictionaries.len() + self.batches.len()
            >= usize::try_from(limits.entries).unwrap_or(usize::MAX)
        {
            return Err(Error::limit("too many messages").expected(format!("at most {}", limits.entries)));
        }
        self.keep_keys(message.custom_metadata());
        if let Some(batch) = message.header_as_record_batch() {
            let rows = claims::check(batch, &place).map_err(at)?;
            let (is_compressed, dictionaries) = (batch.compression().is_some(), self.dictionaries.len());
            self.batches.push(Batch { place, rows, is_compressed, dictionaries });
        } else if let Some(dictionary) = message.header_as_dictionary_batch() {
            let none = || at(Error::malformed("a dictionary has no values"));
            claims::check(dictionary.data().ok_or_else(none)?, &place).map_err(at)?;
            let (id, is_delta) = (dictionary.id(), dictionary.isDelta());
            let is_known = || self.dictionaries.iter().any(|known| known.id == id);
            // Streams are not searched for replaced dictionaries. A stream may replace a
            // dictionary, and the search takes quadratic time if every batch has a dictionary
            // message.
            if kind.is_some() && !is_delta && is_known() {
                return Err(at(Error::malformed("a file replaces a dictionary, which only a stream may do"))
                    .found(format!("dictionary {id} twice")));
            }
            self.dictionaries.push(DictionaryMessage { place, id, is_delta });
        } else {
            let kind = format!("{:?}", message.header_type());
            return Err(at(Error::unsupported("a message is not a record batch")).found(kind));
        }
        Ok(place.end())
    }
}

fn schema_of(schema: arrow_ipc::Schema<'_>, limits: &Limits) -> Result<SchemaRef> {
    if schema.endianness() != Endianness::Little {
        let error = Error::unsupported("big-endian values").hint("write the file on a little-endian machine");
        return Err(error.expected("little-endian").found(format!("{:?}", schema.endianness())));
    }
    let schema = decoded(|| try_fb_to_schema(schema)).map_err(|error| error.context("the schema"))?;
    let columns = schema.flattened_fields().len() as u64;
    if columns > limits.columns {
        let expected = format!("at most {}", limits.columns);
        return Err(Error::limit("too many columns")
            .hint("pass --limit columns=N to allow more")
            .expected(expected)
            .found(columns));
    }
    Ok(Arc::new(schema))
}
