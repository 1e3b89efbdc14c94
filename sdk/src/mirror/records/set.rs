//! [`RecordSet`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::faults::Faults;
use super::super::guard::{Held, guard, guard_or, received};
use super::arrow::{schema_from_abi, schema_to_abi, stream_to_abi};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::stream::{LentStream, RemoteStream, Tickets};
use super::{UNKNOWN, known};
use crate::records::{Batched, Batches, RecordSet, Skipped, Split};
use crate::{ByteSink, Error, LossSink, Result};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_abi::abi_stable::RMut;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::{RErr, ROk, RSlice, RString, RVec, Tuple2, Tuple4};
use tensorferry_abi::{
    self as abi, AbiResult, ArrowArrayStream, ArrowSchema, ByteSink_TO, ByteSinkMut, LossSink_TO,
    LossSinkMut, RecordSet_TO, RecordSetBox,
};

pub(super) fn lend_record_set(set: Box<dyn RecordSet>) -> RecordSetBox {
    RecordSet_TO::from_value(LentRecordSet { set: Held::new(set), tickets: Arc::default() }, TD_Opaque)
}

struct LentRecordSet {
    set: Held<dyn RecordSet>,
    tickets: Arc<Tickets>,
}

impl abi::RecordSet for LentRecordSet {
    fn schema(&self) -> AbiResult<ArrowSchema> {
        guard("schema", || schema_to_abi(&self.set.get()?.schema()))
    }

    fn split_count(&self) -> u32 {
        guard_or(0, || self.set.get().map_or(0, |set| u32::try_from(set.splits().len()).unwrap_or(u32::MAX)))
    }

    fn split(&self, split: u32) -> AbiResult<Tuple4<RString, u64, u64, u64>> {
        guard("split", || {
            let splits = self.set.get()?.splits();
            let split = splits.get(split as usize).ok_or_else(|| Error::plugin("no such split"))?;
            let records = split.records.unwrap_or(UNKNOWN);
            Ok(Tuple4(split.file.as_str().into(), split.offset, split.bytes, records))
        })
    }

    fn stream(
        &self,
        split: u32,
        projected: bool,
        columns: RSlice<'_, u32>,
        rows: u64,
        bytes: u64,
    ) -> AbiResult<Tuple2<ArrowArrayStream, u64>> {
        guard("stream", || {
            let columns = projected.then(|| columns.iter().map(|&column| column as usize).collect());
            let batches = Batches { columns, rows: usize::try_from(rows).unwrap_or(usize::MAX), bytes };
            let stream = self.set.get()?.stream(split as usize, &batches)?;
            let ticket = self.tickets.draw();
            let lent = LentStream::new(stream, self.tickets.clone(), ticket);
            Ok(Tuple2(stream_to_abi(Box::new(lent)), ticket))
        })
    }

    fn fault(&self, ticket: u64) -> AbiResult<()> {
        guard("fault", || self.tickets.take(ticket).map_or(Ok(()), Err))
    }

    fn json(&self, split: u32, most: u64, output: ByteSinkMut<'_>) -> AbiResult<u64> {
        guard("json", || {
            let written = self.set.get()?.json(split as usize, most, &mut RemoteByteSink(output))?;
            Ok(written.unwrap_or(UNKNOWN))
        })
    }

    fn skipped(&self) -> RVec<Tuple4<RString, u64, u64, RString>> {
        let lent = |skipped: Skipped| {
            let record = skipped.record.unwrap_or(UNKNOWN);
            Tuple4(skipped.file.into(), record, skipped.offset, skipped.why.into())
        };
        guard_or(RVec::new(), || {
            self.set.get().map_or(RVec::new(), |set| set.skipped().into_iter().map(lent).collect())
        })
    }

    fn losses(&self, losses: LossSinkMut<'_>) -> AbiResult<()> {
        guard("losses", || self.set.get()?.losses(&mut RemoteLossSink(losses)))
    }

    fn close(&mut self) -> AbiResult<()> {
        self.set.close()
    }
}

pub(super) struct RemoteRecordSet {
    object: Arc<Shared>,
    schema: SchemaRef,
    splits: Vec<Split>,
}

/// The object, which streams keep alive.
struct Shared {
    object: RecordSetBox,
    faults: Arc<Faults>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl Shared {
    fn received<T>(&self, result: AbiResult<T>) -> Result<T> {
        received(result).map_err(|e| self.faults.blame(e))
    }
}

impl RemoteRecordSet {
    pub(super) fn new(object: RecordSetBox, faults: Arc<Faults>) -> Result<Self> {
        let object = Arc::new(Shared { object, faults });
        let schema = schema_from_abi(object.received(object.object.schema())?);
        let schema = schema.map_err(|e| object.faults.blame(e))?;
        let split = |split| {
            let Tuple4(file, offset, bytes, records) = object.received(object.object.split(split))?;
            Ok(Split { file: file.into(), offset, bytes, records: known(records) })
        };
        let splits = (0..object.object.split_count()).map(split).collect::<Result<_>>()?;
        Ok(Self { object, schema, splits })
    }
}

impl RecordSet for RemoteRecordSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, batches: &Batches) -> Result<Batched> {
        let place = |number: usize| u32::try_from(number).map_err(|_| Error::plugin("no such split"));
        let columns = batches.columns.iter().flatten().map(|&column| place(column));
        let columns: Vec<u32> = columns.collect::<Result<_>>()?;
        let stream = self.object.object.stream(
            place(split)?,
            batches.columns.is_some(),
            columns.as_slice().into(),
            batches.rows as u64,
            batches.bytes,
        );
        let Tuple2(stream, ticket) = self.object.received(stream)?;
        let shared = self.object.clone();
        let fault = move || match shared.object.fault(ticket) {
            ROk(()) => None,
            RErr(error) => Some(shared.faults.blame(received::<()>(RErr(error)).err()?)),
        };
        Ok(Box::new(RemoteStream::new(stream, fault).map_err(|e| self.object.faults.blame(e))?))
    }

    fn json(&self, split: usize, most: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let split = u32::try_from(split).map_err(|_| Error::plugin("no such split"))?;
        let mut output = LentByteSink(output);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        self.object.received(self.object.object.json(split, most, output)).map(known)
    }

    fn skipped(&self) -> Vec<Skipped> {
        let received = |Tuple4(file, record, offset, why): Tuple4<RString, u64, u64, RString>| Skipped {
            file: file.into(),
            record: known(record),
            offset,
            why: why.into(),
        };
        self.object.object.skipped().into_iter().map(received).collect()
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let mut losses = LentLossSink(losses);
        let losses = LossSink_TO::from_ptr(RMut::new(&mut losses), TD_Opaque);
        self.object.received(self.object.object.losses(losses))
    }
}
