//! An input is a source that was read: its catalog, and the decoder of its encoded storages.

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

/// The placeholder format for tensors that are in memory and not in any file.
struct InMemory;

impl Format for InMemory {
    fn describe(&self) -> Description {
        Description::new("memory", "")
    }
}

/// A source, its catalog, and the decoder of the catalog's storages.
pub struct TensorInput {
    pub source: Arc<FileSource>,
    /// The format that read the source.
    pub format: RegisteredFormat,
    pub catalog: Catalog,
    /// Whether codes of quantized weights are treated as plain numbers.
    pub codes_are_numbers: bool,
    /// The decoder of encoded storages; `None` if the host made the tensors from records.
    decoder: Option<Box<dyn TensorDecoder>>,
}

/// Reads the catalog of a source in a known format.
pub fn read(
    source: &FileSource,
    format: &RegisteredFormat,
    given: &[(String, String)],
    context: &ReadContext<'_>,
) -> Result<TensorInput> {
    let description = &format.description;
    let (given, codes_are_numbers) = options::of_host(description, given)?;
    let reader = format.reader(&given, context)?;
    let is_external = description.capabilities.has(Capabilities::EXTERNAL);
    let source = Arc::new(if is_external { source.named_by_first() } else { source.reopen() });
    let context = SourceContext::new(context, &source);
    let mut builder = CatalogBuilder::new(&description.id, &*source, context.limits());
    let decoder = reader.read(&*source, &mut builder, &context).map_err(|e| explain(&*source, e));
    let decoder =
        decoder.map_err(|e| source.attribute_error(e).file(source.entry_path().display().to_string()))?;
    source.check_links()?;
    let catalog = builder.finish().map_err(|e| source.attribute_error(e))?;
    Ok(TensorInput { source, format: format.clone(), catalog, codes_are_numbers, decoder: Some(decoder) })
}

impl TensorInput {
    /// Returns an input of tensors that were made from the records of a source.
    pub fn of_records(source: Arc<FileSource>, format: &RegisteredFormat, catalog: Catalog) -> Self {
        Self { source, format: format.clone(), catalog, codes_are_numbers: true, decoder: None }
    }

    /// Returns an input of tensors whose bytes are in the catalog.
    pub fn in_memory(source: FileSource, catalog: Catalog) -> Self {
        let format = RegisteredFormat::linked(Box::new(InMemory));
        let decoder: Option<Box<dyn TensorDecoder>> = Some(Box::new(NothingEncoded));
        Self { source: Arc::new(source), format, catalog, codes_are_numbers: false, decoder }
    }

    /// Returns whether the tensors were made from records.
    #[must_use]
    pub fn is_of_records(&self) -> bool {
        self.decoder.is_none()
    }

    /// Sets the decoder of encoded storages.
    pub fn decoded_by(self, decoder: impl TensorDecoder + 'static) -> Self {
        Self { decoder: Some(Box::new(decoder)), ..self }
    }

    pub fn decode(&self, handle: u64, output: &mut dyn ByteSink, session: &Session) -> Result<()> {
        let decoder = self
            .decoder
            .as_ref()
            .ok_or_else(|| Error::plugin("decode requested for a tensor without encoded storage"))?;
        let decoded = decoder.decode(&*self.source, handle, output, session);
        decoded.map_err(|e| e.file(self.source.entry_path().display().to_string()))
    }

    /// Checks that the source has not changed, and drops the decoder. Returns an error if the
    /// destructor of the reader or the decoder panicked.
    pub fn close(self) -> Result<()> {
        self.source.check_unchanged()?;
        let Self { format, decoder, .. } = self;
        drop(decoder);
        format.check_faults()
    }
}
