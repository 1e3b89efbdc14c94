//! Encodes a piece, which is one row group. The chunks of the row group are encoded as if they
//! followed the magic bytes in a separate file. The note of the piece is the footer of this
//! separate file.

use super::dense::{Buffers, DenseWriter, STATISTICS_BYTES};
use super::footer;
use super::stored::StoredSchema;
use crate::MAGIC;
use crate::fault::write_error;
use crate::options::{DictionaryUse, WriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowWriterOptions, compute_leaves};
use parquet::basic::{LogicalType, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnDescriptor;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{Field, Schema};
use tensorferry_sdk::{ByteSink, Result};

/// Number of bytes after the footer, which contain the footer's length and the magic bytes.
const TAIL: usize = 8;

/// Returns the `parquet` crate's settings for encoding columns.
pub(super) fn properties(stored: &StoredSchema, options: &WriteOptions) -> Result<WriterProperties> {
    let statistics = if options.statistics { EnabledStatistics::Chunk } else { EnabledStatistics::None };
    let mut properties = WriterProperties::builder()
        .set_compression(options.compression)
        .set_statistics_enabled(statistics)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        // Page indexes are disabled because they would contain file offsets that are not known yet.
        .set_offset_index_disabled(true)
        // One piece is one row group. The host has already limited its rows.
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(None)
        // Lists and maps use the field names that the Parquet specification requires.
        .set_coerce_types(true)
        .set_dictionary_enabled(options.dictionary != DictionaryUse::Never);
    if options.dictionary == DictionaryUse::Auto {
        for column in stored.parquet.columns().iter().filter(|column| skips_dictionary(column)) {
            properties = properties.set_column_dictionary_enabled(column.path().clone(), false);
        }
    }
    Ok(properties.build())
}

/// Returns whether a column contains floats or bytes, such as images or serialized arrays. For such
/// columns, the `parquet` crate would fill a dictionary and then discard it. Filling the dictionary
/// costs more than the rest of the encoding.
fn skips_dictionary(column: &ColumnDescriptor) -> bool {
    match column.physical_type() {
        Type::FLOAT | Type::DOUBLE | Type::FIXED_LEN_BYTE_ARRAY => true,
        Type::BYTE_ARRAY => !matches!(
            column.logical_type_ref(),
            Some(LogicalType::String | LogicalType::Enum | LogicalType::Json | LogicalType::Decimal(_))
        ),
        _ => false,
    }
}

/// Returns the footer for a file without rows. The footer contains the schema, and the Arrow schema
/// in the metadata.
pub(super) fn empty_file(stored: &StoredSchema, properties: &WriterProperties) -> Result<ParquetMetaData> {
    let options = ArrowWriterOptions::new().with_properties(properties.clone());
    let options = options.with_parquet_schema(stored.parquet.as_ref().clone());
    let writer = ArrowWriter::try_new_with_options(std::io::sink(), stored.schema.clone(), options);
    writer.and_then(ArrowWriter::close).map_err(write_error)
}

/// Writes the chunks of one row group and returns its footer. Columns are written sequentially.
/// Only one chunk or page is therefore in memory in addition to the rows and the output.
pub(super) fn row_group(
    stored: &StoredSchema,
    properties: &WriterProperties,
    dense: Option<DenseWriter>,
    empty: &ParquetMetaData,
    batches: &[RecordBatch],
    output: &mut dyn ByteSink,
) -> Result<Vec<u8>> {
    let schema = empty.file_metadata().schema_descr_ptr();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    // Offsets are relative to a separate file that starts with the magic bytes.
    let mut offset = MAGIC.len() as u64;
    let mut buffers = Buffers::default();
    let mut chunks: Vec<ColumnChunkMetaData> = Vec::with_capacity(schema.num_columns());
    // A piece without rows has no row group.
    let columns = if rows > 0 { stored.schema.fields().len() } else { 0 };
    for index in 0..columns {
        let arrays = batches.iter().map(|batch| stored.column(batch, index)).collect::<Result<Vec<_>>>()?;
        let written = match (dense, schema.columns().get(chunks.len())) {
            (Some(dense), Some(column)) => dense.chunk(column, &arrays, offset, &mut buffers, output)?,
            _ => None,
        };
        let written = match written {
            Some(chunk) => vec![chunk],
            None => library_chunks(stored, index, properties, &arrays, offset, output)?,
        };
        offset += written.iter().map(|chunk| chunk.compressed_size().unsigned_abs()).sum::<u64>();
        chunks.extend(written);
    }
    let file = empty.file_metadata();
    let (version, rows) = (file.version(), i64::try_from(rows).unwrap_or(i64::MAX));
    let file = FileMetaData::new(version, rows, None, None, schema.clone(), file.column_orders().cloned());
    let mut metadata = ParquetMetaDataBuilder::new(file);
    if columns > 0 {
        let bytes = chunks.iter().map(ColumnChunkMetaData::uncompressed_size).sum();
        let row_group = RowGroupMetaData::builder(schema)
            .set_num_rows(rows)
            .set_total_byte_size(bytes)
            .set_file_offset(MAGIC.len() as i64)
            .set_ordinal(0)
            .set_column_metadata(chunks);
        metadata = metadata.add_row_group(row_group.build().map_err(write_error)?);
    }
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata.build()).finish().map_err(write_error)?;
    footer.truncate(footer.len().saturating_sub(TAIL));
    Ok(footer)
}

