//! Writing collects a flow's batches into pieces, has the writer encode pieces on many threads, and puts
//! them into the staged files in order. What is encoded of a piece goes into its file at once where the pieces before
//! it are whole, and waits in memory else.

use super::digest::RowHasher;
use super::flow::Flow;
use crate::context::session::Session;
use crate::publish::stage::Stage;
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan};
use tensorferry_sdk::{ByteSink, Context, Error, Loss, LossKind, Result, arrow_array};

/// From so many bytes on, what there is of a piece is written: it is still in the cache then, and the file is
/// asked for seldom enough.
const WORTH_WRITING: usize = 128 << 10;

/// What was written.
#[derive(Debug, Default)]
pub struct RecordsWritten {
    /// Rows.
    pub records: u64,
    /// The length of each file.
    pub lens: Vec<u64>,
    /// What values lost.
    pub losses: Vec<Loss>,
}

/// Writes all of a flow. `rows`: how many there are, where that is known: files then get runs of equal
/// length, else pieces by turns. `hasher` is shown every row, with its file.
///
/// # Errors
/// Whatever the flow, the writer or the disk gives.
pub fn write(
    flow: &mut dyn Flow,
    plan: &dyn RecordPlan,
    rows: Option<u64>,
    hasher: Option<&mut RowHasher>,
    stage: &Stage,
    session: &Session,
) -> Result<RecordsWritten> {
    let paths = plan.files();
    if paths.is_empty() {
        return Err(Error::plugin("a plan of no files"));
    }
    let files = paths.iter().map(|path| stage.create(path, None)).collect::<Result<Vec<File>>>()?;
    let output =
        PieceWriter { plan, session, files: &files, paths, state: Mutex::default(), turn: Condvar::new() };
    {
        let mut state = output.state();
        state.ends = vec![0; files.len()];
        state.pieces = vec![Vec::new(); files.len()];
        for index in 0..files.len() {
            let mut head = Vec::new();
            plan.begin(index, &mut head)?;
            output.put(index, 0, &head)?;
            state.ends[index] = head.len() as u64;
        }
    }
    let piece = piece_bytes(plan.group(), session.memory);
    let mut collector = PieceCollector::new(files.len(), rows, Group { bytes: piece, ..plan.group() });
    let (send, receive) = sync_channel::<RecordPiece>(0);
    let receive = &Mutex::new(receive);
    let read = std::thread::scope(|scope| {
        for _ in 0..encoders(piece, session) {
            scope.spawn(|| output.encode_all(receive));
        }
        // Dropping the sender ends the encoders.
        let sent = collect_all(flow, &mut collector, hasher, &output, &send);
        drop(send);
        if sent.is_err() {
            output.stop();
        }
        sent
    });
    let mut state = output.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.error.take() {
        return Err(error);
    }
    let records = read?;
    let mut lens = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let mut tail = Vec::new();
        plan.finish(index, &state.pieces[index], &mut tail)?;
        let named = |e: std::io::Error| Error::from(e).file(&paths[index]);
        file.write_all_at(&tail, state.ends[index]).map_err(named)?;
        lens.push(state.ends[index] + tail.len() as u64);
    }
    Ok(RecordsWritten { records, lens, losses: state.losses.into_values().map(merged).collect() })
}

/// Bytes of the rows of one piece: it depends on the budget, and not on the number of threads, since it
/// decides where the pieces of the output end.
fn piece_bytes(asked: Group, memory: u64) -> u64 {
    asked.bytes.clamp(1, (memory / 16).max(64 << 10))
}

/// How many pieces are encoded at once. Each is there as rows and as bytes, and one more is being
/// collected; half of the budget is for what reads.
fn encoders(piece: u64, session: &Session) -> usize {
    let fit = (session.memory / 2 / piece).saturating_sub(1) / 2;
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, session.threads)
}

