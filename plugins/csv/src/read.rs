//! The reader. It reads the header of each file, and then infers the column types from every row,
//! unless the options set the types or limit the number of rows. Each run of consecutive rows
//! becomes a split.

mod fault;
mod infer;
mod rows;
mod schema_file;
mod stream;

use crate::SUFFIXES;
use crate::dialect::Dialect;
use crate::options::ReadOptions;
use rows::{DataFile, Rows, Run};
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_row_text::{ColumnLosses, TextFile, uncompressed_name};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{BatchStream, RecordReader, RecordSet, ScanRequest, Split, difference};
use tensorferry_sdk::{Context, Error, Limits, LossSink, Result, Source};

pub(crate) struct Reader(pub(crate) ReadOptions);

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let limits = context.limits();
        let mut names: Option<(Vec<String>, String)> = None;
        let mut runs = Vec::new();
        let files = entry_files(source.as_ref(), is_member)?;
        for name in file_name::require(files, "no CSV files here", "*.csv or *.tsv")? {
            context.check_cancelled()?;
            let form = &self.0.form;
            let dialect = Dialect::of(&name, form.delimiter, form.quote);
            let text = TextFile::open(&source, &name)?;
            let file = Arc::new(DataFile { text, dialect, has_header: form.has_header });
            let run = Run::whole(file);
            // A file without lines has no columns and no rows.
            if let Some(found) = header(&run, limits)? {
                match &names {
                    None => names = Some((found, name)),
                    Some((first, of)) => {
                        let (first, own) = (text_fields(first), text_fields(&found));
                        if let Some(error) = difference((of, &first), (&name, &own), &|_, _| true) {
                            return Err(error);
                        }
                    }
                }
            }
            runs.push(run);
        }
        let names = names.map(|(names, _)| names).unwrap_or_default();
        if let (None, [only]) = (self.0.form.delimiter, &*names) {
            hint_at_delimiter(only, context);
        }
        let (schema, places) = match &self.0.schema {
            Some(path) => schema_file::read(path, &names, self.0.form.has_header, context)?,
            None => {
                let kinds = infer::infer(&mut runs, &names, &self.0, losses, context)?;
                let field =
                    |(name, kind): (&String, crate::kind::Kind)| Field::new(name, kind.data_type(), true);
                let fields: Vec<Field> = names.iter().zip(kinds).map(field).collect();
                (Arc::new(Schema::new(fields)), (0..names.len()).collect())
            }
        };
        let splits = runs.iter().map(Run::split).collect();
        let (count, nulls) = (names.len(), self.0.nulls.clone());
        // If the types were inferred from every value, all losses of data in the values have
        // already been reported.
        let is_scanned = self.0.schema.is_none() && self.0.infer.is_none();
        let losses = (!is_scanned).then(ColumnLosses::default);
        let is_guessed = self.0.infer.is_some();
        let limits = limits.clone();
        Ok(Box::new(CsvSet { schema, places, count, nulls, losses, is_guessed, runs, splits, limits }))
    }
}

/// Returns string columns with these names. The string columns are used until the types are known.
fn text_fields(names: &[String]) -> Vec<FieldRef> {
    names.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true))).collect()
}

/// Suggests a delimiter if the file has only one column and the column's name contains a common
/// delimiter.
fn hint_at_delimiter(only: &str, context: &dyn Context) {
    if let Some(other) = [';', '\t', '|', ','].into_iter().find(|other| only.contains(*other)) {
        let word = if other == '\t' { "tab".to_owned() } else { format!("'{other}'") };
        context.note(&format!("the only column is {only:?}: pass -i delimiter={word} to split it"));
    }
}

/// Beginnings of files that are not tables despite their names: Git LFS pointers, and web pages
/// from failed downloads.
const NOT_A_TABLE: [&str; 4] =
    ["version https://git-lfs.github.com/spec/", "<!doctype html", "<html", "<?xml"];

/// Returns the names of a file's columns, or `None` if the file has no lines.
fn header(run: &Run, limits: &Limits) -> Result<Option<Vec<String>>> {
    let mut rows = Rows::new(run, None, limits)?;
    if !rows.advance()? {
        return Ok(None);
    }
    let first = String::from_utf8_lossy(rows.raw(0)).to_ascii_lowercase();
    if NOT_A_TABLE.iter().any(|start| first.starts_with(start)) {
        return Err(rows.at(Error::malformed("the file is not a table").found(format!("{first:.60?}"))));
    }
    let count = rows.fields().len();
    if !run.file().has_header {
        return Ok(Some((0..count).map(|place| format!("f{place}")).collect()));
    }
    let mut names = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    for place in 0..count {
        let name = rows.text(place)?.into_owned();
        if !seen.insert(name.clone()) {
            let error = Error::malformed("two columns have the same name")
                .hint("pass -i header=false to read the header as a row");
            return Err(rows.at(error.column(name)));
        }
        names.push(name);
    }
    Ok(Some(names))
}

struct CsvSet {
    schema: SchemaRef,
    /// Field index of each column, and number of fields in a row.
    places: Vec<usize>,
    count: usize,
    nulls: Vec<String>,
    losses: Option<ColumnLosses>,
    /// Whether the types were inferred from only some of the rows.
    is_guessed: bool,
    runs: Vec<Run>,
    splits: Vec<Split>,
    limits: Limits,
}

impl RecordSet for CsvSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Parses only the requested fields.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let run = self.runs.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let rows = Rows::new(run, Some(self.count), &self.limits)?;
        let losses = self.losses.clone();
        stream::open(rows, &self.schema, &self.places, &self.nulls, scan, losses, self.is_guessed)
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        self.losses.iter().try_for_each(|seen| seen.report(losses))
    }
}

/// Returns whether a file with this name in a folder contains data.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(uncompressed_name(name), SUFFIXES)
}
