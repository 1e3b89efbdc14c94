//! Reads and checks the footer. The checks ensure that every chunk is within the file, and that
//! each flat column has as many values as its row group has rows.

use super::claims;
use super::file::SourceFile;
use crate::fault::catch_panic;
use crate::{ENCRYPTED_MAGIC, MAGIC};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetStatisticsPolicy, RowGroupMetaData,
};
use tensorferry_sdk::{Error, Limits, Result, check_range};

/// Number of bytes after the footer, which contain the footer's length and the magic bytes.
const TAIL: u64 = 8;
/// Approximate memory use of a parsed footer, as a multiple of its length.
const EXPANSION: u64 = 8;
/// For each of this many bytes in the `expanded_bytes` limit, files may contain one value more than
/// their sizes allow. The default limit allows 2^28 such values.
const BYTES_PER_EXTRA_VALUE: u64 = 16;

/// Reads the footer of a file. If the file has more values than its size allows, the number of
/// excess values is subtracted from `free_values`.
pub(super) fn read(file: &SourceFile, limits: &Limits, free_values: &mut u64) -> Result<ParquetMetaData> {
    let (footer_at, metadata) = decode(file, limits, ParquetStatisticsPolicy::SkipAll)?;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        check_group(group, footer_at).map_err(|error| error.context(format!("row group {index}")))?;
    }
    check_sums(&metadata, footer_at, file.len(), free_values)?;
    Ok(metadata)
}

/// Reads the footer again, with the statistics of one leaf column.
pub(super) fn with_statistics(file: &SourceFile, leaf: usize, limits: &Limits) -> Result<ParquetMetaData> {
    Ok(decode(file, limits, ParquetStatisticsPolicy::skip_except(&[leaf]))?.1)
}

/// Returns the offset of the footer, and the footer itself. The caller chooses which statistics are
/// read, because hostile statistics use memory and most scans do not need statistics.
fn decode(
    file: &SourceFile,
    limits: &Limits,
    statistics: ParquetStatisticsPolicy,
) -> Result<(u64, ParquetMetaData)> {
    let len = file.len();
    let tail_at = len.checked_sub(TAIL).filter(|&at| at >= MAGIC.len() as u64);
    let tail_at = tail_at.ok_or_else(|| Error::malformed("the file is too short for Parquet").found(len))?;
    let tail = file.read(tail_at, TAIL)?;
    let magic = &tail[4..];
    if magic == ENCRYPTED_MAGIC {
        return Err(Error::unsupported("the footer is encrypted"));
    }
    if magic != MAGIC {
        return Err(Error::malformed("the file is truncated or not a Parquet file")
            .offset(len - 4)
            .expected("PAR1")
            .found(magic.escape_ascii()));
    }
    let footer_len = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let footer_at = tail_at.checked_sub(footer_len).filter(|&at| at >= MAGIC.len() as u64);
    let footer_at = footer_at.ok_or_else(|| {
        Error::malformed("the footer is longer than the file")
            .offset(tail_at)
            .expected(format!("at most {}", tail_at - MAGIC.len() as u64))
            .found(footer_len)
    })?;
    if footer_len > limits.header_bytes / EXPANSION {
        return Err(Error::limit("the footer is too long")
            .offset(tail_at)
            .expected(format!("at most {}", limits.header_bytes / EXPANSION))
            .found(footer_len));
    }
    let footer = file.read(footer_at, footer_len)?;
    let checked = claims::check(&footer, limits).and_then(|()| claims::with_typed_empty_lists(&footer));
    let footer = checked.map_err(|error| error.context("the footer").offset(footer_at))?;
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(statistics)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata =
        catch_panic(|| ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options)));
    let metadata = metadata.map_err(|error| error.context("the footer").offset(footer_at))?;
    Ok((footer_at, metadata))
}

/// Returns the number of values by which all files of an input together may exceed the numbers that
/// their sizes allow.
pub(super) fn extra_values(limits: &Limits) -> u64 {
    limits.expanded_bytes / BYTES_PER_EXTRA_VALUE
}

/// Checks that chunks do not share bytes and that the number of values is plausible for the size of
/// the file. Shared bytes could be decoded repeatedly.
fn check_sums(metadata: &ParquetMetaData, footer_at: u64, len: u64, free_values: &mut u64) -> Result<()> {
    let (mut stored, mut values): (u64, u64) = (0, 0);
    for group in metadata.row_groups() {
        let before = values;
        for column in group.columns() {
            stored = stored.saturating_add(column.compressed_size().unsigned_abs());
            // In a fixed-length column, a null uses as much memory as any other value.
            let width = if is_fixed_len(column) { column.column_descr().type_length() } else { 0 };
            let weight = u64::from(width.unsigned_abs() / 8) + 1;
            values = values.saturating_add(column.num_values().unsigned_abs().saturating_mul(weight));
        }
        // Rows without columns also take time to read.
        values = values.max(before.saturating_add(group.num_rows().unsigned_abs()));
    }
    if stored > footer_at {
        return Err(Error::malformed("chunks share bytes")
            .expected(format!("at most {footer_at} bytes in total"))
            .found(stored));
    }
    let paid = len.saturating_mul(super::MAX_VALUES_PER_BYTE);
    let left = free_values.checked_sub(values.saturating_sub(paid)).ok_or_else(|| {
        Error::limit("more values than the limit expanded_bytes allows for a file of this size")
            .expected(format!("at most {}", paid.saturating_add(*free_values)))
            .found(values)
    })?;
    *free_values = left;
    Ok(())
}

fn check_group(group: &RowGroupMetaData, footer_at: u64) -> Result<()> {
    if group.num_rows() < 0 {
        return Err(Error::malformed("a negative number of rows").found(group.num_rows()));
    }
    for column in group.columns() {
        check_chunk(column, group.num_rows(), footer_at)
            .map_err(|error| error.column(column.column_path().string()))?;
    }
    Ok(())
}

fn check_chunk(column: &ColumnChunkMetaData, rows: i64, footer_at: u64) -> Result<()> {
    if let Some(path) = column.file_path() {
        return Err(Error::unsupported("a column chunk is in another file").found(format!("{path:?}")));
    }
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let (Ok(start), Ok(len)) = (u64::try_from(start), u64::try_from(column.compressed_size())) else {
        return Err(Error::malformed("a column chunk has a negative offset or length"));
    };
    check_range("", footer_at, start, len).map_err(|_| {
        Error::malformed("a column chunk is not before the footer")
            .offset(start)
            .expected(format!("{len} bytes before {footer_at}"))
    })?;
    let (values, flat) = (column.num_values(), column.column_descr().max_rep_level() == 0);
    if values < 0 || (flat && values != rows) {
        return Err(Error::malformed("the number of values differs from the number of rows")
            .expected(rows)
            .found(values));
    }
    if column.column_descr().type_length() < 0 && is_fixed_len(column) {
        return Err(Error::malformed("values have a negative length"));
    }
    Ok(())
}

fn is_fixed_len(column: &ColumnChunkMetaData) -> bool {
    column.column_type() == parquet::basic::Type::FIXED_LEN_BYTE_ARRAY
}
