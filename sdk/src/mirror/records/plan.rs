//! Passes a [`RecordPlan`] across the boundary.

use super::super::byte_sink::{LentByteSink, RemoteByteSink};
use super::super::collector::Collector;
use super::super::faults::PluginObject;
use super::super::numbers::unknown;
use super::loss_sink::{LentLossSink, RemoteLossSink};
use crate::records::c_import::CStream;
use crate::records::{Group, PlacedPiece, RecordPlan, Roll, WrittenFile, c_stream, from_stream};
use crate::{ByteSink, Error, LossSink, Result};
use arrow_array::RecordBatch;
use std::mem::replace;
use std::sync::Arc;
use tensorferry_abi::{
    ArrowArrayStream, Borrowed, ByteSinkTable, Failure, LossSinkTable, NameSinkTable, Owned, PiecesCalls,
    PiecesTable, RecordPlanCalls, RecordPlanTable, WrittenFilesCalls, WrittenFilesTable,
};

pub(super) fn lend_record_plan(plan: Box<dyn RecordPlan>) -> Owned<RecordPlanTable> {
    Owned::give(LentRecordPlan(plan))
}

struct LentRecordPlan(Box<dyn RecordPlan>);

impl RecordPlanCalls for LentRecordPlan {
    fn files(&self, names: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.files().iter().try_for_each(|file| names.name(file))
    }

    fn roll(&self) -> Result<(u32, u64), Failure> {
        Ok(match self.0.roll() {
            None => (NO_ROLL, 0),
            Some(Roll::Rows(rows)) => (ROLL_ROWS, rows),
            Some(Roll::Bytes(bytes)) => (ROLL_BYTES, bytes),
        })
    }

    fn name(&self, file: u32, count: u32, name: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        name.name(&self.0.name(file as usize, count as usize)?)
    }

    fn supersedes(&self, patterns: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.supersedes().iter().try_for_each(|pattern| patterns.name(pattern))
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
        batches: &mut ArrowArrayStream,
        output: Borrowed<'_, ByteSinkTable>,
        losses: Borrowed<'_, LossSinkTable>,
        note: Borrowed<'_, ByteSinkTable>,
    ) -> Result<(), Failure> {
        let batches = CStream::new(replace(batches, ArrowArrayStream::released()))?;
        let batches: Vec<RecordBatch> =
            batches.map(|batch| batch.map_err(from_stream)).collect::<Result<_>>()?;
        let (mut output, mut losses) = (RemoteByteSink(output), RemoteLossSink(losses));
        note.write(&self.0.encode(&batches, &mut output, &mut losses)?)
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

    fn sealed(&self, names: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.sealed().iter().try_for_each(|name| names.name(name))
    }

    fn seal(
        &self,
        sealed: u32,
        files: Borrowed<'_, WrittenFilesTable>,
        output: Borrowed<'_, ByteSinkTable>,
    ) -> Result<(), Failure> {
        let written = |file| {
            let (name, bytes, pieces) = files.file(file)?;
            let piece = |index| {
                let (offset, len, rows, note) = files.piece(file, index)?;
                Ok(PlacedPiece { offset, len, rows, note: note.to_vec() })
            };
            let name = name.to_owned();
            let pieces = (0..pieces).map(piece).collect::<Result<_, Failure>>()?;
            Ok(WrittenFile { name, bytes, pieces })
        };
        let files: Vec<WrittenFile> = (0..files.count()?).map(written).collect::<Result<_, Failure>>()?;
        Ok(self.0.seal(sealed as usize, &files, &mut RemoteByteSink(output))?)
    }

    fn notes(&self, notes: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.notes().iter().try_for_each(|note| notes.name(note))
    }
}

/// The values of `kind` in `RecordPlan.roll`.
const NO_ROLL: u32 = 0;
const ROLL_ROWS: u32 = 1;
const ROLL_BYTES: u32 = 2;

pub(super) struct RemoteRecordPlan {
    object: Arc<PluginObject<RecordPlanTable>>,
    files: Vec<String>,
    roll: Option<Roll>,
    supersedes: Vec<String>,
    sealed: Vec<String>,
    group: Group,
}

impl RemoteRecordPlan {
    pub(super) fn new(object: Arc<PluginObject<RecordPlanTable>>) -> Result<Self> {
        let mut files = Collector::<String>::default();
        object.result_or_default(object.files(Borrowed::sink(&mut files)))?;
        let roll = match object.result_or_default(object.roll())? {
            (NO_ROLL, _) => None,
            (ROLL_ROWS, rows) => Some(Roll::Rows(rows.max(1))),
            (ROLL_BYTES, bytes) => Some(Roll::Bytes(bytes)),
            (other, _) => return Err(object.attribute_error(unknown("way to roll", other))),
        };
        let (mut supersedes, mut sealed) = (Collector::<String>::default(), Collector::<String>::default());
        object.result_or_default(object.supersedes(Borrowed::sink(&mut supersedes)))?;
        object.result_or_default(object.sealed(Borrowed::sink(&mut sealed)))?;
        let usual = Group::default();
        let group = object.result_or(object.group(), (usual.rows as u64, usual.bytes))?;
        let rows = usize::try_from(group.0).unwrap_or(usize::MAX).max(1);
        let group = Group { rows, bytes: group.1.max(1) };
        let (files, supersedes, sealed) = (files.0, supersedes.0, sealed.0);
        Ok(Self { object, files, roll, supersedes, sealed, group })
    }
}

fn number(file: usize) -> Result<u32> {
    u32::try_from(file).map_err(|_| Error::plugin("no such file"))
}

/// The pieces of a file, wrapped so that the plugin can query them.
struct LentPieces<'a>(&'a [PlacedPiece]);

