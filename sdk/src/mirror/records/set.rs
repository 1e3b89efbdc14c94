//! Passes a [`RecordSet`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::faults::PluginObject;
use super::known;
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::predicate::{LentPredicate, decode_paths, decode_predicate, encode_paths};
use super::stream::{LentStream, RemoteStream, Tickets};
use crate::records::c_data::{schema_from_abi, schema_to_abi, stream_to_abi};
use crate::records::{BatchStream, RecordSet, ScanRequest, SkippedRecord, Split};
use crate::{ByteSink, Error, LossSink, Result};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_abi::{
    ArrowArrayStream, ArrowSchema, Borrowed, ByteSinkTable, Failure, LossSinkTable, Owned, PredicateTable,
    RecordSetCalls, RecordSetTable, ScanFacts, SkippedFacts, SkippedSinkCalls, SkippedSinkTable, SplitFacts,
    SplitSinkCalls, SplitSinkTable, UNKNOWN,
};

pub(super) fn lend_record_set(set: Box<dyn RecordSet>) -> Owned<RecordSetTable> {
    Owned::give(LentRecordSet { set, tickets: Arc::default() })
}

struct LentRecordSet {
    set: Box<dyn RecordSet>,
    tickets: Arc<Tickets>,
}

impl RecordSetCalls for LentRecordSet {
    fn schema(&self) -> Result<ArrowSchema, Failure> {
        Ok(schema_to_abi(&self.set.schema())?)
    }

    fn splits(&self, splits: Borrowed<'_, SplitSinkTable>) -> Result<(), Failure> {
        self.set.splits().iter().try_for_each(|split| {
            splits.split(SplitFacts {
                file: &split.file,
                offset: split.offset,
                bytes: split.bytes,
                records: split.records.unwrap_or(UNKNOWN),
            })
        })
    }

    fn scan(
        &self,
        scan: ScanFacts<'_>,
        predicate: Borrowed<'_, PredicateTable>,
    ) -> Result<(ArrowArrayStream, u64), Failure> {
        let wanted = ScanRequest {
            columns: scan.is_projected.then(|| decode_paths(scan.columns)).transpose()?,
            first_row: scan.first_row,
            limit: known(scan.limit),
            predicate: decode_predicate(&predicate)?,
            rows: usize::try_from(scan.rows).unwrap_or(usize::MAX),
            bytes: scan.bytes,
        };
        let stream = self.set.scan(scan.split as usize, &wanted)?;
        let ticket = self.tickets.issue();
        let lent = LentStream::new(stream, self.tickets.clone(), ticket);
        Ok((stream_to_abi(Box::new(lent)), ticket))
    }

    fn fault(&self, ticket: u64) -> Result<(), Failure> {
        self.tickets.take(ticket).map_or(Ok(()), |error| Err(error.into()))
    }

    fn json(&self, split: u32, max: u64, output: Borrowed<'_, ByteSinkTable>) -> Result<u64, Failure> {
        let written = self.set.json(split as usize, max, &mut RemoteByteSink(output))?;
        Ok(written.unwrap_or(UNKNOWN))
    }

    fn skipped(&self, sink: Borrowed<'_, SkippedSinkTable>) -> Result<(), Failure> {
        self.set.skipped().iter().try_for_each(|skipped| {
            sink.skipped(SkippedFacts {
                file: &skipped.file,
                record: skipped.record.unwrap_or(UNKNOWN),
                offset: skipped.offset,
                why: &skipped.why,
            })
        })
    }

    fn losses(&self, losses: Borrowed<'_, LossSinkTable>) -> Result<(), Failure> {
        Ok(self.set.losses(&mut RemoteLossSink(losses))?)
    }
}

#[derive(Default)]
struct SplitCollector(Vec<Split>);

impl SplitSinkCalls for SplitCollector {
    fn split(&mut self, split: SplitFacts<'_>) -> Result<(), Failure> {
        let SplitFacts { file, offset, bytes, records } = split;
        self.0.push(Split { file: file.to_owned(), offset, bytes, records: known(records) });
        Ok(())
    }
}

#[derive(Default)]
struct SkippedCollector(Vec<SkippedRecord>);

impl SkippedSinkCalls for SkippedCollector {
    fn skipped(&mut self, skipped: SkippedFacts<'_>) -> Result<(), Failure> {
        let SkippedFacts { file, record, offset, why } = skipped;
        self.0.push(SkippedRecord {
            file: file.to_owned(),
            record: known(record),
            offset,
            why: why.to_owned(),
        });
        Ok(())
    }
}

pub(super) struct RemoteRecordSet {
    object: Arc<PluginObject<RecordSetTable>>,
    schema: SchemaRef,
    splits: Vec<Split>,
}

impl RemoteRecordSet {
    pub(super) fn new(object: Arc<PluginObject<RecordSetTable>>) -> Result<Self> {
        let schema =
            schema_from_abi(object.result(object.schema())?).map_err(|e| object.attribute_error(e))?;
        let mut splits = SplitCollector::default();
        object.result(object.splits(Borrowed::sink(&mut splits)))?;
        Ok(Self { object, schema, splits: splits.0 })
    }
}

impl RecordSet for RemoteRecordSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let split = u32::try_from(split).map_err(|_| Error::plugin("no such split"))?;
        let columns = scan.columns.as_deref().map(encode_paths).transpose()?;
        let predicate = LentPredicate::new(&scan.predicate)?;
        let facts = ScanFacts {
            split,
            is_projected: columns.is_some(),
            columns: columns.as_deref().unwrap_or_default(),
            first_row: scan.first_row,
            limit: scan.limit.unwrap_or(UNKNOWN),
            rows: scan.rows as u64,
            bytes: scan.bytes,
        };
        let (stream, ticket) = self.object.result(self.object.scan(facts, Borrowed::shared(&predicate)))?;
        Ok(Box::new(RemoteStream::new(stream, self.object.clone(), ticket)?))
    }

    fn json(&self, split: usize, max: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let split = u32::try_from(split).map_err(|_| Error::plugin("no such split"))?;
        let mut output = LentByteSink(output);
        let written = self.object.json(split, max, Borrowed::sink(&mut output));
        self.object.result_or(written, UNKNOWN).map(known)
    }

    fn skipped(&self) -> Vec<SkippedRecord> {
        let mut skipped = SkippedCollector::default();
        self.object.record_fault(self.object.skipped(Borrowed::sink(&mut skipped)));
        skipped.0
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let mut losses = LentLossSink(losses);
        self.object.result_or_default(self.object.losses(Borrowed::sink(&mut losses)))
    }
}
