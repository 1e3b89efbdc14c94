//! Passes a [`TensorReader`] and a [`TensorDecoder`] across the boundary.

use super::byte_sink::{LentByteSink, RemoteByteSink};
use super::catalog_sink::{LentCatalogSink, RemoteCatalogSink};
use super::context::{LentContext, RemoteContext};
use super::faults::PluginObject;
use super::source::{LentSource, RemoteSource};
use crate::{ByteSink, CatalogSink, Context, Result, Source, TensorDecoder, TensorReader};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, ByteSinkTable, CatalogSinkTable, ContextTable, Failure, Owned, SourceTable, TensorDecoderCalls,
    TensorDecoderTable, TensorReaderCalls, TensorReaderTable,
};

pub(super) fn lend_reader(reader: Box<dyn TensorReader>) -> Owned<TensorReaderTable> {
    Owned::give(LentReader(reader))
}

struct LentReader(Box<dyn TensorReader>);

impl TensorReaderCalls for LentReader {
    fn read(
        &self,
        source: Borrowed<'_, SourceTable>,
        catalog: Borrowed<'_, CatalogSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<Owned<TensorDecoderTable>, Failure> {
        let (source, context) = (RemoteSource::new(source)?, RemoteContext::new(context)?);
        let decoder = self.0.read(&source, &mut RemoteCatalogSink::new(catalog), &context)?;
        Ok(Owned::give(LentDecoder(decoder)))
    }
}

struct LentDecoder(Box<dyn TensorDecoder>);

impl TensorDecoderCalls for LentDecoder {
    fn decode(
        &self,
        source: Borrowed<'_, SourceTable>,
        handle: u64,
        output: Borrowed<'_, ByteSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(), Failure> {
        let (source, context) = (RemoteSource::new(source)?, RemoteContext::new(context)?);
        Ok(self.0.decode(&source, handle, &mut RemoteByteSink(output), &context)?)
    }
}

pub(super) struct RemoteReader(pub(super) Arc<PluginObject<TensorReaderTable>>);

impl TensorReader for RemoteReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let mut catalog = LentCatalogSink::new(catalog, context.limits());
        let (source, context) = (LentSource(source), LentContext(context));
        let (source, context) = (Borrowed::shared(&source), Borrowed::shared(&context));
        let decoder = self.0.child(self.0.read(source, Borrowed::sink(&mut catalog), context))?;
        Ok(Box::new(RemoteDecoder(decoder)))
    }
}

struct RemoteDecoder(Arc<PluginObject<TensorDecoderTable>>);

impl TensorDecoder for RemoteDecoder {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let (source, context, mut output) = (LentSource(source), LentContext(context), LentByteSink(output));
        let (source, context) = (Borrowed::shared(&source), Borrowed::shared(&context));
        self.0.result(self.0.decode(source, handle, Borrowed::sink(&mut output), context))
    }
}
