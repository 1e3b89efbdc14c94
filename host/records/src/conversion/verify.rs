//! Verifies records: reads the rows of each output file back and compares them with the digests of
//! the rows that were sent to the writer.

use crate::digest::{HashedColumn, RowHasher};
use crate::flow::{ReadSelection, SplitRows, read};
use crate::rows::{self, Rows};
use arrow_schema::Schema;
use tensorferry_convert::receipt::{ColumnRecord, Problem, RecordsRecord, RowsRecord, Subject, VerifyResult};
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::options;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::file_group::files_alone;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Error, LossKind, Purpose, Result, Severity, arrow_schema, hex};

/// Reads the records back, file by file, and compares them with the receipt. Columns and files with
/// losses are not compared.
pub(super) fn rows(
    checked: &mut VerifyResult,
    source: &FileSource,
    (records, losses): (&RecordsRecord, &[LossRecord<'_>]),
    format: &RegisteredFormat,
    told: &[(String, String)],
    session: &Session,
) -> Result<()> {
    let context = ReadContext::new(session, Purpose::COMPARE);
    let rows = rows::open(source, format, &files_alone(format, told), &context)?;
    let has_header = options::has_header(told);
    let schema = rows.set.schema();
    let is_there = |name: &str| schema.field_with_name(name).is_ok();
    let renamed = renamed(records, losses).find(|name| !is_there(name));
    for field in schema.fields().iter().filter(|_| has_header) {
        if records.columns.iter().any(|column| column.name == *field.name()) {
            continue;
        }
        match renamed {
            Some(other) => checked.left_out.push(format!(
                "column {:?}: the receipt has no digest of it, because {other:?} was written under a different name",
                field.name()
            )),
            None => {
                checked.problems.push(Problem::new(Subject::Column, field.name(), "is not in the receipt"));
            }
        }
    }
    let mut hashed: Vec<Option<HashedColumn>> = Vec::with_capacity(records.columns.len());
    for (place, column) in records.columns.iter().enumerate() {
        let has_digest =
            records.files.iter().any(|file| file.columns.get(place).is_some_and(Option::is_some));
        let compared = match has_digest {
            _ if !has_header => Err("the file has no header with the names of its columns"),
            true => compared(column, &schema).ok_or("it is read back as a different type"),
            // Receipts do not contain digests for some types of values.
            false => Err("the receipt has no digest of it"),
        };
        if let Err(why) = &compared {
            checked.left_out.push(format!("column {:?}: {why}", column.name));
        }
        hashed.push(compared.ok());
    }
    for file in &records.files {
        let found = hash(&rows, file, hashed.iter().flatten().cloned().collect(), session)?;
        let problem = |subject, name: &str, what| Problem::new(subject, name, what);
        let missing = file.rows.saturating_sub(found.0);
        if missing > 0 && file.lost.map_or_else(|| loses_rows(records, losses), |lost| lost == missing) {
            checked.rows += found.0;
            checked.left_out.push(format!(
                "file {:?}: {missing} of its {} records were lost when it was written: its columns are not compared",
                file.name, file.rows
            ));
            continue;
        }
        if found.0 != file.rows {
            let problem = problem(Subject::File, &file.name, "has a different number of records");
            checked.problems.push(problem.differs(file.rows, found.0));
            continue;
        }
        checked.rows += found.0;
        let digests = hashed
            .iter()
            .zip(&file.columns)
            .filter_map(|(hashed, expected)| Some((hashed.as_ref()?, expected.as_ref())));
        // All columns have been hashed, including columns for which the receipt has no digest in
        // this file.
        for ((column, expected), found) in digests.zip(&found.1) {
            if let Some(expected) = expected.filter(|expected| **expected != hex(found)) {
                let problem = problem(Subject::Column, &column.name, "has different content");
                checked.problems.push(problem.differs(expected, hex(found)));
            }
        }
    }
    rows.close()
}

/// Returns the receipt's columns that have different names in the output, or that became several
/// columns.
fn renamed<'a>(records: &'a RecordsRecord, losses: &'a [LossRecord<'_>]) -> impl Iterator<Item = &'a str> {
    let is_name =
        |name: &str| losses.iter().any(|loss| loss.kind == LossKind::Name.word() && loss.what == name);
    records.columns.iter().map(|column| column.name.as_str()).filter(move |name| is_name(name))
}

/// Returns whether a loss describes lost records rather than a column. Older receipts do not count
/// lost records per file, and report them only as losses.
fn loses_rows(records: &RecordsRecord, losses: &[LossRecord<'_>]) -> bool {
    losses.iter().any(|loss| {
        loss.kind == LossKind::Record.word()
            && loss.severity == Severity::Lost.word()
            && records.columns.iter().all(|column| column.name != loss.what)
    })
}

/// Returns the settings for hashing a column in its original type. Returns `None` if columns of
/// this type are not hashed, or if the type that is read back cannot be hashed as the original
/// type. A column that is missing from the output is treated as a column of missing values.
fn compared(column: &ColumnRecord, schema: &Schema) -> Option<HashedColumn> {
    let hashed = HashedColumn::new(&column.name, &column.word)?;
    let found = schema.field_with_name(&column.name);
    found.map_or(true, |found| hashed.takes(found.data_type())).then_some(hashed)
}

/// Returns the number of records in a file, and the digests of the file's columns.
fn hash(
    rows: &Rows<'_>,
    file: &RowsRecord,
    columns: Vec<HashedColumn>,
    session: &Session,
) -> Result<(u64, Vec<tensorferry_tensors::content::ContentDigest>)> {
    let splits = rows.set.splits().iter().enumerate();
    let of_file = splits.filter(|(_, split)| split.file == file.name);
    let of_file = of_file.map(|(split, _)| SplitRows::whole(split)).collect();
    let mut hasher = RowHasher::new(columns, 1);
    std::thread::scope(|scope| {
        let mut flow = read(scope, rows, of_file, ReadSelection::default(), session);
        while let Some(batch) = flow.next()? {
            hasher.add(0, &batch)?;
        }
        Ok::<(), Error>(())
    })?;
    let found = hasher.finish().pop().unwrap_or_default();
    Ok((found.rows, found.columns))
}
