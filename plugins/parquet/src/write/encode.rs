//! A piece is one row group: its chunks' bytes as they lie in a file of its own after the magic, and
//! that file's footer as the note.

use super::stored::Stored;
use crate::MAGIC;
use crate::fault::one_line;
use crate::options::{Dictionary, WriteOptions};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{LogicalType, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnDescriptor;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::{ByteSink, Error, Result};

/// The length of the footer and the magic, which follow a footer.
const TAIL: usize = 8;
/// Minima and maxima of strings and bytes are cut to this: a kilobyte of an image in each footer helps
/// no reader.
const STATISTICS_BYTES: usize = 64;

/// How the columns are encoded.
pub(super) fn properties(stored: &Stored, options: &WriteOptions) -> Result<WriterProperties> {
    let statistics = if options.statistics { EnabledStatistics::Chunk } else { EnabledStatistics::None };
    let mut properties = WriterProperties::builder()
        .set_compression(options.compression)
        .set_statistics_enabled(statistics)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        // Page indexes hold offsets into the file, which are not known here.
        .set_offset_index_disabled(true)
        // One piece is one row group; the host has counted.
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(None)
        // The names that the format's description asks for in lists and maps.
        .set_coerce_types(true)
        .set_dictionary_enabled(options.dictionary != Dictionary::Never);
    if options.dictionary == Dictionary::Auto {
        let converter = ArrowSchemaConverter::new().with_coerce_types(true);
        let schema = converter.convert(&stored.schema).map_err(refused)?;
        for column in schema.columns().iter().filter(|column| seldom_repeats(column)) {
            properties = properties.set_column_dictionary_enabled(column.path().clone(), false);
        }
    }
    Ok(properties.build())
}

/// Bytes (images, serialised arrays) and floats: looking each up in a dictionary that is given up in the
/// end costs more than the rest of the encoding.
fn seldom_repeats(column: &ColumnDescriptor) -> bool {
    match column.physical_type() {
        Type::FLOAT | Type::DOUBLE | Type::FIXED_LEN_BYTE_ARRAY => true,
        Type::BYTE_ARRAY => !matches!(
            column.logical_type_ref(),
            Some(LogicalType::String | LogicalType::Enum | LogicalType::Json | LogicalType::Decimal(_))
        ),
        _ => false,
    }
}

/// What the footer of a file without rows says: the schema, and the Arrow schema in the metadata.
pub(super) fn empty_file(stored: &Stored, properties: &WriterProperties) -> Result<ParquetMetaData> {
    let options = ArrowWriterOptions::new().with_properties(properties.clone());
    let writer = ArrowWriter::try_new_with_options(std::io::sink(), stored.schema.clone(), options);
    writer.and_then(ArrowWriter::close).map_err(refused)
}

/// Writes the chunks of one row group, and gives its footer.
pub(super) fn row_group(
    stored: &Stored,
    properties: &WriterProperties,
    batches: &[RecordBatch],
    output: &mut dyn ByteSink,
) -> Result<Vec<u8>> {
    let options =
        ArrowWriterOptions::new().with_properties(properties.clone()).with_skip_arrow_metadata(true);
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new_with_options(&mut file, stored.schema.clone(), options).map_err(refused)?;
    for batch in batches {
        writer.write(stored.rows(batch)?.as_ref()).map_err(refused)?;
    }
    writer.close().map_err(refused)?;
    let (chunks, footer) = split(&file).ok_or_else(|| Error::plugin("the library wrote no footer"))?;
    output.write(chunks)?;
    Ok(footer.to_vec())
}

/// The chunks and the footer of a file.
fn split(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, tail) = file.split_at_checked(file.len().checked_sub(TAIL)?)?;
    let len = u32::from_le_bytes(tail.first_chunk().copied()?);
    let (rest, footer) = rest.split_at_checked(rest.len().checked_sub(usize::try_from(len).ok()?)?)?;
    Some((rest.strip_prefix(MAGIC)?, footer))
}

/// The library refuses rows that it was given: there is nothing malformed about an input's file here.
pub(super) fn refused(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(why) => Error::unsupported(one_line(&why)),
        other => Error::unsupported(one_line(&other.to_string())).context("Parquet cannot hold these rows"),
    }
}
