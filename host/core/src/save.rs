//! Writing tensors that a program has in memory.

use crate::convert;
use crate::convert::report::Report;
use crate::convert::{OutputRequest, Request};
use crate::formats::registry::Registry;
use crate::publish::commit::CommitOptions;
use std::collections::HashSet;
use std::path::Path;
use tensorferry_sdk::{
    CatalogBuilder, CatalogSink, Dtype, Entry, Error, MemorySource, Result, Storage, element_count,
};

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct NewTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

impl NewTensor {
    /// A tensor of these bytes: row-major, little-endian, as many as dtype and shape need. A vector is taken
    /// over, a slice copied.
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), bytes: bytes.into() }
    }
}

/// How tensors are to be written; [`Registry::save`] writes them without any of these.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SaveOptions {
    to: Option<String>,
    options: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    commit: CommitOptions,
}

impl SaveOptions {
    /// In the format that the name says, and over nothing that is there already.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes this format, by its id.
    #[must_use]
    pub fn to(self, format: impl Into<String>) -> Self {
        Self { to: Some(format.into()), ..self }
    }

    /// An option of the format's writer, as `ferry formats` lists them.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// An entry of the key-value metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Replaces an output that is there already.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.commit.force = force;
        self
    }

    /// Syncs the files and their folder, so that the output outlasts a power cut.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.commit.sync = sync;
        self
    }
}

impl Registry {
    /// Writes tensors into a file or folder, in the format that its name says. The output is whole or absent.
    ///
    /// # Errors
    /// Usage, for a name that says no format, names given twice, bytes of another length than dtype and shape
    /// have, or an output that is there already; whatever writing gives.
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
    ) -> Result<Report> {
        self.save_with(path, tensors, &SaveOptions::new())
    }

    /// Writes tensors as `options` say.
    ///
    /// # Errors
    /// As of [`save`](Self::save); usage, for a format or option that is not there.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
        options: &SaveOptions,
    ) -> Result<Report> {
        // The bytes are in memory already: what bounds a hostile file does not bound them.
        let mut limits = self.session().limits.clone();
        limits.header_bytes = u64::MAX;
        let none = MemorySource::new(Entry::Folder, Default::default());
        let mut catalog = CatalogBuilder::new("memory", &none, &limits);
        let mut names = HashSet::new();
        for NewTensor { name, dtype, shape, bytes } in tensors {
            check_len(dtype, &shape, bytes.len() as u64).map_err(|error| error.tensor(&name))?;
            if !names.insert(name.clone()) {
                return Err(Error::usage("two tensors have this name").tensor(name));
            }
            let storage = catalog.storage(Storage::inline(bytes))?;
            catalog.tensor(&name, dtype, &shape, storage, 0)?;
        }
        for (key, value) in &options.metadata {
            catalog.metadata_text(key, value)?;
        }
        let output = OutputRequest {
            path: path.as_ref().to_owned(),
            format: options.to.clone(),
            options: options.options.clone(),
            commit: options.commit,
            ..OutputRequest::default()
        };
        let (request, catalog) = (Request { output, ..Request::default() }, catalog.finish()?);
        let session = self.session();
        session.install(|| convert::save(&request, catalog, self, session))
    }
}

/// Strings have the lengths that they say, and are checked as they are read.
fn check_len(dtype: Dtype, shape: &[u64], len: u64) -> Result<()> {
    let info = dtype.info().ok_or_else(|| Error::usage("not a dtype that every format knows"))?;
    let expected = if info.is_variable() { len } else { info.bytes_of(element_count(shape)?)? };
    if len == expected {
        return Ok(());
    }
    let problem = Error::usage("the bytes are not as many as dtype and shape have");
    Err(problem.expected(format!("{expected} bytes")).found(format!("{len} bytes")))
}
