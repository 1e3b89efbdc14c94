//! Partitions in the layout that Hive and Spark use: folders with names such as `key=value`. A
//! folder name sets the value of a column for all rows in the folder. The files themselves do not
//! contain this column.
//!
//! ferry reads partitions in the same way as `pyarrow.dataset` with `partitioning="hive"`:
//!
//! - The partition columns follow the columns of the files, in the order in which their keys are
//!   found.
//! - A column is `Int32` if every value is a 32-bit integer. Otherwise, it is `Utf8`.
//! - `%20` represents a space.
//! - `__HIVE_DEFAULT_PARTITION__` represents null. If a file is not inside any folder of a key, the
//!   key's column contains nulls for this file.
//! - Files are sorted by path.

use super::is_member;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{
    ArrayRef, Int32Array, RecordBatch, RecordBatchIterator, RecordBatchOptions, StringArray, new_null_array,
};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tensorferry_sdk::records::{BatchStream, Bounds, ComparedValue, Comparison, FieldPath, ScanRequest};
use tensorferry_sdk::{Context, Error, Result, Source};

const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// Maximum depth of folders. Real datasets have fewer partition keys.
const MAX_DEPTH: usize = 16;

/// A file, and the keys and values in the names of its folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataFile {
    pub(super) name: String,
    keys: Vec<(String, Option<String>)>,
}

impl DataFile {
    /// Returns a file outside of partition folders.
    pub(super) fn plain(name: String) -> Self {
        Self { name, keys: Vec::new() }
    }
}