/// Rows that become one piece of one file.
struct RecordPiece {
    place: u64,
    file: usize,
    batches: Vec<RecordBatch>,
}

fn collect_all(
    flow: &mut dyn Flow,
    collector: &mut PieceCollector,
    mut hasher: Option<&mut RowHasher>,
    output: &PieceWriter<'_>,
    send: &SyncSender<RecordPiece>,
) -> Result<u64> {
    let mut records = 0;
    let push = |piece: Option<RecordPiece>| {
        let Some(piece) = piece else { return Ok(()) };
        // An encoder that failed has left its error.
        if output.has_failed() || send.send(piece).is_err() {
            return Err(Error::cancelled("an encoder failed"));
        }
        Ok(())
    };
    while let Some(batch) = flow.next()? {
        output.session.check_cancelled()?;
        records += batch.num_rows() as u64;
        let mut rest = batch;
        while rest.num_rows() > 0 {
            let taken = collector.room().min(rest.num_rows());
            let first = rest.slice(0, taken);
            rest = rest.slice(taken, rest.num_rows() - taken);
            if let Some(hasher) = hasher.as_deref_mut() {
                hasher.add(collector.file, &first)?;
            }
            push(collector.add(first))?;
        }
    }
    push(collector.end())?;
    Ok(records)
}

/// Collects rows to pieces, and says which file each goes to.
struct PieceCollector {
    files: usize,
    /// Rows of each file, where the whole is known; 0: pieces by turns.
    run_of_rows: u64,
    group: Group,
    file: usize,
    rows_in_file: u64,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
    place: u64,
}

impl PieceCollector {
    fn new(files: usize, rows: Option<u64>, asked: Group) -> Self {
        let group = Group { rows: asked.rows.max(1), ..asked };
        let run_of_rows =
            if files > 1 { rows.map_or(0, |rows| rows.div_ceil(files as u64).max(1)) } else { 0 };
        let group = if files > 1 && rows.is_none() {
            // By turns: small enough that the files come out alike.
            Group { rows: group.rows.min(1024), ..group }
        } else {
            group
        };
        let batches = Vec::new();
        Self { files, run_of_rows, group, file: 0, rows_in_file: 0, batches, rows: 0, bytes: 0, place: 0 }
    }

    /// Rows that the current piece still takes.
    fn room(&self) -> usize {
        let in_file = match self.run_of_rows {
            0 => u64::MAX,
            run => run - self.rows_in_file,
        };
        (self.group.rows - self.rows).min(usize::try_from(in_file).unwrap_or(usize::MAX)).max(1)
    }

    fn add(&mut self, batch: RecordBatch) -> Option<RecordPiece> {
        self.rows += batch.num_rows();
        self.rows_in_file += batch.num_rows() as u64;
        // A slice counts what it shows, not the buffers behind it.
        self.bytes += batch.columns().iter().map(|column| shown_bytes(column.as_ref())).sum::<u64>();
        self.batches.push(batch);
        let file_is_full = self.run_of_rows > 0 && self.rows_in_file >= self.run_of_rows;
        if self.rows >= self.group.rows || self.bytes >= self.group.bytes || file_is_full {
            let piece = self.end();
            if file_is_full {
                self.file = (self.file + 1).min(self.files - 1);
                self.rows_in_file = 0;
            } else if self.run_of_rows == 0 {
                self.file = (self.file + 1) % self.files;
            }
            return piece;
        }
        None
    }

    fn end(&mut self) -> Option<RecordPiece> {
        if self.batches.is_empty() {
            return None;
        }
        let piece =
            RecordPiece { place: self.place, file: self.file, batches: std::mem::take(&mut self.batches) };
        (self.rows, self.bytes) = (0, 0);
        self.place += 1;
        Some(piece)
    }
}

/// Bytes that a column's rows take.
#[must_use]
pub fn shown_bytes(column: &dyn arrow_array::Array) -> u64 {
    column.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64)
}

