//! An input is a source that was read: its catalog, and what decodes its encoded storages.

use crate::context::session::Session;
use crate::formats::options;
use crate::formats::placeholder::explain;
use crate::formats::registry::RegisteredFormat;
use crate::read::context::{ReadContext, SourceContext};
use crate::read::source::FileSource;
use std::sync::Arc;
use tensorferry_sdk::{
    ByteSink, Capabilities, Catalog, CatalogBuilder, Context, Description, Error, Format, NothingEncoded,
    Result, TensorDecoder,
};

/// The format of tensors that no file holds.
struct InMemory;

impl Format for InMemory {
    fn describe(&self) -> Description {
        Description::new("memory", "")
    }
}

/// A source, what it holds, and its decoder.
pub struct Input {
    /// The files.
    pub source: Arc<FileSource>,
    /// Whose input it is.
    pub format: RegisteredFormat,
    /// What it holds.
    pub catalog: Catalog,
    /// Whether codes of quantized weights are wanted as the numbers that they are.
    pub codes_are_numbers: bool,
    /// `None`: the host made the tensors, of records.
    decoder: Option<Box<dyn TensorDecoder>>,
}

/// Reads the catalog of a source whose format is known.
///
/// # Errors
/// Usage, for options that the reader does not have; else whatever is wrong with the input.
pub fn read(
    source: &FileSource,
    format: &RegisteredFormat,
    given: &[(String, String)],
    context: &ReadContext<'_>,
) -> Result<Input> {
    let description = &format.description;
    let (given, codes_are_numbers) = options::of_host(description, given)?;
    let reader = format.reader(&given, context)?;
    let is_external = description.capabilities.has(Capabilities::EXTERNAL);
    let source = Arc::new(if is_external { source.named_by_first() } else { source.afresh() });
    let context = SourceContext::new(context, &source);
    let mut builder = CatalogBuilder::new(&description.id, &*source, context.limits());
    let decoder = reader.read(&*source, &mut builder, &context).map_err(|e| explain(&*source, e));
    let decoder = decoder.map_err(|e| source.blame(e).file(source.entry_path().display().to_string()))?;
    source.check_links()?;
    let catalog = builder.finish().map_err(|e| source.blame(e))?;
    Ok(Input { source, format: format.clone(), catalog, codes_are_numbers, decoder: Some(decoder) })
}

impl Input {
    /// Tensors that were made of the records of a source.
    pub fn of_records(source: Arc<FileSource>, format: &RegisteredFormat, catalog: Catalog) -> Self {
        Self { source, format: format.clone(), catalog, codes_are_numbers: true, decoder: None }
    }

    /// Tensors whose bytes the catalog holds.
    pub fn in_memory(source: FileSource, catalog: Catalog) -> Self {
        let format = RegisteredFormat::linked(Box::new(InMemory));
        let decoder: Option<Box<dyn TensorDecoder>> = Some(Box::new(NothingEncoded));
        Self { source: Arc::new(source), format, catalog, codes_are_numbers: false, decoder }
    }

    /// Whether they were made of records.
    #[must_use]
    pub fn is_of_records(&self) -> bool {
        self.decoder.is_none()
    }

    /// The same with a decoder.
    pub fn decoded_by(self, decoder: impl TensorDecoder + 'static) -> Self {
        Self { decoder: Some(Box::new(decoder)), ..self }
    }

    /// Decodes an encoded storage.
    pub fn decode(&self, handle: u64, output: &mut dyn ByteSink, session: &Session) -> Result<()> {
        let decoder = self.decoder.as_ref().ok_or_else(|| Error::plugin("tensors that nobody encoded"))?;
        let decoded = decoder.decode(&*self.source, handle, output, session);
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
        format.check_faults()
    }
}
