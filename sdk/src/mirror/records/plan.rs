//! [`RecordPlan`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::faults::Faults;
use super::super::guard::{Held, guard, guard_or, received};
use super::arrow::{stream_from_abi, stream_to_abi};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use crate::records::{Group, PlacedPiece, RecordPlan, from_stream};
use crate::{ByteSink, Error, LossSink, Result};
use arrow_array::{RecordBatch, RecordBatchIterator};
use std::sync::Arc;
use tensorferry_abi::abi_stable::RMut;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::{RString, RVec, Tuple2, Tuple4};
use tensorferry_abi::{
    self as abi, AbiResult, ArrowArrayStream, ByteSink_TO, ByteSinkMut, LossSink_TO, LossSinkMut,
    RecordPlan_TO, RecordPlanBox,
};

pub(super) fn lend_record_plan(plan: Box<dyn RecordPlan>) -> RecordPlanBox {
    RecordPlan_TO::from_value(LentRecordPlan(Held::new(plan)), TD_Opaque)
}

struct LentRecordPlan(Held<dyn RecordPlan>);

impl abi::RecordPlan for LentRecordPlan {
    fn files(&self) -> RVec<RString> {
        let files = |plan: &dyn RecordPlan| plan.files().iter().map(|file| file.as_str().into()).collect();
        guard_or(RVec::new(), || self.0.get().map_or(RVec::new(), files))
    }

    fn group(&self) -> Tuple2<u64, u64> {
        let group = guard_or(Group::default(), || self.0.get().map_or(Group::default(), RecordPlan::group));
        Tuple2(group.rows as u64, group.bytes)
    }

    fn begin(&self, file: u32, output: ByteSinkMut<'_>) -> AbiResult<()> {
        guard("begin", || self.0.get()?.begin(file as usize, &mut RemoteByteSink(output)))
    }

    fn encode(
        &self,
        file: u32,
        batches: ArrowArrayStream,
        output: ByteSinkMut<'_>,
        losses: LossSinkMut<'_>,
    ) -> AbiResult<RVec<u8>> {
        guard("encode", || {
            let batches: Vec<RecordBatch> =
                stream_from_abi(batches)?.map(|batch| batch.map_err(from_stream)).collect::<Result<_>>()?;
            let (mut output, mut losses) = (RemoteByteSink(output), RemoteLossSink(losses));
            self.0.get()?.encode(file as usize, &batches, &mut output, &mut losses).map(RVec::from)
        })
    }

    fn finish(
        &self,
        file: u32,
        pieces: RVec<Tuple4<u64, u64, u64, RVec<u8>>>,
        output: ByteSinkMut<'_>,
    ) -> AbiResult<()> {
        guard("finish", || {
            let piece = |Tuple4(offset, len, rows, note): Tuple4<u64, u64, u64, RVec<u8>>| PlacedPiece {
                offset,
                len,
                rows,
                note: note.into_vec(),
            };
            let pieces: Vec<PlacedPiece> = pieces.into_iter().map(piece).collect();
            self.0.get()?.finish(file as usize, &pieces, &mut RemoteByteSink(output))
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }

    fn notes(&self) -> RVec<RString> {
        let notes = |plan: &dyn RecordPlan| plan.notes().into_iter().map(RString::from).collect();
        guard_or(RVec::new(), || self.0.get().map_or(RVec::new(), notes))
    }
}

pub(super) struct RemoteRecordPlan {
    object: RecordPlanBox,
    faults: Arc<Faults>,
    files: Vec<String>,
}

impl RemoteRecordPlan {
    pub(super) fn new(object: RecordPlanBox, faults: Arc<Faults>) -> Self {
        let files = object.files().into_iter().map(RString::into_string).collect();
        Self { object, faults, files }
    }

    fn received<T>(&self, result: AbiResult<T>) -> Result<T> {
        received(result).map_err(|e| self.faults.blame(e))
    }
}

impl Drop for RemoteRecordPlan {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

fn number(file: usize) -> Result<u32> {
    u32::try_from(file).map_err(|_| Error::plugin("no such file"))
}

impl RecordPlan for RemoteRecordPlan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn group(&self) -> Group {
        let Tuple2(rows, bytes) = self.object.group();
        Group { rows: usize::try_from(rows).unwrap_or(usize::MAX).max(1), bytes: bytes.max(1) }
    }

    fn notes(&self) -> Vec<String> {
        self.object.notes().into_iter().map(RString::into_string).collect()
    }

    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let mut output = LentByteSink(output);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        self.received(self.object.begin(number(file)?, output))
    }

    fn encode(
        &self,
        file: usize,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let first = batches.first().ok_or_else(|| Error::plugin("a piece of no rows"))?;
        // The stream outlives the slice, as far as the other side knows.
        let owned = batches.to_vec();
        let stream = RecordBatchIterator::new(owned.into_iter().map(Ok), first.schema());
        let (mut output, mut losses) = (LentByteSink(output), LentLossSink(losses));
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        let losses = LossSink_TO::from_ptr(RMut::new(&mut losses), TD_Opaque);
        let note = self.object.encode(number(file)?, stream_to_abi(Box::new(stream)), output, losses);
        self.received(note).map(RVec::into_vec)
    }

    fn finish(&self, file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let piece = |p: &PlacedPiece| Tuple4(p.offset, p.len, p.rows, p.note.clone().into());
        let mut output = LentByteSink(output);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        self.received(self.object.finish(number(file)?, pieces.iter().map(piece).collect(), output))
    }
}