/// Returns the Parquet files in a folder and its partition folders. Other folders are skipped, and
/// the host reports them.
pub(super) fn members(source: &dyn Source, context: &dyn Context) -> Result<Vec<DataFile>> {
    let mut members = Vec::new();
    let mut open = vec![DataFile::plain(String::new())];
    let mut seen = 0;
    while let Some(DataFile { name: folder, keys }) = open.pop() {
        context.check_cancelled()?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (names, folders) = (source.list(&prefix)?, source.folders(&folder)?);
        seen += names.len() as u64 + folders.len() as u64;
        let max = context.limits().entries;
        if seen > max {
            return Err(Error::limit("too many files").expected(format!("at most {max}")).found(seen));
        }
        let names = names.into_iter().filter(|name| is_member(name));
        members.extend(names.map(|name| DataFile { name, keys: keys.clone() }));
        for below in folders {
            match partition(&below) {
                Some(_) if keys.len() == MAX_DEPTH => {
                    let error = Error::limit("partitions within partitions");
                    return Err(error.file(below).expected(format!("at most {MAX_DEPTH} levels")));
                }
                Some((key, _)) if keys.iter().any(|(known, _)| *known == key) => {
                    return Err(Error::malformed(
                        "a partition folder repeats the key of an enclosing folder",
                    )
                    .file(&folder)
                    .column(key));
                }
                Some(key) => {
                    let keys = keys.iter().cloned().chain([key]).collect();
                    open.push(DataFile { name: below, keys });
                }
                None => {}
            }
        }
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}

/// Returns whether the source contains a Parquet file. Searches the root folder, then its first
/// partition folder, then the first partition folder in that folder, and so on.
pub(crate) fn has_partitions(source: &dyn Source) -> Result<bool> {
    let mut folder = String::new();
    for _ in 0..=MAX_DEPTH {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        if source.list(&prefix)?.iter().any(|name| is_member(name)) {
            return Ok(true);
        }
        match source.folders(&folder)?.into_iter().find(|below| partition(below).is_some()) {
            Some(below) => folder = below,
            None => break,
        }
    }
    Ok(false)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_hidden(path: &str) -> bool {
    base(path).starts_with(['.', '_'])
}

/// Parses the key and the value in a folder's name.
fn partition(path: &str) -> Option<(String, Option<String>)> {
    let (key, value) = base(path).split_once('=').filter(|(key, _)| !key.is_empty())?;
    let value = (value != NULL).then(|| percent_decoded(value));
    (!is_hidden(path)).then(|| (percent_decoded(key), value))
}

/// Decodes percent escapes such as `%20`. A string with invalid escapes is returned unchanged.
fn percent_decoded(text: &str) -> String {
    let (bytes, mut plain, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(code) => {
                plain.push(code);
                at += 3;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).unwrap_or_else(|_| text.to_owned())
}

/// Columns whose values are taken from folder names.
pub(super) struct Partitions {
    fields: Vec<FieldRef>,
    /// Number of columns in the files.
    own: usize,
    /// For each file, the value of each partition column.
    values: Vec<Vec<Option<String>>>,
}

impl Partitions {
    /// Determines the partition columns of files that contain the columns `own`. The function also
    /// returns a schema that contains the columns `own` and the partition columns.
    pub(super) fn new(members: &[DataFile], own: &SchemaRef) -> Result<(Self, SchemaRef)> {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in members.iter().flat_map(|member| &member.keys) {
            if !keys.contains(&&**key) {
                keys.push(key);
            }
        }
        if let Some(key) = keys.iter().find(|key| own.field_with_name(key).is_ok()) {
            let error = Error::malformed("a column is both in the files and in the names of their folders");
            return Err(error.column(*key).file(&members[0].name));
        }
        let value = |member: &DataFile, key: &str| {
            member.keys.iter().rev().find(|(other, _)| other == key).and_then(|(_, value)| value.clone())
        };
        let values: Vec<Vec<Option<String>>> =
            members.iter().map(|member| keys.iter().map(|key| value(member, key)).collect()).collect();
        let field = |(place, key): (usize, &&str)| {
            let mut all = values.iter().filter_map(|values| values[place].as_deref()).peekable();
            let is_number = all.peek().is_some() && all.all(|value| number(value).is_some());
            let data_type = if is_number { DataType::Int32 } else { DataType::Utf8 };
            Arc::new(Field::new(*key, data_type, true))
        };
        let fields: Vec<FieldRef> = keys.iter().enumerate().map(field).collect();
        let all: Vec<FieldRef> = own.fields().iter().chain(&fields).cloned().collect();
        let schema = Arc::new(Schema::new_with_metadata(all, own.metadata().clone()));
        Ok((Self { own: own.fields().len(), fields, values }, schema))
    }

    /// Splits a scan into a scan of the files and the indices of the requested partition columns.
    pub(super) fn divide(&self, scan: &ScanRequest) -> (ScanRequest, Vec<usize>) {
        let all = || (0..self.own + self.fields.len()).map(|column| vec![column]).collect();
        let columns: Vec<FieldPath> = scan.columns.clone().unwrap_or_else(all);
        let is_own = |path: &FieldPath| path.first().is_some_and(|&column| column < self.own);
        let (own, keys): (Vec<FieldPath>, Vec<FieldPath>) = columns.into_iter().partition(is_own);
        let keys = keys.iter().flatten().map(|column| column.saturating_sub(self.own)).collect();
        (ScanRequest { columns: Some(own), ..scan.clone() }, keys)
    }

    /// Returns the index of the partition column in a comparison.
    pub(super) fn key(&self, comparison: &Comparison) -> Option<usize> {
        comparison.column.first()?.checked_sub(self.own)
    }

    /// Returns whether a comparison with a partition column is false for every row of a file.
    pub(super) fn excludes(&self, file: usize, key: usize, comparison: &Comparison) -> bool {
        let Some(field) = self.fields.get(key) else { return false };
        let Some(value) = self.values.get(file).and_then(|values| values.get(key)) else { return false };
        let known = value.as_deref().map(|text| match number(text) {
            Some(number) if *field.data_type() == DataType::Int32 => ComparedValue::Int(number.into()),
            _ => ComparedValue::Bytes(text.as_bytes().to_vec()),
        });
        let nulls = Some(u64::from(known.is_none()));
        comparison.excludes(&Bounds { min: known.clone(), max: known, nulls, rows: 1 })
    }

    /// Adds the partition columns `keys` to the batches of a file.
    pub(super) fn add_columns(
        &self,
        stream: BatchStream,
        file: usize,
        keys: &[usize],
    ) -> Result<BatchStream> {
        if keys.is_empty() {
            return Ok(stream);
        }
        let added = keys.iter().map(|&key| {
            let field = self.fields.get(key)?;
            Some((field.clone(), self.values.get(file)?.get(key)?.clone()))
        });
        let added: Option<Vec<(FieldRef, Option<String>)>> = added.collect();
        let added = added.ok_or_else(|| Error::plugin("no such column"))?;
        let own = stream.schema();
        let fields: Vec<FieldRef> =
            own.fields().iter().cloned().chain(added.iter().map(|(field, _)| field.clone())).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, own.metadata().clone()));
        let of_batches = schema.clone();
        let add = move |batch: RecordBatch| {
            let rows = batch.num_rows();
            let mut columns = batch.columns().to_vec();
            columns.extend(added.iter().map(|(field, value)| repeated(field, value.as_deref(), rows)));
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(of_batches.clone(), columns, &options)
        };
        Ok(Box::new(RecordBatchIterator::new(stream.map(move |batch| batch.and_then(&add)), schema)))
    }
}

/// Parses a number according to pyarrow's rules.
fn number(text: &str) -> Option<i32> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn repeated(field: &Field, value: Option<&str>, rows: usize) -> ArrayRef {
    match (value, value.and_then(number)) {
        (Some(_), Some(number)) if *field.data_type() == DataType::Int32 => {
            Arc::new(Int32Array::from_value(number, rows))
        }
        (Some(text), _) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))),
        (None, _) => new_null_array(field.data_type(), rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    #[test]
    fn a_folders_name_is_a_key_and_a_value() {
        let of = |key: &str, value: Option<&str>| Some((key.to_owned(), value.map(str::to_owned)));
        assert_eq!(partition("a/year=2024"), of("year", Some("2024")));
        assert_eq!(partition("city=New%20York"), of("city", Some("New York")));
        assert_eq!(partition("a=b=c"), of("a", Some("b=c")));
        assert_eq!(partition("a="), of("a", Some("")));
        assert_eq!(partition("a=%zz%4"), of("a", Some("%zz%4")));
        assert_eq!(partition("year=__HIVE_DEFAULT_PARTITION__"), of("year", None));
        for other in ["plain", "=1", "_a=1", ".a=1"] {
            assert_eq!(partition(other), None, "{other}");
        }
    }

    #[test]
    fn a_path_has_a_key_once() {
        let found = |name: &str| {
            let source = MemorySource::folder([(name.to_owned(), Vec::new())]);
            members(&source, &MemoryContext::default()).map(|members| members.len())
        };
        assert_eq!(found("k=1/l=2/f.parquet").ok(), Some(1));
        assert!(found("k=1/k=2/f.parquet").is_err_and(|error| error.to_string().contains("repeats the key")));
    }
}
