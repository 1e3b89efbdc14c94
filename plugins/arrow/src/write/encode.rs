//! Encodes rows as messages. A piece's note contains what the file's footer needs: the lengths of
//! each batch, and the keys of the dictionaries that its columns refer to.

use super::join::joined;
use crate::fault::write_error;
use crate::options::Form;
use arrow_ipc::reader::read_dictionary;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, FileWriter, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
    StreamEncoder, StreamWriter, write_message,
};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Schema, SchemaRef};
use tensorferry_sdk::records::has_type;
use tensorferry_sdk::{ByteSink, Error, Result};

pub(super) struct Encoder {
    schema: SchemaRef,
    form: Form,
    options: IpcWriteOptions,
    /// The bytes at the start of each file.
    head: Vec<u8>,
    /// Length of the message that contains the schema.
    schema_bytes: usize,
    has_dictionaries: bool,
    /// The dictionaries of all pieces. They are written at the end of each file.
    dictionaries: Mutex<HashMap<DictionaryKey, Arc<EncodedDictionary>>>,
    /// Maximum total size of `dictionaries` in bytes.
    max: u64,
}

/// A dictionary ID, and a digest of the dictionary's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DictionaryKey {
    pub(super) id: i64,
    digest: u64,
}

/// A dictionary message.
pub(super) struct EncodedDictionary {
    metadata: Vec<u8>,
    body: Vec<u8>,
    pub(super) values: ArrayRef,
}

/// Information about a piece that the file's footer needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Note {
    /// Lengths of each batch's metadata and body.
    pub(super) batches: Vec<(u64, u64)>,
    pub(super) dictionaries: Vec<DictionaryKey>,
}

impl Encoder {
    /// Creates an encoder that keeps at most `max` bytes of dictionaries.
    pub(super) fn new(schema: &SchemaRef, form: Form, options: &IpcWriteOptions, max: u64) -> Result<Self> {
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
            return Err(Error::unsupported("two columns have the same name")
                .column(twice.name())
                .hint("rename one of them"));
        }
        let stream = StreamWriter::try_new_with_options(Vec::new(), schema, options.clone());
        let stream = stream.map_err(write_error)?.get_ref().clone();
        let schema_bytes = stream.len();
        let head = match form {
            Form::File => FileWriter::try_new_with_options(Vec::new(), schema, options.clone())
                .map_err(write_error)?
                .get_ref()
                .clone(),
            Form::Stream => stream,
        };
        Ok(Self {
            schema: schema.clone(),
            form,
            options: options.clone(),
            head,
            schema_bytes,
            has_dictionaries: has_dictionaries(schema),
            dictionaries: Mutex::default(),
            max,
        })
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Encodes the rows as a single record batch, and returns the note.
    pub(super) fn encode(&self, batches: &[RecordBatch], output: &mut dyn ByteSink) -> Result<Vec<u8>> {
        let mut note = Note::default();
        if batches.is_empty() {
            return Ok(note.to_bytes());
        }
        let joined = joined(&self.schema, batches)?;
        if !self.has_dictionaries {
            note.batches.push(self.write_plain(&joined, output)?);
            return Ok(note.to_bytes());
        }
        let mut tracker = DictionaryTracker::new(false);
        let generator = IpcDataGenerator::default();
        // This call assigns the dictionary IDs.
        drop(generator.schema_to_bytes_with_dictionary_tracker(&self.schema, &mut tracker, &self.options));
        let (dictionaries, encoded) = generator
            .encode(&joined, &mut tracker, &self.options, &mut IpcWriteContext::default())
            .map_err(write_error)?;
        for dictionary in dictionaries {
            match self.form {
                Form::Stream => drop(self.write(dictionary, output)?),
                Form::File => note.dictionaries.push(self.keep(dictionary)?),
            }
        }
        note.batches.push(self.write(encoded, output)?);
        note.dictionaries.sort_unstable();
        note.dictionaries.dedup();
        Ok(note.to_bytes())
    }

    /// Writes the message of a batch without dictionaries, and returns the lengths of its metadata and
    /// body. Does not copy the batch's buffers to a message first.
    fn write_plain(&self, batch: &RecordBatch, output: &mut dyn ByteSink) -> Result<(u64, u64)> {
        let encoder = StreamEncoder::try_new_with_options(&self.schema, self.options.clone());
        let buffers = encoder.and_then(|mut encoder| encoder.encode(batch)).map_err(write_error)?;
        // The encoder first returns the message of the schema, which each file has only once.
        let mut schema = self.schema_bytes;
        let (mut metadata, mut all) = (None, 0);
        for buffer in &buffers {
            let skipped = schema.min(buffer.len());
            let bytes = &buffer[skipped..];
            schema -= skipped;
            // A message starts with a marker and the length of the metadata.
            if metadata.is_none() && !bytes.is_empty() {
                let len = bytes.get(4..8).and_then(|len| len.first_chunk());
                metadata = Some(len.map_or(u64::MAX, |len| 8 + u64::from(u32::from_le_bytes(*len))));
            }
            output.write(bytes)?;
            all += bytes.len() as u64;
        }
        let metadata = metadata.filter(|metadata| *metadata <= all);
        let metadata =
            metadata.ok_or_else(|| Error::plugin("the Arrow library wrote an unknown form of message"))?;
        Ok((metadata, all - metadata))
    }

