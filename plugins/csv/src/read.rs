//! The reader. It reads the header of each file, and then infers the column types from every row,
//! unless the options set the types or limit the number of rows. If the host reads the input only
//! once, the reader first guesses the types. Each run of consecutive rows becomes a split.

mod cast;
mod column;
mod fault;
mod guess;
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
use stream::Columns;
use tensorferry_row_text::{ColumnLosses, TextFile, exact, uncompressed_name};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{BatchStream, RecordReader, RecordSet, ScanRequest, Split, difference};
use tensorferry_sdk::{Context, Error, Limits, Loss, LossKind, LossSink, Result, Source};

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
        let (mut origin, mut guessed) = (SchemaOrigin::File, Vec::new());
        let (schema, places) = match &self.0.schema {
            Some(path) => schema_file::read(path, &names, self.0.form.has_header, context)?,
            None => {
                let kinds = if let Some(guess) = guess::guess(&runs, names.len(), &self.0, context)? {
                    (origin, runs) = (SchemaOrigin::Guess, guess.runs);
                    guessed.clone_from(&guess.kinds);
                    guess.kinds
                } else {
                    let is_scanned = self.0.infer.is_none();
                    origin = if is_scanned { SchemaOrigin::AllRows } else { SchemaOrigin::FirstRows };
                    infer::infer(&mut runs, names.len(), &self.0, context)?
                };
                let columns = || names.iter().zip(&kinds);
                for (name, _) in columns().filter(|(_, kind)| kind.loses_digits()) {
                    losses.loss(Loss::new(LossKind::Precision, name, exact::LOST_DIGITS))?;
                }
                let fields: Vec<Field> =
                    columns().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect();
                (Arc::new(Schema::new(fields)), (0..names.len()).collect())
            }
        };
        let splits = runs.iter().map(Run::split).collect();
        let (nulls, losses) = (self.0.nulls.clone(), ColumnLosses::default());
        let columns = Arc::new(Columns { schema, places, nulls, origin, guessed, losses });
        Ok(Box::new(CsvSet { columns, count: names.len(), runs, splits, limits: limits.clone() }))
    }
}

/// The source of the column types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaOrigin {
    /// The values of all rows. All losses of data in the values have already been reported.
    AllRows,
    /// The values of the first rows of each file. A later value of a different kind is an error
    /// instead of being converted.
    FirstRows,
    /// A guess that each value must confirm.
    Guess,
    /// A schema file.
    File,
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
    let first = String::from_utf8_lossy(rows.field(0).raw()).to_ascii_lowercase();
    if NOT_A_TABLE.iter().any(|start| first.starts_with(start)) {
        return Err(rows.at(Error::malformed("the file is not a table").found(format!("{first:.60?}"))));
    }
    let count = rows.len();
    if !run.file().has_header {
        return Ok(Some((0..count).map(|place| format!("f{place}")).collect()));
    }
    let mut names = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    for place in 0..count {
        let name = rows.text(&rows.field(place), None)?.into_owned();
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
    columns: Arc<Columns>,
    /// Number of fields in a row.
    count: usize,
    runs: Vec<Run>,
    splits: Vec<Split>,
    limits: Limits,
}

impl RecordSet for CsvSet {
    fn schema(&self) -> SchemaRef {
        self.columns.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Parses only the requested fields.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let run = self.runs.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let rows = Rows::new(run, Some(self.count), &self.limits)?;
        stream::open(rows, &self.columns, scan)
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        self.columns.losses.report(losses)
    }
}

/// Returns whether a file with this name in a folder contains data.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(uncompressed_name(name), SUFFIXES)
}
