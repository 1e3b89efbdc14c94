//! Writes the footer of the whole file. It contains the row groups of all pieces, with adjusted
//! offsets.

use crate::MAGIC;
use crate::fault::write_error;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use tensorferry_sdk::records::PlacedPiece;
use tensorferry_sdk::{ByteSink, Error, Result};

/// Writes the footer, its length and the magic bytes.
pub(super) fn write(
    empty: &ParquetMetaData,
    pieces: &[PlacedPiece],
    output: &mut dyn ByteSink,
) -> Result<()> {
    let file = empty.file_metadata();
    let reading = ParquetMetaDataOptions::new()
        .with_schema(file.schema_descr_ptr())
        // The full list of page encodings is kept, because it is written to the new footer.
        .with_encoding_stats_as_mask(false);
    let mut row_groups = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let note = ParquetMetaDataReader::decode_metadata_with_options(&piece.note, Some(&reading));
        // The offsets in each piece assume that the magic bytes precede the piece. However, the
        // whole file has these magic bytes only at its start.
        let by = piece.offset.checked_sub(MAGIC.len() as u64).and_then(|by| i64::try_from(by).ok());
        let by =
            by.ok_or_else(|| Error::plugin("a row group cannot start at this offset").found(piece.offset))?;
        for row_group in note.map_err(write_error)?.row_groups() {
            row_groups.push(moved(row_group.clone(), by, row_groups.len()).map_err(write_error)?);
        }
    }
    let rows: i64 = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let metadata = ParquetMetaDataBuilder::new(file).set_row_groups(row_groups).build();
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish().map_err(write_error)?;
    output.write(&footer)
}

/// Adds `by` to the offsets of a row group, and sets its index in the file to `index`.
fn moved(row_group: RowGroupMetaData, by: i64, index: usize) -> Result<RowGroupMetaData, ParquetError> {
    let columns = row_group.columns().iter().map(|column| moved_chunk(column.clone(), by));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let file_offset = row_group.file_offset().map(|offset| offset + by);
    let mut builder = row_group.into_builder().set_column_metadata(columns);
    if let Some(offset) = file_offset {
        builder = builder.set_file_offset(offset);
    }
    if let Ok(ordinal) = i32::try_from(index) {
        builder = builder.set_ordinal(ordinal);
    }
    builder.build()
}

/// Adds `by` to the offsets of a chunk.
pub(super) fn moved_chunk(column: ColumnChunkMetaData, by: i64) -> Result<ColumnChunkMetaData, ParquetError> {
    let (data, index, dictionary) =
        (column.data_page_offset(), column.index_page_offset(), column.dictionary_page_offset());
    column
        .into_builder()
        .set_data_page_offset(data + by)
        .set_index_page_offset(index.map(|offset| offset + by))
        .set_dictionary_page_offset(dictionary.map(|offset| offset + by))
        .build()
}
