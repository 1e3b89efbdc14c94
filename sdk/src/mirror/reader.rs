//! [`TensorReader`] and [`TensorDecoder`] across the boundary.

use super::byte_sink::{LentByteSink, RemoteByteSink};
use super::catalog_sink::{LentCatalogSink, RemoteCatalogSink};
use super::context::{LentContext, RemoteContext};
use super::faults::Faults;
use super::guard::{Held, guard, received};
use super::source::{LentSource, RemoteSource};
use crate::{ByteSink, CatalogSink, Context, Result, Source, TensorDecoder, TensorReader};
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, ByteSink_TO, ByteSinkMut, CatalogSink_TO, CatalogSinkMut, Context_TO, ContextRef,
    Source_TO, SourceRef, TensorDecoder_TO, TensorDecoderBox, TensorReader_TO, TensorReaderBox,
};

pub(super) fn lend_reader(reader: Box<dyn TensorReader>) -> TensorReaderBox {
    TensorReader_TO::from_value(LentReader(Held::new(reader)), TD_Opaque)
}

struct LentReader(Held<dyn TensorReader>);

impl abi::TensorReader for LentReader {
    fn read(
        &self,
        source: SourceRef<'_>,
        catalog: CatalogSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<TensorDecoderBox> {
        guard("read", || {
            let (source, context) = (RemoteSource::new(source), RemoteContext::new(context));
            self.0.get()?.read(&source, &mut RemoteCatalogSink(catalog), &context).map(lend_decoder)
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

fn lend_decoder(decoder: Box<dyn TensorDecoder>) -> TensorDecoderBox {
    TensorDecoder_TO::from_value(LentDecoder(Held::new(decoder)), TD_Opaque)
}

struct LentDecoder(Held<dyn TensorDecoder>);

impl abi::TensorDecoder for LentDecoder {
    fn decode(
        &self,
        source: SourceRef<'_>,
        handle: u64,
        output: ByteSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<()> {
        guard("decode", || {
            let (source, context) = (RemoteSource::new(source), RemoteContext::new(context));
            self.0.get()?.decode(&source, handle, &mut RemoteByteSink(output), &context)
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

pub(super) struct RemoteReader {
    pub(super) object: TensorReaderBox,
    pub(super) faults: Arc<Faults>,
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl TensorReader for RemoteReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let (source, context) = (LentSource(source), LentContext(context));
        let mut catalog = LentCatalogSink(catalog);
        let source = Source_TO::from_ptr(RRef::new(&source), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let catalog = CatalogSink_TO::from_ptr(RMut::new(&mut catalog), TD_Opaque);
        let object = received(self.object.read(source, catalog, context));
        let object = object.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemoteDecoder { object, faults: self.faults.clone() }))
    }
}

struct RemoteDecoder {
    object: TensorDecoderBox,
    faults: Arc<Faults>,
}

impl Drop for RemoteDecoder {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl TensorDecoder for RemoteDecoder {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let (source, context) = (LentSource(source), LentContext(context));
        let mut output = LentByteSink(output);
        let source = Source_TO::from_ptr(RRef::new(&source), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        received(self.object.decode(source, handle, output, context)).map_err(|e| self.faults.blame(e))
    }
}
