//! The end of a file. The end consists of the dictionaries, the stream's end mark, and the footer,
//! which indexes the dictionaries and batches.

use super::encode::{Encoder, Note};
use crate::MAGIC;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{Block, FooterBuilder, MetadataVersion};
use flatbuffers::FlatBufferBuilder;
use tensorferry_sdk::records::PlacedPiece;
use tensorferry_sdk::{ByteSink, Error, Result};

/// End mark of a stream.
pub(super) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Writes the dictionaries, the end mark and the footer after the pieces of a file.
pub(super) fn write(encoder: &Encoder, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
    let notes = pieces.iter().map(|piece| Note::of_bytes(&piece.note)).collect::<Option<Vec<_>>>();
    let notes = notes.ok_or_else(|| Error::plugin("a note has the wrong format"))?;
    let mut batches = Vec::new();
    let mut end = encoder.head().len() as u64;
    for (piece, note) in pieces.iter().zip(&notes) {
        let mut offset = piece.offset;
        for &lengths in &note.batches {
            batches.push(block(offset, lengths)?);
            offset += lengths.0 + lengths.1;
        }
        end = piece.offset + piece.len;
    }
    let mut dictionaries = Vec::new();
    for dictionary in encoder.shared(&notes)?.values() {
        let lengths = encoder.write_dictionary(dictionary, output)?;
        dictionaries.push(block(end, lengths)?);
        end += lengths.0 + lengths.1;
    }
    output.write(&END)?;
    let mut builder = FlatBufferBuilder::new();
    let dictionaries = builder.create_vector(&dictionaries);
    let batches = builder.create_vector(&batches);
    let mut tracker = DictionaryTracker::new(true);
    let schema = IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut tracker)
        .schema_to_fb_offset(&mut builder, encoder.schema());
    let mut footer = FooterBuilder::new(&mut builder);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(batches);
    let root = footer.finish();
    builder.finish(root, None);
    let bytes = builder.finished_data();
    let len =
        i32::try_from(bytes.len()).map_err(|_| Error::unsupported("the footer is larger than 2 GiB"))?;
    output.write(bytes)?;
    output.write(&len.to_le_bytes())?;
    output.write(MAGIC)
}

fn block(offset: u64, (metadata, body): (u64, u64)) -> Result<Block> {
    let long = || Error::unsupported("a file or batch is too long for Arrow IPC");
    let signed = |value: u64| i64::try_from(value).map_err(|_| long());
    Ok(Block::new(signed(offset)?, i32::try_from(metadata).map_err(|_| long())?, signed(body)?))
}
