//! Compression in files from Arrow 0.17.0, the first release with compression. That release stored
//! the codec in the metadata of a message. Later releases store the codec in a field of the record
//! batch, and the Arrow library reads only that field.

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, BodyCompressionMethod, CompressionType, DictionaryBatch,
    DictionaryBatchArgs, Message, MessageArgs, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use tensorferry_sdk::{Error, Result};

pub(super) const COMPRESSION: &str = "ARROW:experimental_compression";

/// Returns the message with the codec moved from the metadata to the field of the record batch.
/// Returns `None` if the metadata does not contain a codec.
pub(super) fn with_compression(message: &Message<'_>) -> Result<Option<Vec<u8>>> {
    let (record, dictionary) = (message.header_as_record_batch(), message.header_as_dictionary_batch());
    let batch = record.or_else(|| dictionary.and_then(|dictionary| dictionary.data()));
    // Later releases write version V5 and do not use this metadata key.
    let is_old = message.version() == MetadataVersion::V4;
    let batch = batch.filter(|batch| is_old && batch.compression().is_none());
    let (Some(batch), Some(codec)) = (batch, codec(message)?) else { return Ok(None) };
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

/// Returns the codec in a message's metadata.
fn codec(message: &Message<'_>) -> Result<Option<CompressionType>> {
    let mut entries = message.custom_metadata().into_iter().flatten();
    let Some(entry) = entries.find(|entry| entry.key() == Some(COMPRESSION)) else { return Ok(None) };
    match entry.value().unwrap_or_default().to_ascii_lowercase().as_str() {
        "lz4" | "lz4_frame" => Ok(Some(CompressionType::LZ4_FRAME)),
        "zstd" => Ok(Some(CompressionType::ZSTD)),
        "uncompressed" => Ok(None),
        other => Err(Error::unsupported(format!("unknown compression codec ({COMPRESSION})"))
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::CONTINUATION;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    use arrow_ipc::{KeyValue, KeyValueArgs};
    use std::sync::Arc;
    use tensorferry_sdk::arrow_array::{Array, DictionaryArray, Int64Array, RecordBatch, types::Int8Type};
    use tensorferry_sdk::memory::records;
    use tensorferry_sdk::records::Batches;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    /// Converts a message to the form that Arrow 0.17.0 writes.
    fn aged(bytes: &[u8], name: &str) -> Vec<u8> {
        let message = arrow_ipc::root_as_message(bytes).unwrap();
        let (record, dictionary) = (message.header_as_record_batch(), message.header_as_dictionary_batch());
        let batch = record.or_else(|| dictionary.and_then(|dictionary| dictionary.data()));
        let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return bytes.to_vec() };
        let mut builder = FlatBufferBuilder::new();
        let nodes: Vec<_> = batch.nodes().into_iter().flatten().copied().collect();
        let buffers: Vec<_> = batch.buffers().into_iter().flatten().copied().collect();
        let args = RecordBatchArgs {
            length: batch.length(),
            nodes: Some(builder.create_vector(&nodes)),
            buffers: Some(builder.create_vector(&buffers)),
            ..RecordBatchArgs::default()
        };
        let data = RecordBatch_::create(&mut builder, &args);
        let header = match dictionary {
            None => data.as_union_value(),
            Some(of) => {
                let args = DictionaryBatchArgs { id: of.id(), data: Some(data), isDelta: of.isDelta() };
                DictionaryBatch::create(&mut builder, &args).as_union_value()
            }
        };
        let (key, value) = (builder.create_string(COMPRESSION), builder.create_string(name));
        let entry = KeyValue::create(&mut builder, &KeyValueArgs { key: Some(key), value: Some(value) });
        let args = MessageArgs {
            version: MetadataVersion::V4,
            header_type: message.header_type(),
            header: Some(header),
            bodyLength: message.bodyLength(),
            custom_metadata: Some(builder.create_vector(&[entry])),
        };
        let rebuilt = Message::create(&mut builder, &args);
        builder.finish(rebuilt, None);
        builder.finished_data().to_vec()
    }

    use arrow_ipc::RecordBatch as RecordBatch_;

    #[test]
    fn batches_and_dictionaries_of_0_17_are_decompressed() {
        let words: DictionaryArray<Int8Type> = ["long enough"; 200].into_iter().collect();
        let numbers = Int64Array::from_iter_values((0..200).map(|n| n / 7));
        let rows = RecordBatch::try_from_iter([
            ("n", Arc::new(numbers) as Arc<dyn Array>),
            ("w", Arc::new(words) as Arc<dyn Array>),
        ])
        .unwrap();
        for (codec, name) in [(CompressionType::LZ4_FRAME, "LZ4"), (CompressionType::ZSTD, "ZSTD")] {
            let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
            let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options).unwrap();
            writer.write(&rows).unwrap();
            let new = writer.into_inner().unwrap();
            let (mut old, mut at) = (Vec::new(), 0);
            while at + 8 < new.len() {
                let len = u32::from_le_bytes(new[at + 4..at + 8].try_into().unwrap()) as usize;
                let metadata = &new[at + 8..at + 8 + len];
                let body =
                    usize::try_from(arrow_ipc::root_as_message(metadata).unwrap().bodyLength()).unwrap();
                let mut metadata = aged(metadata, name);
                metadata.resize(metadata.len().next_multiple_of(8), 0);
                old.extend(
                    [&CONTINUATION[..], &u32::try_from(metadata.len()).unwrap().to_le_bytes()].concat(),
                );
                old.extend(metadata);
                old.extend(&new[at + 8 + len..at + 8 + len + body]);
                at += 8 + len + body;
            }
            let source = Arc::new(MemorySource::file("a.arrows", old));
            let set = records::open(&crate::Arrow, &[], source, &MemoryContext::default()).unwrap();
            let found = records::read(&*set, &Batches::default()).unwrap().concat();
            assert_eq!(found, std::slice::from_ref(&rows), "{name}");
        }
    }
}
