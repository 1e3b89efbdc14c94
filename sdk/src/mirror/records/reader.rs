//! Passes a [`RecordReader`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::context::{LentContext, RemoteContext};
use super::super::faults::PluginObject;
use super::super::source::{LentSource, RemoteSource};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::set::{RemoteRecordSet, lend_record_set};
use crate::records::{IndexTotals, RecordReader, RecordSet};
use crate::{ByteSink, Context, LossSink, Result, Source};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, ByteSinkTable, ContextTable, Failure, LossSinkTable, Owned, RecordReaderCalls,
    RecordReaderTable, RecordSetTable, SourceTable,
};

pub(in super::super) fn lend_record_reader(reader: Box<dyn RecordReader>) -> Owned<RecordReaderTable> {
    Owned::give(LentRecordReader(reader))
}

struct LentRecordReader(Box<dyn RecordReader>);

impl RecordReaderCalls for LentRecordReader {
    fn open(
        &self,
        source: Owned<SourceTable>,
        losses: Borrowed<'_, LossSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<Owned<RecordSetTable>, Failure> {
        let (source, context) = (Arc::new(RemoteSource::new(source)?), RemoteContext::new(context)?);
        Ok(lend_record_set(self.0.open(source, &mut RemoteLossSink(losses), &context)?))
    }

    fn index(
        &self,
        source: Borrowed<'_, SourceTable>,
        output: Borrowed<'_, ByteSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(u64, u64), Failure> {
        let (source, context) = (RemoteSource::new(source)?, RemoteContext::new(context)?);
        let indexed = self.0.index(&source, &mut RemoteByteSink(output), &context)?;
        Ok((indexed.records, indexed.bytes))
    }
}

pub(in super::super) struct RemoteRecordReader(pub(in super::super) Arc<PluginObject<RecordReaderTable>>);

impl RecordReader for RemoteRecordReader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (source, context) = (Owned::give(LentSource(source)), LentContext(context));
        let mut losses = LentLossSink(losses);
        let set = self.0.open(source, Borrowed::sink(&mut losses), Borrowed::shared(&context));
        Ok(Box::new(RemoteRecordSet::new(self.0.child(set)?)?))
    }

    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<IndexTotals> {
        let (source, context, mut output) = (LentSource(source), LentContext(context), LentByteSink(output));
        let (source, context) = (Borrowed::shared(&source), Borrowed::shared(&context));
        let indexed = self.0.index(source, Borrowed::sink(&mut output), context);
        let (records, bytes) = self.0.result(indexed)?;
        Ok(IndexTotals { records, bytes })
    }
}