struct PieceWriter<'a> {
    plan: &'a dyn RecordPlan,
    session: &'a Session,
    files: &'a [File],
    paths: &'a [String],
    state: Mutex<WriterState>,
    turn: Condvar,
}

#[derive(Default)]
struct WriterState {
    next: u64,
    ends: Vec<u64>,
    pieces: Vec<Vec<PlacedPiece>>,
    /// The first of each kind in each column, and how many pieces spoke of it.
    losses: BTreeMap<(LossKind, String), (u64, Loss)>,
    error: Option<Error>,
    is_stopped: bool,
}

/// Losses of one kind in one column, of which so many pieces spoke, in the words of the first.
fn merged((pieces, mut first): (u64, Loss)) -> Loss {
    if pieces > 1 {
        first.why += &format!(" (and in {} more pieces)", pieces - 1);
    }
    first
}

impl PieceWriter<'_> {
    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self) -> bool {
        self.state().error.is_some()
    }

    fn stop(&self) {
        self.state().is_stopped = true;
        self.turn.notify_all();
    }

    fn put(&self, file: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let named = |e: std::io::Error| Error::from(e).file(&self.paths[file]);
        self.files[file].write_all_at(bytes, at).map_err(named)
    }

    fn encode_all(&self, pieces: &Mutex<Receiver<RecordPiece>>) {
        let mut waiting = Vec::new();
        loop {
            let piece = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(piece) = piece else { return };
            waiting.clear();
            if let Err(error) = self.encode(piece, &mut waiting) {
                self.state().error.get_or_insert(error);
                self.stop();
            }
        }
    }

    fn encode(&self, piece: RecordPiece, waiting: &mut Vec<u8>) -> Result<()> {
        let RecordPiece { place, file, batches } = piece;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let mut output = PieceOutput { writer: self, place, file, begin: None, written: 0, waiting };
        let mut losses = Vec::new();
        let note = self.plan.encode(file, &batches, &mut output, &mut losses);
        drop(batches);
        let encoded = note.map(|note| (note, losses));
        let Some(begin) = self.placed(place, file, rows, output.len(), encoded)? else { return Ok(()) };
        output.begin = Some(begin);
        output.flush().map(drop)
    }

    /// Where a piece begins in its file, if those before it are whole.
    fn begin_of(&self, place: u64, file: usize) -> Option<u64> {
        let state = self.state();
        (state.next == place).then(|| state.ends[file])
    }

    /// Waits for the pieces before this one, and takes its place after them.
    fn placed(
        &self,
        place: u64,
        file: usize,
        rows: u64,
        len: u64,
        encoded: Result<(Vec<u8>, Vec<Loss>)>,
    ) -> Result<Option<u64>> {
        let mut state = self.state();
        while state.next != place && !state.is_stopped {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped {
            return Ok(None);
        }
        let (note, losses) = encoded?;
        let offset = state.ends[file];
        state.ends[file] += len;
        state.pieces[file].push(PlacedPiece { offset, len, rows, note });
        for loss in losses {
            state.losses.entry((loss.kind, loss.what.clone())).or_insert((0, loss)).0 += 1;
        }
        state.next += 1;
        self.turn.notify_all();
        Ok(Some(offset))
    }
}

/// What is encoded of one piece.
struct PieceOutput<'a> {
    writer: &'a PieceWriter<'a>,
    place: u64,
    file: usize,
    /// Where the piece begins in the file, once it is known.
    begin: Option<u64>,
    /// How many of its bytes lie there.
    written: u64,
    /// Those that follow.
    waiting: &'a mut Vec<u8>,
}

impl PieceOutput<'_> {
    fn len(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Counts bytes that have been written.
    fn wrote(&mut self, len: usize) {
        self.written += len as u64;
        self.writer.session.count(len as u64);
    }

    /// Writes what waits, if it is known where, and says where what follows goes.
    fn flush(&mut self) -> Result<Option<u64>> {
        let Some(begin) = self.begin else { return Ok(None) };
        self.writer.put(self.file, begin + self.written, self.waiting)?;
        self.wrote(self.waiting.len());
        self.waiting.clear();
        Ok(Some(begin + self.written))
    }
}