impl PiecesCalls for LentPieces<'_> {
    fn count(&self) -> Result<u64, Failure> {
        Ok(self.0.len() as u64)
    }

    fn piece(&self, index: u64) -> Result<(u64, u64, u64, &[u8]), Failure> {
        let piece = at(self.0, index)?;
        Ok((piece.offset, piece.len, piece.rows, &piece.note))
    }
}

/// The files of a plan, wrapped so that the plugin can query them.
struct LentWrittenFiles<'a>(&'a [WrittenFile]);

impl WrittenFilesCalls for LentWrittenFiles<'_> {
    fn count(&self) -> Result<u64, Failure> {
        Ok(self.0.len() as u64)
    }

    fn file(&self, index: u64) -> Result<(&str, u64, u64), Failure> {
        let file = at(self.0, index)?;
        Ok((&file.name, file.bytes, file.pieces.len() as u64))
    }

    fn piece(&self, file: u64, index: u64) -> Result<(u64, u64, u64, &[u8]), Failure> {
        let piece = at(&at(self.0, file)?.pieces, index)?;
        Ok((piece.offset, piece.len, piece.rows, &piece.note))
    }
}

fn at<T>(all: &[T], index: u64) -> Result<&T> {
    let found = usize::try_from(index).ok().and_then(|index| all.get(index));
    found.ok_or_else(|| Error::plugin("no such piece or file").found(index))
}

impl RecordPlan for RemoteRecordPlan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn roll(&self) -> Option<Roll> {
        self.roll
    }

    fn name(&self, file: usize, count: usize) -> Result<String> {
        let mut name = Collector::<String>::default();
        let sink = Borrowed::sink(&mut name);
        self.object.result(self.object.name(number(file)?, number(count)?, sink))?;
        Ok(name.0.concat())
    }

    fn supersedes(&self) -> &[String] {
        &self.supersedes
    }

    fn sealed(&self) -> &[String] {
        &self.sealed
    }

    fn seal(&self, sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let (files, mut output) = (LentWrittenFiles(files), LentByteSink(output));
        let (files, output) = (Borrowed::shared(&files), Borrowed::sink(&mut output));
        self.object.result(self.object.seal(number(sealed)?, files, output))
    }

    fn group(&self) -> Group {
        self.group
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Collector::<String>::default();
        self.object.record_fault(self.object.notes(Borrowed::sink(&mut notes)));
        notes.0
    }

    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let mut output = LentByteSink(output);
        self.object.result_or_default(self.object.begin(number(file)?, Borrowed::sink(&mut output)))
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let first = batches.first().ok_or_else(|| Error::plugin("the piece has no rows"))?;
        let mut stream = c_stream(&first.schema(), batches);
        let (mut output, mut losses) = (LentByteSink(output), LentLossSink(losses));
        let mut note = Collector::<u8>::default();
        self.object.result(self.object.encode(
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
        self.object.result_or_default(self.object.finish(number(file)?, pieces, output))
    }
}