    fn write(&self, message: EncodedData, output: &mut dyn ByteSink) -> Result<(u64, u64)> {
        let mut bytes = Vec::with_capacity(message.ipc_message.len() + message.arrow_data.len() + 128);
        let (metadata, body) = write_message(&mut bytes, message, &self.options).map_err(write_error)?;
        output.write(&bytes)?;
        Ok((metadata as u64, body as u64))
    }

    /// Keeps a dictionary in memory until it is written at the end of the files.
    fn keep(&self, message: EncodedData) -> Result<DictionaryKey> {
        let wrong =
            |error: &dyn std::fmt::Display| Error::plugin(format!("invalid dictionary message: {error}"));
        let parsed = root_as_message(&message.ipc_message).map_err(|error| wrong(&error))?;
        let batch = parsed.header_as_dictionary_batch().ok_or_else(|| wrong(&"no dictionary"))?;
        let mut digest = DefaultHasher::new();
        digest.write(&message.ipc_message);
        digest.write(&message.arrow_data);
        let key = DictionaryKey { id: batch.id(), digest: digest.finish() };
        let mut kept = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&key) {
            if known.metadata == message.ipc_message && known.body == message.arrow_data {
                return Ok(key);
            }
            return Err(Error::plugin("two dictionaries have the same digest"));
        }
        // The library assigns dictionary IDs to a schema only when it encodes the schema in a
        // message.
        let schema = self.numbered_schema()?;
        let mut values: HashMap<i64, ArrayRef> =
            kept.iter().map(|(key, dictionary)| (key.id, dictionary.values.clone())).collect();
        let body = message.arrow_data.clone().into();
        read_dictionary(&body, batch, &schema, &mut values, &parsed.version()).map_err(write_error)?;
        let values = values.remove(&key.id).ok_or_else(|| wrong(&"no values"))?;
        let all: usize = kept.values().map(|kept| kept.body.len()).sum::<usize>() + message.arrow_data.len();
        if all as u64 > self.max {
            return Err(Error::limit("the dictionaries are too long to hold in memory")
                .hint("pass -o form=stream to write a stream")
                .expected(format!("at most {} bytes", self.max)));
        }
        let dictionary =
            EncodedDictionary { metadata: message.ipc_message, body: message.arrow_data, values };
        kept.insert(key, Arc::new(dictionary));
        Ok(key)
    }

    fn numbered_schema(&self) -> Result<Schema> {
        let mut tracker = DictionaryTracker::new(false);
        let message = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            &self.schema,
            &mut tracker,
            &self.options,
        );
        arrow_ipc::convert::try_schema_from_flatbuffer_bytes(&message.ipc_message).map_err(write_error)
    }

    /// Returns one dictionary per ID that is valid for all pieces of the file.
    pub(super) fn shared(&self, notes: &[Note]) -> Result<BTreeMap<i64, Arc<EncodedDictionary>>> {
        let kept = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared: BTreeMap<i64, Arc<EncodedDictionary>> = BTreeMap::new();
        let mut keys: Vec<DictionaryKey> = notes.iter().flat_map(|note| note.dictionaries.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let other = kept.get(&key).ok_or_else(|| Error::plugin("a note comes from another plan"))?;
            let Some(first) = shared.get(&key.id) else {
                shared.insert(key.id, other.clone());
                continue;
            };
            let (long, short) =
                if first.values.len() >= other.values.len() { (first, other) } else { (other, first) };
            if long.values.slice(0, short.values.len()).to_data() != short.values.to_data() {
                return Err(Error::unsupported(
                    "a column's dictionary changes between rows, but an Arrow file can have only one per column",
                )
                .hint("pass -o form=stream to write a stream, or write one batch per file"));
            }
            let long = long.clone();
            shared.insert(key.id, long);
        }
        Ok(shared)
    }

    /// Writes a dictionary at the end of a file, and returns the lengths of its metadata and body.
    pub(super) fn write_dictionary(
        &self,
        of: &EncodedDictionary,
        output: &mut dyn ByteSink,
    ) -> Result<(u64, u64)> {
        let message = EncodedData { ipc_message: of.metadata.clone(), arrow_data: of.body.clone() };
        self.write(message, output)
    }
}

impl Note {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.batches.len() as u64).to_le_bytes().to_vec();
        for (metadata, body) in &self.batches {
            bytes.extend([metadata.to_le_bytes(), body.to_le_bytes()].concat());
        }
        for key in &self.dictionaries {
            bytes.extend([key.id.to_le_bytes(), key.digest.to_le_bytes()].concat());
        }
        bytes
    }

    /// Parses a note that [`Encoder::encode`] returned. Returns `None` for other bytes.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<8>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (pairs, []) = rest.as_chunks::<16>() else { return None };
        let numbers = |pair: &[u8; 16]| {
            let (halves, _) = pair.as_chunks::<8>();
            Some((u64::from_le_bytes(*halves.first()?), u64::from_le_bytes(*halves.get(1)?)))
        };
        let (batches, dictionaries) = pairs.split_at_checked(count)?;
        let key = |pair| numbers(pair).map(|(id, digest)| DictionaryKey { id: id.cast_signed(), digest });
        Some(Self {
            batches: batches.iter().map(numbers).collect::<Option<_>>()?,
            dictionaries: dictionaries.iter().map(key).collect::<Option<_>>()?,
        })
    }
}

fn has_dictionaries(schema: &Schema) -> bool {
    let is_dictionary = |found: &DataType| matches!(found, DataType::Dictionary(..));
    schema.fields().iter().any(|field| has_type(field.data_type(), &is_dictionary))
}
