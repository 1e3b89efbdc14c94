//! Drafts the receipt of an output of records. The receipt is drafted while the source is open and
//! the output is staged, as for tensors.

use crate::digest::{FileRows, RowHasher, word};
use crate::schema_file::type_and_shape;
use arrow_schema::{FieldRef, Schema};
use std::sync::Arc;
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::receipt::rows::rows_digest;
use tensorferry_convert::receipt::{ColumnRecord, Receipt, RecordsRecord, RowsRecord};
use tensorferry_convert::receipts::draft::{self, ReceiptFiles, format_record};
use tensorferry_convert::report::Report;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::source::FileSource;
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{Result, Severity, arrow_schema, hex};

pub(crate) struct WrittenRecords<'a> {
    /// The format of the input.
    pub format: &'a RegisteredFormat,
    /// The files of the input.
    pub source: &'a FileSource,
    /// Additional input files that are specified by input options.
    pub additional: &'a [Arc<FileSource>],
    /// The output's files that contain rows.
    pub files: &'a [String],
    /// The number of rows that are missing from each file in `files`, according to the writer's
    /// losses.
    pub(crate) lost_rows: &'a [u64],
    /// The output's other files, such as its index.
    pub sealed: &'a [String],
    /// The columns that were written.
    pub schema: &'a Schema,
    /// The row hasher, which contains a digest of each column in each file.
    pub hasher: Option<&'a RowHasher>,
}

/// Returns the receipt of the output.
pub(crate) fn draft_records(
    context: &ConversionContext<'_>,
    written: &WrittenRecords<'_>,
    stage: &dyn Staging,
    report: &Report,
) -> Result<Receipt> {
    let names = written.source.opened().into_iter();
    let files = ReceiptFiles {
        input: names.map(|name| (written.source, name, name.to_owned(), None)).collect(),
        additional: written.additional,
        output: written.files.iter().chain(written.sealed).map(|name| (name.as_str(), None)).collect(),
    };
    Ok(Receipt {
        records: written.hasher.map(|hasher| records(context, written, hasher, report)),
        ..draft::draft(context, &files, stage, report)?
    })
}

fn records(
    context: &ConversionContext<'_>,
    written: &WrittenRecords<'_>,
    hasher: &RowHasher,
    report: &Report,
) -> RecordsRecord {
    let WrittenRecords { format, schema, files, .. } = written;
    let found = hasher.finish();
    // A reported loss that names a column means that the column was not written completely. Such a
    // column does not get a digest.
    let is_lost =
        |name: &str| report.losses.iter().any(|loss| loss.what == name && loss.severity != Severity::Note);
    let digest = |of: &FileRows, field: &FieldRef| {
        let place = hasher.columns().iter().position(|column| column.name == *field.name())?;
        (!is_lost(field.name())).then(|| of.columns[place])
    };
    let lost_rows = written.lost_rows.iter().copied().chain(std::iter::repeat(0));
    let of_file = |((name, of), lost): ((&String, &FileRows), u64)| RowsRecord {
        name: name.clone(),
        rows: of.rows,
        lost: Some(lost),
        columns: schema.fields().iter().map(|field| Some(hex(&digest(of, field)?))).collect(),
    };
    let digests = found.iter().map(|of| {
        let columns =
            schema.fields().iter().filter_map(|field| Some((field.name().as_str(), digest(of, field)?)));
        (of.rows, columns.collect::<Vec<_>>())
    });
    RecordsRecord {
        from: format_record(context.registry, format),
        rows: found.iter().map(|of| of.rows).sum(),
        content: hex(&rows_digest(digests)),
        columns: schema.fields().iter().map(column).collect(),
        files: files.iter().zip(&found).zip(lost_rows).map(of_file).collect(),
    }
}

fn column(field: &FieldRef) -> ColumnRecord {
    let (_, shape) = type_and_shape(field.data_type());
    ColumnRecord { name: field.name().clone(), word: word(field.data_type()), shape }
}
