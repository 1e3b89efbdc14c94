//! A file group is a group of dataset files that are converted together into one output.
//!
//! All groups of a dataset are read with the same schema. The host passes the schema and the
//! group's files to every reader that declares the following options:
//!
//! | Option | Kind | Value passed by the host |
//! |---|---|---|
//! | `schema` | a source | the output of `ferry inspect --schema`: read these columns instead of inferring columns |
//! | `infer` | | never passed with `schema`, because it controls how the reader infers a schema |
//! | `files` | text | `**`: read exactly the files that the source lists, and no other files with related names |

use crate::context::session::Session;
use crate::formats::registry::RegisteredFormat;
use crate::read::source::FileSource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Entry, OptionKind, Result, Side};

/// The reader option for the schema of the dataset.
pub const SCHEMA: &str = "schema";
const INFER: &str = "infer";
/// The reader option for a glob that selects files.
pub const FILES: &str = "files";
const EVERY_FILE: &str = "**";

/// The files of a dataset that are converted together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileGroup {
    pub dataset: String,
    /// The dataset's folder, as an absolute path or a URL.
    pub folder: PathBuf,
    /// The paths of the files, relative to the folder and sorted.
    pub files: Vec<String>,
    /// The schema file for all groups, or `None` if it is not known yet. The file name contains the
    /// file's digest.
    pub schema: Option<PathBuf>,
}

impl FileGroup {
    /// Returns the group's files as one input.
    pub fn source(&self, session: &Session) -> Result<FileSource> {
        Ok(FileSource::below_path(&self.folder, Entry::Folder, session)?.with_files(self.files.clone()))
    }

    /// Returns the reader's options: the user's options, the group's files, and the schema if the
    /// reader accepts a schema.
    #[must_use]
    pub fn reader_options(
        &self,
        format: &RegisteredFormat,
        given: &[(String, String)],
    ) -> Vec<(String, String)> {
        let mut options = files_alone(format, given);
        if let Some(schema) = &self.schema
            && accepts_schema(format, given)
        {
            options.retain(|(key, _)| key != INFER);
            options.push((SCHEMA.to_owned(), schema.display().to_string()));
        }
        options
    }

    /// Describes how this group differs from the group `old`.
    #[must_use]
    pub fn differs_from(&self, old: &Self) -> Option<String> {
        let lacks = |of: &Self, name: &String| !of.files.contains(name);
        if let Some(name) = self.files.iter().find(|name| lacks(old, name)) {
            return Some(format!("the file group has a new file, {name:?}"));
        }
        if let Some(name) = old.files.iter().find(|name| lacks(self, name)) {
            return Some(format!("the file group no longer has the file {name:?}"));
        }
        if self.folder != old.folder {
            return Some(format!("the dataset was in {}", old.folder.display()));
        }
        match (&self.schema, &old.schema) {
            (Some(new), Some(old)) if new != old => {
                let column = columns(new).zip(columns(old)).and_then(|(new, old)| differing(&old, &new));
                let column = column.map_or_else(String::new, |column| format!(": {column}"));
                Some(format!("the schema of the dataset changed{column}"))
            }
            (None, Some(_)) => Some("the schema of the dataset has to be inferred again".to_owned()),
            (Some(_), None) => Some("the dataset now uses its own schema instead of a given one".to_owned()),
            _ => None,
        }
    }
}

/// Returns the reader options, extended so that the reader reads exactly the files that its source
/// lists.
#[must_use]
pub fn files_alone(format: &RegisteredFormat, given: &[(String, String)]) -> Vec<(String, String)> {
    let mut options = given.to_vec();
    if declares(format, FILES, &OptionKind::Text) && !options.iter().any(|(key, _)| key == FILES) {
        options.push((FILES.to_owned(), EVERY_FILE.to_owned()));
    }
    options
}

