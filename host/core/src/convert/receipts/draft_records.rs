//! Drafting the receipt of records: as of tensors, from what was read, while its source is open and its
//! output is staged.

use super::draft::{absolute, format_record, head};
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::report::Report;

use crate::formats::registry::Registry;
use crate::formats::used::UsedFormat;
use crate::publish::stage::Stage;
use crate::read::source::FileSource;
use crate::receipt::{
    ColumnRecord, FileRecord, Files, FormatRecord, InputRecord, LentRecord, Receipt, RecordsRecord,
    RowsRecord,
};
use crate::records::digest::{FileRows, RowHasher, content, word};
use crate::records::schema_file::type_and_shape;
use crate::tensors::stored::hex;
use crate::write::target::Resolved;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{FieldRef, Schema};
use tensorferry_sdk::{Result, arrow_schema};

/// A conversion into records whose output is staged and not committed yet.
pub struct RowsConversion<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// The plugins.
    pub registry: &'a Registry,
    /// What is written where.
    pub target: &'a Resolved<'a>,
    /// The formats that it was read as.
    pub readers: &'a [UsedFormat],
    /// What was read.
    pub source: &'a FileSource,
    /// The inputs that options of the reader name.
    pub lent: &'a [Arc<FileSource>],
    /// Where the output's files lie.
    pub stage: &'a Stage,
    /// The output's files, by relative name.
    pub files: &'a [String],
    /// The columns that were written.
    pub schema: &'a Schema,
    /// What went into each of the files.
    pub hasher: &'a RowHasher,
    /// What is known of it so far.
    pub report: &'a Report,
}

/// The receipt of a conversion into records.
///
/// # Errors
/// Whatever reading its files gives.
pub fn draft_rows(conversion: &RowsConversion<'_>, session: &Session) -> Result<Receipt> {
    let RowsConversion { request, registry, target, report, .. } = conversion;
    Ok(Receipt {
        records: Some(records(conversion)),
        ..head(request, registry, target, report, files(conversion, session)?)
    })
}

/// Hashes the files of the input and of the output, all in one go.
fn files(conversion: &RowsConversion<'_>, session: &Session) -> Result<(InputRecord, Vec<FileRecord>)> {
    let RowsConversion { request, source, lent, stage, .. } = *conversion;
    let mut files = Files::default();
    for name in source.opened() {
        files.add_source(source, name, name.to_owned())?;
    }
    for source in lent {
        for name in source.opened() {
            files.add_source(source, name, name.to_owned())?;
        }
    }
    for name in conversion.files {
        files.add_path(stage.path(name), name.clone())?;
    }
    let mut records = files.digest(session)?.into_iter();
    let of_input = records.by_ref().take(source.opened().len()).collect();
    let lent = lent.iter().map(|source| {
        let files = records.by_ref().take(source.opened().len()).collect();
        Ok(LentRecord { folder: absolute(source.folder())?, files })
    });
    let input = InputRecord {
        path: absolute(&request.input)?,
        folder: absolute(source.folder())?,
        options: request.reader_options.clone(),
        files: of_input,
        lent: lent.collect::<Result<_>>()?,
    };
    Ok((input, records.collect()))
}

fn records(conversion: &RowsConversion<'_>) -> RecordsRecord {
    let RowsConversion { registry, readers, schema, hasher, files, report, .. } = conversion;
    let found = hasher.finish();
    // What is written of a column that a loss names is less than was read of it.
    let is_lost = |name: &str| report.losses.iter().any(|loss| loss.what == name);
    let digest = |of: &FileRows, field: &FieldRef| {
        let place = hasher.columns().iter().position(|column| column.name == *field.name())?;
        (!is_lost(field.name())).then(|| of.columns[place])
    };
    let of_file = |(name, of): (&String, &FileRows)| RowsRecord {
        name: name.clone(),
        rows: of.rows,
        columns: schema.fields().iter().map(|field| Some(hex(&digest(of, field)?))).collect(),
    };
    let digests = found.iter().map(|of| {
        let columns =
            schema.fields().iter().filter_map(|field| Some((field.name().as_str(), digest(of, field)?)));
        (of.rows, columns.collect::<Vec<_>>())
    });
    RecordsRecord {
        from: from(registry, readers),
        rows: found.iter().map(|of| of.rows).sum(),
        content: hex(&content(digests)),
        columns: schema.fields().iter().map(column).collect(),
        files: files.iter().zip(&found).map(of_file).collect(),
    }
}

fn column(field: &arrow_schema::FieldRef) -> ColumnRecord {
    let (_, shape) = type_and_shape(field.data_type());
    ColumnRecord { name: field.name().clone(), word: word(field.data_type()), shape }
}

fn from(registry: &Registry, readers: &[UsedFormat]) -> FormatRecord {
    let used = readers.first();
    let format =
        registry.formats().iter().find(|format| used.is_some_and(|used| used.id == format.description.id));
    match format {
        Some(format) => format_record(registry, format),
        None => FormatRecord {
            id: String::new(),
            plugin: String::new(),
            version: String::new(),
            output_revision: 0,
        },
    }
}
