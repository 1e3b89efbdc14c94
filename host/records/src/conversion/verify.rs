//! Verifying records: the rows of each file of an output, as ferry's own reader reads them back, against
//! the digests of those that were sent.

use crate::digest::{HashedColumn, RowHasher};
use crate::flow::{SplitRows, Wanted, read};
use crate::rows::{self, Rows};
use arrow_schema::Schema;
use tensorferry_convert::receipt::{Checked, ColumnRecord, Problem, RecordsRecord, RowsRecord, Subject};
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::options;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::file_group::files_alone;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Error, LossKind, Purpose, Result, Severity, arrow_schema, hex};

/// Reads the records back, file by file, and compares them. What they lost when they were written is not compared.
pub(super) fn rows(
    checked: &mut Checked,
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
                "column {:?}: the receipt has no digest of it, as {other:?} was written under another name",
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
            _ if !has_header => Err("the file has no header, which would name its columns"),
            true => compared(column, &schema).ok_or("it is read back as another type"),
            // Its values may be such that they cannot even be hashed as they were.
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
            let problem = problem(Subject::File, &file.name, "has another number of records");
            checked.problems.push(problem.differs(file.rows, found.0));
            continue;
        }
        checked.rows += found.0;
        let digests = hashed
            .iter()
            .zip(&file.columns)
            .filter_map(|(hashed, expected)| Some((hashed.as_ref()?, expected.as_ref())));
        // Of those whose digest this file's record lacks, the values have been hashed all the same.
        for ((column, expected), found) in digests.zip(&found.1) {
            if let Some(expected) = expected.filter(|expected| **expected != hex(found)) {
                let problem = problem(Subject::Column, &column.name, "has another content");
                checked.problems.push(problem.differs(expected, hex(found)));
            }
        }
    }
    rows.close()
}

/// The columns of a receipt that have another name in the output, or are several there.
fn renamed<'a>(records: &'a RecordsRecord, losses: &'a [LossRecord<'_>]) -> impl Iterator<Item = &'a str> {
    let is_name =
        |name: &str| losses.iter().any(|loss| loss.kind == LossKind::Name.word() && loss.what == name);
    records.columns.iter().map(|column| column.name.as_str()).filter(move |name| is_name(name))
}

/// Whether a loss concerns records but names no column. It is all that receipts without a count per file say of lost records.
fn loses_rows(records: &RecordsRecord, losses: &[LossRecord<'_>]) -> bool {
    losses.iter().any(|loss| {
        loss.kind == LossKind::Record.word()
            && loss.severity == Severity::Lost.word()
            && records.columns.iter().all(|column| column.name != loss.what)
    })
}

/// How a column is hashed as it was, if what is read back can be. One that is not there has missing values alone.
fn compared(column: &ColumnRecord, schema: &Schema) -> Option<HashedColumn> {
    let hashed = HashedColumn::new(&column.name, &column.word)?;
    let found = schema.field_with_name(&column.name);
    found.map_or(true, |found| hashed.takes(found.data_type())).then_some(hashed)
}

/// How many records a file has, and the digests of their columns.
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
        let mut flow = read(scope, rows, of_file, Wanted::default(), session);
        while let Some(batch) = flow.next()? {
            hasher.add(0, &batch)?;
        }
        Ok::<(), Error>(())
    })?;
    let found = hasher.finish().pop().unwrap_or_default();
    Ok((found.rows, found.columns))
}
