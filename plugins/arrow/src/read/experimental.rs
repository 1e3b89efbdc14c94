//! Arrow 0.17.0, the first release that compressed, named the codec among a message's metadata. Later releases have a field for
//! it, the only place where the library looks.

use super::message::parse;
use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, BodyCompressionMethod, CompressionType, DictionaryBatch,
    DictionaryBatchArgs, Message, MessageArgs, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use tensorferry_sdk::{Error, Result};

const KEY: &str = "ARROW:experimental_compression";

/// Returns the message with its codec in the field for it; `None` if its metadata does not name one.
///
/// # Errors
/// Malformed, if the bytes are not a message; unsupported, if the codec is not known.
pub(super) fn with_compression(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let message = parse(bytes)?;
    let (record, dictionary) = (message.header_as_record_batch(), message.header_as_dictionary_batch());
    let batch = record.or_else(|| dictionary.and_then(|dictionary| dictionary.data()));
    // A later release says V5, and does not use the key.
    let is_old = message.version() == MetadataVersion::V4;
    let batch = batch.filter(|batch| is_old && batch.compression().is_none());
    let (Some(batch), Some(codec)) = (batch, codec(&message)?) else { return Ok(None) };
    let mut builder = FlatBufferBuilder::new();
    let data = compressed(&mut builder, &batch, codec);
    let header = match dictionary {
        None => data.as_union_value(),
        Some(dictionary) => DictionaryBatch::create(
            &mut builder,
            &DictionaryBatchArgs { id: dictionary.id(), data: Some(data), isDelta: dictionary.isDelta() },
        )
        .as_union_value(),
    };
    let rebuilt = MessageArgs {
        version: message.version(),
        header_type: message.header_type(),
        header: Some(header),
        bodyLength: message.bodyLength(),
        custom_metadata: None,
    };
    let rebuilt = Message::create(&mut builder, &rebuilt);
    builder.finish(rebuilt, None);
    Ok(Some(builder.finished_data().to_vec()))
}

/// The codec that a message's metadata names.
fn codec(message: &Message<'_>) -> Result<Option<CompressionType>> {
    let mut entries = message.custom_metadata().into_iter().flatten();
    let Some(entry) = entries.find(|entry| entry.key() == Some(KEY)) else { return Ok(None) };
    match entry.value().unwrap_or_default().to_ascii_lowercase().as_str() {
        "lz4" | "lz4_frame" => Ok(Some(CompressionType::LZ4_FRAME)),
        "zstd" => Ok(Some(CompressionType::ZSTD)),
        "uncompressed" => Ok(None),
        other => Err(Error::unsupported(format!("the batch is compressed with an unknown codec ({KEY})"))
            .expected("LZ4 or ZSTD")
            .found(crate::fault::one_line(other))),
    }
}

fn compressed<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    batch: &RecordBatch<'_>,
    codec: CompressionType,
) -> WIPOffset<RecordBatch<'a>> {
    let method = BodyCompressionMethod::BUFFER;
    let compression = BodyCompression::create(builder, &BodyCompressionArgs { codec, method });
    let nodes: Vec<_> = batch.nodes().into_iter().flatten().copied().collect();
    let buffers: Vec<_> = batch.buffers().into_iter().flatten().copied().collect();
    let args = RecordBatchArgs {
        length: batch.length(),
        nodes: Some(builder.create_vector(&nodes)),
        buffers: Some(builder.create_vector(&buffers)),
        compression: Some(compression),
        variadicBufferCounts: None,
    };
    RecordBatch::create(builder, &args)
}