/// Lets the `parquet` crate write a column's chunks to an in-memory file, and copies this file to
/// `output` without its magic bytes and footer.
fn library_chunks(
    stored: &StoredSchema,
    index: usize,
    properties: &WriterProperties,
    arrays: &[ArrayRef],
    offset: u64,
    output: &mut dyn ByteSink,
) -> Result<Vec<ColumnChunkMetaData>> {
    let field = stored.schema.field(index);
    let options = ArrowWriterOptions::new()
        .with_properties(properties.clone())
        .with_skip_arrow_metadata(true)
        .with_parquet_schema(stored.of_column(index).map_err(write_error)?);
    let file = PendingBytes::default();
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let writer = ArrowWriter::try_new_with_options(file.clone(), schema, options);
    let (mut writer, factory) = writer.and_then(ArrowWriter::into_serialized_writer).map_err(write_error)?;
    writer.flush()?;
    file.take();
    let mut columns = factory.create_column_writers(0).map_err(write_error)?.into_iter();
    let mut group = writer.next_row_group().map_err(write_error)?;
    for chunk in chunks(field, arrays, &mut columns)? {
        chunk.append_to_row_group(&mut group).map_err(write_error)?;
        file.send(output)?;
    }
    let group = group.close().map_err(write_error)?;
    writer.flush()?;
    file.send(output)?;
    let by = i64::try_from(offset).unwrap_or(i64::MAX) - MAGIC.len() as i64;
    group.columns().iter().map(|chunk| footer::moved_chunk(chunk.clone(), by).map_err(write_error)).collect()
}

/// Encodes a column as chunks, one for each leaf of the column's type.
fn chunks(
    field: &Field,
    arrays: &[ArrayRef],
    columns: &mut impl Iterator<Item = ArrowColumnWriter>,
) -> Result<Vec<ArrowColumnChunk>> {
    let mut writers: Vec<ArrowColumnWriter> = Vec::new();
    for array in arrays {
        let leaves = compute_leaves(field, array).map_err(write_error)?;
        // The first batch determines the number of leaves.
        writers.extend(columns.take(leaves.len().saturating_sub(writers.len())));
        for (writer, leaf) in writers.iter_mut().zip(&leaves) {
            writer.write(leaf).map_err(write_error)?;
        }
    }
    writers.into_iter().map(|writer| writer.close().map_err(write_error)).collect()
}

/// Bytes from the `parquet` crate that have not been written to the output. They need a separate
/// buffer, because the library requires a `Send` writer, and a borrowed output is not `Send`.
#[derive(Clone, Default)]
struct PendingBytes(Arc<Mutex<Vec<u8>>>);

impl PendingBytes {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes())
    }

    fn send(&self, output: &mut dyn ByteSink) -> Result<()> {
        let mut bytes = self.bytes();
        output.write(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for PendingBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
