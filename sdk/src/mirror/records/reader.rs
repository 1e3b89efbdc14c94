//! [`RecordReader`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::context::{LentContext, RemoteContext};
use super::super::faults::Faults;
use super::super::guard::{Held, guard, received};
use super::super::source::{LentSource, RemoteSource};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::set::{RemoteRecordSet, lend_record_set};
use crate::records::{Indexed, RecordReader, RecordSet};
use crate::{ByteSink, Context, LossSink, Result, Source};
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::Tuple2;
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, ByteSink_TO, ByteSinkMut, Context_TO, ContextRef, LossSink_TO, LossSinkMut,
    RecordReader_TO, RecordReaderBox, RecordSetBox, Source_TO, SourceBox, SourceRef,
};

pub(in super::super) fn lend_record_reader(reader: Box<dyn RecordReader>) -> RecordReaderBox {
    RecordReader_TO::from_value(LentRecordReader(Held::new(reader)), TD_Opaque)
}

struct LentRecordReader(Held<dyn RecordReader>);

impl abi::RecordReader for LentRecordReader {
    fn open(
        &self,
        source: SourceBox,
        losses: LossSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<RecordSetBox> {
        guard("open", || {
            let (source, context) = (Arc::new(RemoteSource::new(source)), RemoteContext::new(context));
            self.0.get()?.open(source, &mut RemoteLossSink(losses), &context).map(lend_record_set)
        })
    }

    fn index(
        &self,
        source: SourceRef<'_>,
        output: ByteSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<Tuple2<u64, u64>> {
        guard("index", || {
            let (source, context) = (RemoteSource::new(source), RemoteContext::new(context));
            let indexed = self.0.get()?.index(&source, &mut RemoteByteSink(output), &context)?;
            Ok(Tuple2(indexed.records, indexed.bytes))
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

pub(in super::super) struct RemoteRecordReader {
    pub(in super::super) object: RecordReaderBox,
    pub(in super::super) faults: Arc<Faults>,
}

impl Drop for RemoteRecordReader {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl RecordReader for RemoteRecordReader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (mut losses, context) = (LentLossSink(losses), LentContext(context));
        let losses = LossSink_TO::from_ptr(RMut::new(&mut losses), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let source = Source_TO::from_value(LentSource(source), TD_Opaque);
        let object = received(self.object.open(source, losses, context)).map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemoteRecordSet::new(object, self.faults.clone())?))
    }

    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Indexed> {
        let (source, context) = (LentSource(source), LentContext(context));
        let mut output = LentByteSink(output);
        let source = Source_TO::from_ptr(RRef::new(&source), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        let indexed = received(self.object.index(source, output, context));
        let Tuple2(records, bytes) = indexed.map_err(|e| self.faults.blame(e))?;
        Ok(Indexed { records, bytes })
    }
}