/// Returns whether a reader accepts a schema in addition to the user's options.
#[must_use]
pub fn accepts_schema(format: &RegisteredFormat, given: &[(String, String)]) -> bool {
    let is_given = given.iter().any(|(key, _)| key == SCHEMA);
    if is_given || !declares(format, SCHEMA, &OptionKind::Source) {
        return false;
    }
    let mut options: Vec<(String, String)> = given.iter().filter(|(key, _)| key != INFER).cloned().collect();
    options.push((SCHEMA.to_owned(), String::new()));
    // Some user options, such as the options for raw records, cannot be combined with a schema.
    format.takes(Side::Reader, &options)
}

fn declares(format: &RegisteredFormat, key: &str, kind: &OptionKind) -> bool {
    let mut options = format.description.options.iter();
    options.any(|option| option.side == Side::Reader && option.key == key && option.kind == *kind)
}

fn columns(schema: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(schema).ok()?).ok()
}

/// Describes the first column that differs between two schemas: `column "a" is int64, was float32`.
#[must_use]
pub fn differing(old: &Value, new: &Value) -> Option<String> {
    let (column, was, is) = first_difference(old, new)?;
    Some(match (was, is) {
        (None, Some(_)) => format!("column {column:?} is new"),
        (Some(_), None) => format!("column {column:?} is gone"),
        (was, is) => {
            format!("column {column:?} is {}, was {}", is.unwrap_or_default(), was.unwrap_or_default())
        }
    })
}

/// Returns the first column that differs between two schemas, with both types.
#[must_use]
pub fn first_difference(old: &Value, new: &Value) -> Option<(String, Option<String>, Option<String>)> {
    let columns = |of: &Value| of["columns"].as_array().cloned().unwrap_or_default();
    let name = |column: &Value| column["name"].as_str().unwrap_or_default().to_owned();
    let (old, new) = (columns(old), columns(new));
    let find = |of: &[Value], wanted: &str| of.iter().find(|column| name(column) == wanted).cloned();
    let changed = new.iter().chain(&old).map(name).find(|name| find(&old, name) != find(&new, name))?;
    let of = |list: &[Value]| find(list, &changed).map(|column| type_of(&column));
    Some((changed.clone(), of(&old), of(&new)))
}

/// Returns the type of a column, such as `int64 [28, null]`, followed by the column's other
/// properties.
fn type_of(column: &Value) -> String {
    let mut text = column["type"].as_str().unwrap_or_default().to_owned();
    for (key, value) in column.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("name" | "type", _) => {}
            ("shape", shape) => text += &format!(" {shape}"),
            (key, value) => text += &format!(" {key}={value}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_differ_in_a_column() {
        let of = |columns: Value| json!({ "columns": columns });
        let one = of(json!([{"name": "a", "type": "int64"}]));
        let list = of(json!([{"name": "a", "type": "int64", "shape": [null]}]));
        let two = of(json!([{"name": "a", "type": "int64"}, {"name": "b", "type": "utf8"}]));
        assert_eq!(differing(&one, &one), None);
        assert_eq!(differing(&one, &list).unwrap(), "column \"a\" is int64 [null], was int64");
        assert_eq!(differing(&one, &two).unwrap(), "column \"b\" is new");
        assert_eq!(differing(&two, &one).unwrap(), "column \"b\" is gone");
    }

    #[test]
    fn what_a_group_has_otherwise() {
        let group = |files: &[&str], schema: Option<&str>| FileGroup {
            dataset: "d".to_owned(),
            folder: "/in".into(),
            files: files.iter().map(|&file| file.to_owned()).collect(),
            schema: schema.map(Into::into),
        };
        let old = group(&["a", "b"], Some("/x.json"));
        assert_eq!(old.differs_from(&old), None);
        for (new, declared) in [
            (group(&["a", "b", "c"], Some("/x.json")), "a new file, \"c\""),
            (group(&["a"], Some("/x.json")), "no longer has the file \"b\""),
            (group(&["a", "b"], Some("/y.json")), "the schema of the dataset changed"),
            (group(&["a", "b"], None), "has to be inferred again"),
        ] {
            let text = new.differs_from(&old).unwrap();
            assert!(text.contains(declared), "{text}");
        }
    }
}
