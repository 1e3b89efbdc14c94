//! [`RecordPlan`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::collected::Collected;
use super::super::faults::Plugged;
use super::arrow::{stream_from_abi, stream_to_abi};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use crate::records::{Group, PlacedPiece, RecordPlan, from_stream};
use crate::{ByteSink, Error, LossSink, Result};
use arrow_array::{RecordBatch, RecordBatchIterator};
use std::mem::replace;
use std::sync::Arc;
use tensorferry_abi::{
    ArrowArrayStream, Borrowed, ByteSinkTable, Failure, LossSinkTable, NameSinkTable, Owned, PiecesCalls,
    PiecesTable, RecordPlanCalls, RecordPlanTable,
};

pub(super) fn lend_record_plan(plan: Box<dyn RecordPlan>) -> Owned<RecordPlanTable> {
    Owned::give(LentRecordPlan(plan))
}

struct LentRecordPlan(Box<dyn RecordPlan>);

impl RecordPlanCalls for LentRecordPlan {
    fn files(&self, names: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.files().iter().try_for_each(|file| names.name(file))
    }

    fn group(&self) -> Result<(u64, u64), Failure> {
        let group = self.0.group();
        Ok((group.rows as u64, group.bytes))
    }

    fn begin(&self, file: u32, output: Borrowed<'_, ByteSinkTable>) -> Result<(), Failure> {
        Ok(self.0.begin(file as usize, &mut RemoteByteSink(output))?)
    }

    fn encode(
        &self,
        file: u32,
        batches: &mut ArrowArrayStream,
        output: Borrowed<'_, ByteSinkTable>,
        losses: Borrowed<'_, LossSinkTable>,
        note: Borrowed<'_, ByteSinkTable>,
    ) -> Result<(), Failure> {
        let batches = stream_from_abi(replace(batches, ArrowArrayStream::released()))?;
        let batches: Vec<RecordBatch> =
            batches.map(|batch| batch.map_err(from_stream)).collect::<Result<_>>()?;
        let (mut output, mut losses) = (RemoteByteSink(output), RemoteLossSink(losses));
        note.write(&self.0.encode(file as usize, &batches, &mut output, &mut losses)?)
    }

    fn finish(
        &self,
        file: u32,
        pieces: Borrowed<'_, PiecesTable>,
        output: Borrowed<'_, ByteSinkTable>,
    ) -> Result<(), Failure> {
        let piece = |index| {
            let (offset, len, rows, note) = pieces.piece(index)?;
            Ok(PlacedPiece { offset, len, rows, note: note.to_vec() })
        };
        let placed: Vec<PlacedPiece> = (0..pieces.count()?).map(piece).collect::<Result<_, Failure>>()?;
        Ok(self.0.finish(file as usize, &placed, &mut RemoteByteSink(output))?)
    }

    fn notes(&self, notes: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.notes().iter().try_for_each(|note| notes.name(note))
    }
}

pub(super) struct RemoteRecordPlan {
    object: Arc<Plugged<RecordPlanTable>>,
    files: Vec<String>,
    group: Group,
}

impl RemoteRecordPlan {
    pub(super) fn new(object: Arc<Plugged<RecordPlanTable>>) -> Result<Self> {
        let mut files = Collected::<String>::default();
        object.answer(object.files(Borrowed::sink(&mut files)))?;
        let (rows, bytes) = object.answer(object.group())?;
        let group = Group { rows: usize::try_from(rows).unwrap_or(usize::MAX).max(1), bytes: bytes.max(1) };
        Ok(Self { object, files: files.0, group })
    }
}

fn number(file: usize) -> Result<u32> {
    u32::try_from(file).map_err(|_| Error::plugin("no such file"))
}

/// The pieces of a file, for the plugin to ask for.
struct LentPieces<'a>(&'a [PlacedPiece]);

impl PiecesCalls for LentPieces<'_> {
    fn count(&self) -> Result<u64, Failure> {
        Ok(self.0.len() as u64)
    }

    fn piece(&self, index: u64) -> Result<(u64, u64, u64, &[u8]), Failure> {
        let piece = usize::try_from(index).ok().and_then(|index| self.0.get(index));
        let piece = piece.ok_or_else(|| Error::plugin(format!("no piece {index}")))?;
        Ok((piece.offset, piece.len, piece.rows, &piece.note))
    }
}

impl RecordPlan for RemoteRecordPlan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn group(&self) -> Group {
        self.group
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Collected::<String>::default();
        self.object.answer_or_fault(self.object.notes(Borrowed::sink(&mut notes)));
        notes.0
    }

    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let mut output = LentByteSink(output);
        self.object.answer(self.object.begin(number(file)?, Borrowed::sink(&mut output)))
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
        let mut stream = stream_to_abi(Box::new(stream));
        let (mut output, mut losses) = (LentByteSink(output), LentLossSink(losses));
        let mut note = Collected::<u8>::default();
        self.object.answer(self.object.encode(
            number(file)?,
            &mut stream,
            Borrowed::sink(&mut output),
            Borrowed::sink(&mut losses),
            Borrowed::sink(&mut note),
        ))?;
        Ok(note.0)
    }

    fn finish(&self, file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let (pieces, mut output) = (LentPieces(pieces), LentByteSink(output));
        let (pieces, output) = (Borrowed::shared(&pieces), Borrowed::sink(&mut output));
        self.object.answer(self.object.finish(number(file)?, pieces, output))
    }
}