impl ByteSink for PieceOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.waiting.len() + bytes.len() >= WORTH_WRITING {
            self.begin = self.begin.or_else(|| self.writer.begin_of(self.place, self.file));
            if let Some(at) = self.flush()? {
                self.writer.put(self.file, at, bytes)?;
                self.wrote(bytes.len());
                return Ok(());
            }
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::publish::stage::{Destination, DestinationKind};
    use crate::records::flow::from_fn;
    use arrow_array::{Int32Array, cast::AsArray, types::Int32Type};
    use std::sync::Arc;
    use tensorferry_sdk::LossSink;

    /// Two files. A piece is its numbers, each as often as it says, written in parts of all lengths; the note counts them.
    struct Repeated([String; 2]);

    /// What is written of a number.
    fn bytes(number: i32) -> Vec<u8> {
        number.to_le_bytes().repeat(usize::try_from(number % 7).unwrap() * 20_000 + 3)
    }

    impl RecordPlan for Repeated {
        fn files(&self) -> &[String] {
            &self.0
        }

        fn group(&self) -> Group {
            Group { rows: 5, ..Group::default() }
        }

        fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
            output.write(b"head")
        }

        fn encode(
            &self,
            _file: usize,
            batches: &[RecordBatch],
            output: &mut dyn ByteSink,
            _losses: &mut dyn LossSink,
        ) -> Result<Vec<u8>> {
            let mut count = 0;
            for &number in
                batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values())
            {
                // Where a piece takes longer, the next ones wait.
                std::thread::sleep(std::time::Duration::from_millis(u64::from(number % 11 == 0)));
                if number == 999 {
                    return Err(Error::unsupported("999"));
                }
                output.write(&bytes(number))?;
                count += 1;
            }
            Ok(vec![count])
        }

        fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
            let mut end = 4;
            for piece in pieces {
                assert_eq!((piece.offset, piece.rows), (end, u64::from(piece.note[0])));
                end += piece.len;
            }
            output.write(b"tail")
        }
    }

    fn written(numbers: i32, threads: usize) -> Result<[Vec<u8>; 2]> {
        let folder = tempfile::tempdir().unwrap();
        let destination = Destination { folder: folder.path().join("out"), kind: DestinationKind::Folder };
        let stage = Stage::begin(&destination)?;
        let plan = Repeated(["a", "b"].map(str::to_owned));
        let column = || Arc::new((0..numbers).collect::<Int32Array>()) as _;
        let batch = RecordBatch::try_from_iter([("number", column())]).unwrap();
        let mut batches = Some(batch.clone());
        let mut flow = from_fn(batch.schema(), || Ok(batches.take()));
        let session = Session::new(threads, 1 << 30);
        let rows = u64::try_from(numbers).ok();
        let written = write(&mut *flow, &plan, rows, None, &stage, &session)?;
        let files = plan.0.each_ref().map(|name| std::fs::read(stage.path(name)).unwrap());
        assert_eq!(written.lens, files.each_ref().map(|file| file.len() as u64));
        Ok(files)
    }

    #[test]
    fn pieces_come_in_order_whoever_encodes_them() {
        let expected = [0..50, 50..100].map(|numbers| {
            let pieces = numbers.flat_map(bytes);
            [b"head".to_vec(), pieces.collect(), b"tail".to_vec()].concat()
        });
        for threads in [1, 2, 5] {
            assert!(written(100, threads).unwrap() == expected, "{threads} threads");
        }
        assert_eq!(written(1010, 3).unwrap_err().kind(), tensorferry_sdk::ErrorKind::Unsupported);
    }
}
