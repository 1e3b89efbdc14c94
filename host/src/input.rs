//! An input is a source that was read: its catalog, and what decodes its encoded storages.

use crate::errand::Errand;
use crate::plugins::LoadedFormat;
use crate::run::Run;
use crate::source::FileSource;
use std::sync::Arc;
use tensorferry_sdk::{
    ByteSink, Catalog, CatalogBuilder, Context, Error, Format, Options, Result, Side, TensorDecoder,
};

/// A source, what it holds, and its decoder.
pub struct Input<'a> {
    /// The files.
    pub source: Arc<FileSource>,
    /// Whose input it is.
    pub format: &'a LoadedFormat,
    /// What it holds.
    pub catalog: Catalog,
    /// `None`: the host made the tensors, of records.
    decoder: Option<Box<dyn TensorDecoder>>,
}

/// Reads the catalog of a source whose format is known.
///
/// # Errors
/// Usage, for options that the reader does not have; else whatever is wrong with the input.
pub fn read<'a>(
    source: &FileSource,
    format: &'a LoadedFormat,
    given: &[(String, String)],
    errand: &Errand<'_>,
) -> Result<Input<'a>> {
    let description = &format.description;
    let options = Options::check(&description.options, Side::Reader, given)?;
    let reader = format.format.reader(&options)?;
    let source = Arc::new(source.afresh());
    let mut builder = CatalogBuilder::new(&description.id, &*source, errand.limits());
    let decoder = reader
        .read(&*source, &mut builder, errand)
        .map_err(|e| e.file(source.entry_path().display().to_string()))?;
    let catalog = builder.finish()?;
    Ok(Input { source, format, catalog, decoder: Some(decoder) })
}

impl<'a> Input<'a> {
    /// Tensors that were made of the records of a source.
    pub(crate) fn of_records(source: Arc<FileSource>, format: &'a LoadedFormat, catalog: Catalog) -> Self {
        Self { source, format, catalog, decoder: None }
    }

    /// Whether they were.
    #[must_use]
    pub fn is_of_records(&self) -> bool {
        self.decoder.is_none()
    }

    /// Decodes an encoded storage.
    pub(crate) fn decode(&self, handle: u64, output: &mut dyn ByteSink, run: &Run) -> Result<()> {
        let decoder = self.decoder.as_ref().ok_or_else(|| Error::plugin("tensors that nobody encoded"))?;
        let decoded = decoder.decode(&*self.source, handle, output, run);
        decoded.map_err(|e| e.file(self.source.entry_path().display().to_string()))
    }

    /// Checks that the source is still what it was, and lets the decoder go.
    ///
    /// # Errors
    /// Transient, if a file changed; a plugin error, if the reader's or the decoder's destructor panicked.
    pub fn close(self) -> Result<()> {
        self.source.check_unchanged()?;
        let Self { format, decoder, .. } = self;
        drop(decoder);
        format.format.faults().check()
    }
}
