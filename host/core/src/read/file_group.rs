//! A file group is the files of a data set that are converted together, into one output.
//!
//! All groups of a data set are read with one schema. The host gives it, and the group's files, to any
//! reader that declares options for them; it knows those by their names alone:
//!
//! | Option | Kind | What the host says with it |
//! |---|---|---|
//! | `schema` | a source | a file as `ferry inspect --schema` prints it: read these columns, and find none yourself |
//! | `infer` | | never said together with `schema`: it would tell the reader how to find one |
//! | `files` | text | `**`: exactly the files that the source lists, and no others that belong to them by name |

use crate::context::session::Session;
use crate::formats::registry::RegisteredFormat;
use crate::read::source::FileSource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Entry, OptionKind, Result, Side};

/// The option that takes a schema.
pub const SCHEMA: &str = "schema";
const INFER: &str = "infer";
/// The option that takes a glob.
pub const FILES: &str = "files";
const EVERY_FILE: &str = "**";

/// Files of a data set that are converted together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileGroup {
    /// The data set's name.
    pub dataset: String,
    /// Its folder, absolute, or the URL of it.
    pub folder: PathBuf,
    /// The files, relative to the folder, sorted.
    pub files: Vec<String>,
    /// The file with the schema that all groups are read with, once it is known. Its name holds its digest.
    pub schema: Option<PathBuf>,
}

impl FileGroup {
    /// The group's files, as one input.
    ///
    /// # Errors
    /// As of `InputFolder::at`.
    pub fn source(&self, session: &Session) -> Result<FileSource> {
        Ok(FileSource::below_path(&self.folder, Entry::Folder, session)?.with_files(self.files.clone()))
    }

    /// What a reader is told: what the user says, which files, and with which schema where it takes one.
    #[must_use]
    pub fn reader_options(
        &self,
        format: &RegisteredFormat,
        given: &[(String, String)],
    ) -> Vec<(String, String)> {
        let mut options = files_alone(format, given);
        if let Some(schema) = &self.schema
            && takes_schema(format, given)
        {
            options.retain(|(key, _)| key != INFER);
            options.push((SCHEMA.to_owned(), schema.display().to_string()));
        }
        options
    }

    /// What has changed of it since `old`, in words.
    #[must_use]
    pub fn differs_from(&self, old: &Self) -> Option<String> {
        let lacks = |of: &Self, name: &String| !of.files.contains(name);
        if let Some(name) = self.files.iter().find(|name| lacks(old, name)) {
            return Some(format!("the file group has another file, {name:?}"));
        }
        if let Some(name) = old.files.iter().find(|name| lacks(self, name)) {
            return Some(format!("the file group has a file less, {name:?}"));
        }
        if self.folder != old.folder {
            return Some(format!("the data set was in {}", old.folder.display()));
        }
        match (&self.schema, &old.schema) {
            (Some(new), Some(old)) if new != old => {
                let column = columns(new).zip(columns(old)).and_then(|(new, old)| differing(&old, &new));
                let column = column.map_or_else(String::new, |column| format!(": {column}"));
                Some(format!("the schema of the data set changed{column}"))
            }
            (None, Some(_)) => Some("the schema of the data set has to be found again".to_owned()),
            (Some(_), None) => Some("the schema of the data set is its own now, and was given".to_owned()),
            _ => None,
        }
    }
}

/// The options with which a reader takes exactly the files that its source lists.
#[must_use]
pub fn files_alone(format: &RegisteredFormat, given: &[(String, String)]) -> Vec<(String, String)> {
    let mut options = given.to_vec();
    if declares(format, FILES, &OptionKind::Text) && !options.iter().any(|(key, _)| key == FILES) {
        options.push((FILES.to_owned(), EVERY_FILE.to_owned()));
    }
    options
}

/// Whether a reader takes a schema beside what the user says.
#[must_use]
pub fn takes_schema(format: &RegisteredFormat, given: &[(String, String)]) -> bool {
    let is_given = given.iter().any(|(key, _)| key == SCHEMA);
    if is_given || !declares(format, SCHEMA, &OptionKind::Source) {
        return false;
    }
    let mut options: Vec<(String, String)> = given.iter().filter(|(key, _)| key != INFER).cloned().collect();
    options.push((SCHEMA.to_owned(), String::new()));
    // Where the user says what contradicts any schema: raw records.
    format.takes(Side::Reader, &options)
}

fn declares(format: &RegisteredFormat, key: &str, kind: &OptionKind) -> bool {
    let mut options = format.description.options.iter();
    options.any(|option| option.side == Side::Reader && option.key == key && option.kind == *kind)
}

fn columns(schema: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(schema).ok()?).ok()
}

/// The first column that two schemas have otherwise: `column "a" is int64, was float32`.
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

/// The first column that two schemas have otherwise, and what it is in each.
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

/// `int64 [28, null]`, and what else a format says of the column.
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
        for (new, said) in [
            (group(&["a", "b", "c"], Some("/x.json")), "another file, \"c\""),
            (group(&["a"], Some("/x.json")), "a file less, \"b\""),
            (group(&["a", "b"], Some("/y.json")), "the schema of the data set changed"),
            (group(&["a", "b"], None), "has to be found again"),
        ] {
            let text = new.differs_from(&old).unwrap();
            assert!(text.contains(said), "{text}");
        }
    }
}
