//! Stores the schemas of datasets in files next to the journal. Each file name contains the
//! schema's digest.

use crate::journal;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_sdk::{Error, Result};

/// The folder of a journal, in which schemas are stored.
pub(in crate::run) struct SchemaStore<'a> {
    pub(in crate::run) journal: &'a Path,
    /// Whether to write a file for each schema that does not have one yet.
    pub(in crate::run) writes: bool,
}

impl SchemaStore<'_> {
    /// Returns the path of a schema's file. Returns `None` if the file does not exist and must not
    /// be written.
    pub(super) fn path_of(&self, dataset: &str, schema: &Value) -> Result<Option<PathBuf>> {
        let mut text = serde_json::to_vec_pretty(schema).map_err(|e| Error::io(e.to_string()))?;
        text.push(b'\n');
        let digest = blake3::hash(&text).to_hex();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let dataset: String = dataset.chars().map(plain).collect();
        let name = format!("{}.{dataset}.{}.schema.json", journal::stem(self.journal), &digest[..16]);
        let path = self.journal.with_file_name(name);
        let path = std::path::absolute(&path).map_err(|e| Error::from(e).file(path.display().to_string()))?;
        if std::fs::read(&path).is_ok_and(|there| there == text) {
            return Ok(Some(path));
        }
        if !self.writes {
            return Ok(None);
        }
        fault::reach("schema-found")?;
        let failed = |e: std::io::Error| {
            Error::from(e).context("cannot store the schema of the dataset").file(path.display().to_string())
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut file =
            tempfile::Builder::new().prefix(".ferry-schema-").tempfile_in(folder).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_data()).map_err(failed)?;
        file.persist(&path).map_err(|e| failed(e.error))?;
        fault::reach("schema-kept")?;
        Ok(Some(path))
    }
}
