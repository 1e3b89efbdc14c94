//! Writing collects a flow's batches into pieces, has the writer encode them on many threads, and puts
//! them into the staged files in order. What is encoded of a piece goes into its file at once where the pieces before
//! it are whole, and waits in memory else.

mod pieces;

use super::digest::RowHasher;
use super::flow::Flow;
use crate::context::session::Session;
use crate::publish::output_bytes::{FileShape, OutputBytes};
use crate::publish::staging::Staging;
use arrow_array::RecordBatch;
use pieces::{PieceCollector, RecordPiece, Run};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan, Roll, WrittenFile};
use tensorferry_sdk::{ByteSink, Context, Error, Loss, LossKind, Result, arrow_array};

/// From so many bytes on, what there is of a piece is written: it is still in the cache then, and the file is
/// asked for seldom enough.
const WORTH_WRITING: usize = 128 << 10;

/// The start of the names of files that are named at the end.
const ROLLING: &str = ".rolling-";

/// What was written.
#[derive(Debug, Default)]
pub struct RecordsWritten {
    /// Rows.
    pub records: u64,
    /// The files of rows, under the names that they have in the stage now.
    pub files: Vec<WrittenFile>,
    /// The length of each file over them.
    pub sealed: Vec<u64>,
    /// What values lost.
    pub losses: Vec<Loss>,
}

/// Writes all of a flow. `rows`: how many there are, where that is known: files that are named in advance then get runs
/// of equal length, else pieces by turns. `hasher` is shown every row, with its file.
///
/// # Errors
/// Whatever the flow, the writer or the disk gives.
pub(crate) fn write(
    flow: &mut dyn Flow,
    plan: &dyn RecordPlan,
    rows: Option<u64>,
    hasher: Option<&mut RowHasher>,
    stage: &Staging,
    session: &Session,
) -> Result<RecordsWritten> {
    let (paths, roll) = (plan.files(), plan.roll());
    if paths.is_empty() == roll.is_none() {
        return Err(Error::plugin("a plan of no files, or one that rolls and names them"));
    }
    let output = PieceWriter {
        plan,
        session,
        stage,
        roll,
        hasher: Mutex::new(hasher),
        state: Mutex::default(),
        turn: Condvar::new(),
    };
    {
        let mut state = output.state();
        for path in paths {
            output.begin(&mut state, path.clone())?;
        }
    }
    let piece = piece_bytes(plan.group(), session.memory);
    let run = match roll {
        None => Run::dealt(paths.len(), rows),
        Some(Roll::Rows(rows)) => Run::Rolled(rows.max(1)),
        Some(Roll::Bytes(_)) => Run::Rolled(u64::MAX),
    };
    let mut collector = PieceCollector::new(run, Group { bytes: piece, ..plan.group() });
    let (send, receive) = sync_channel::<RecordPiece>(0);
    let receive = &Mutex::new(receive);
    let read = std::thread::scope(|scope| {
        for _ in 0..encoders(piece, session) {
            scope.spawn(|| output.encode_all(receive));
        }
        // Dropping the sender ends the encoders.
        let sent = collect_all(flow, &mut collector, &output, &send);
        drop(send);
        if sent.is_err() {
            output.stop();
        }
        sent
    });
    if let Some(error) = output.state().error.take() {
        return Err(error);
    }
    let records = read?;
    let files = output.finish_all()?;
    let sealed = seal(plan, &files, stage, session)?;
    let state = output.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let losses = state.losses.into_values().map(merged).collect();
    Ok(RecordsWritten { records, files, sealed, losses })
}

/// Writes the files over all others; gives their lengths.
fn seal(
    plan: &dyn RecordPlan,
    files: &[WrittenFile],
    stage: &Staging,
    session: &Session,
) -> Result<Vec<u64>> {
    let write = |(number, path): (usize, &String)| {
        let bytes = collected(session, |output| plan.seal(number, files, output))?;
        let file = stage.create(path, FileShape::of_len(bytes.len() as u64))?;
        file.write_all_at(&bytes, 0).map_err(|e| e.file(path))?;
        Ok(bytes.len() as u64)
    };
    plan.sealed().iter().enumerate().map(write).collect()
}

/// What a plan pushes, until the session is cancelled.
fn collected(session: &Session, push: impl FnOnce(&mut dyn ByteSink) -> Result<()>) -> Result<Vec<u8>> {
    struct Pushed<'a>(Vec<u8>, &'a Session);

    impl ByteSink for Pushed<'_> {
        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.1.check_cancelled()?;
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    let mut pushed = Pushed(Vec::new(), session);
    push(&mut pushed)?;
    Ok(pushed.0)
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

fn collect_all(
    flow: &mut dyn Flow,
    collector: &mut PieceCollector,
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
            if output.roll.is_none() {
                output.hash(collector.file, std::slice::from_ref(&first))?;
            }
            push(collector.add(first))?;
        }
    }
    push(collector.end())?;
    Ok(records)
}

struct PieceWriter<'a> {
    plan: &'a dyn RecordPlan,
    session: &'a Session,
    stage: &'a Staging,
    roll: Option<Roll>,
    hasher: Mutex<Option<&'a mut RowHasher>>,
    state: Mutex<WriterState>,
    turn: Condvar,
}

#[derive(Default)]
struct WriterState {
    next: u64,
    files: Vec<FileState>,
    /// The first of each kind in each column, and how many pieces spoke of it.
    losses: BTreeMap<(LossKind, String), (u64, Loss)>,
    error: Option<Error>,
    is_stopped: bool,
}

/// A staged file.
struct FileState {
    path: String,
    /// Closed when it is finished: of those that roll, there may be many.
    file: Option<Arc<OutputBytes>>,
    end: u64,
    pieces: Vec<PlacedPiece>,
}

impl FileState {
    /// Whether another piece is one too many.
    fn is_full_for(&self, len: u64, roll: Roll) -> bool {
        match roll {
            _ if self.pieces.is_empty() => false,
            Roll::Rows(rows) => self.pieces.iter().map(|piece| piece.rows).sum::<u64>() >= rows,
            Roll::Bytes(bytes) => self.end.saturating_add(len) > bytes,
        }
    }
}

/// Losses of one kind in one column, of which so many pieces spoke, in the words of the first.
fn merged((pieces, mut first): (u64, Loss)) -> Loss {
    if pieces > 1 {
        first.why += &format!(" (and in {} more pieces)", pieces - 1);
    }
    first
}

/// Where a piece begins.
#[derive(Clone)]
struct Begin {
    path: String,
    file: Arc<OutputBytes>,
    offset: u64,
}

impl Begin {
    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|e| e.file(&self.path))
    }
}

impl<'a> PieceWriter<'a> {
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

    fn hash(&self, file: usize, batches: &[RecordBatch]) -> Result<()> {
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hasher) = hasher.as_deref_mut() else { return Ok(()) };
        batches.iter().try_for_each(|batch| hasher.add(file, batch))
    }

    /// Creates a file, and writes its head.
    fn begin(&self, state: &mut WriterState, path: String) -> Result<()> {
        let head = collected(self.session, |output| self.plan.begin(state.files.len(), output))?;
        let shape = FileShape { is_kept: path.starts_with(ROLLING), ..FileShape::default() };
        let file = Arc::new(self.stage.create(&path, shape)?);
        let begin = Begin { file, path: path.clone(), offset: 0 };
        begin.put(0, &head)?;
        let end = head.len() as u64;
        state.files.push(FileState { path, file: Some(begin.file), end, pieces: Vec::new() });
        Ok(())
    }

    /// Writes the tail of a file, and closes it. Its pieces may still be being written.
    fn finish(&self, state: &mut WriterState, number: usize) -> Result<()> {
        let Some(of) = state.files.get_mut(number) else { return Ok(()) };
        let Some(file) = of.file.take() else { return Ok(()) };
        let tail = collected(self.session, |output| self.plan.finish(number, &of.pieces, output))?;
        file.write_all_at(&tail, of.end).map_err(|e| e.file(&of.path))?;
        of.end += tail.len() as u64;
        file.ends_at(of.end).map_err(|e| e.file(&of.path))
    }

    /// Finishes all files, and gives those that rolled their names.
    fn finish_all(&self) -> Result<Vec<WrittenFile>> {
        let mut state = self.state();
        if state.files.is_empty() {
            // An output without a row is one file.
            self.roll_on(&mut state)?;
        }
        for number in 0..state.files.len() {
            self.finish(&mut state, number)?;
        }
        let count = state.files.len();
        let mut written = Vec::with_capacity(count);
        for (number, file) in std::mem::take(&mut state.files).into_iter().enumerate() {
            let name = match self.roll {
                None => file.path,
                Some(_) => {
                    let name = self.plan.name(number, count)?;
                    if file.path != name {
                        self.stage.rename(&file.path, &name)?;
                    }
                    name
                }
            };
            written.push(WrittenFile { name, bytes: file.end, pieces: file.pieces });
        }
        Ok(written)
    }

    /// Finishes the last file, and begins another one, which is named when all are there.
    fn roll_on(&self, state: &mut WriterState) -> Result<()> {
        let number = state.files.len();
        if let Some(last) = number.checked_sub(1) {
            self.finish(state, last)?;
        }
        if let Some(hasher) = self.hasher.lock().unwrap_or_else(PoisonError::into_inner).as_deref_mut() {
            hasher.begin_file();
        }
        self.begin(state, self.rolling_name(number))
    }

    /// What a file that rolls is called until its name is known. An object cannot be renamed: where its name does not
    /// depend on how many there will be, it has it from the start.
    fn rolling_name(&self, number: usize) -> String {
        if self.stage.is_remote()
            && let [Ok(one), Ok(other)] = [1, 2].map(|more| self.plan.name(number, number + more))
            && one == other
        {
            return one;
        }
        format!("{ROLLING}{number}")
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
        let mut output = PieceOutput { writer: self, place, file, begin: None, written: 0, waiting };
        let mut losses = Vec::new();
        let note = self.plan.encode(&batches, &mut output, &mut losses);
        let encoded = note.map(|note| (note, losses));
        let Some(begin) = self.placed(place, file, batches, output.len(), encoded)? else { return Ok(()) };
        output.begin = Some(begin);
        output.flush().map(drop)
    }

    /// Where a piece begins in its file, if those before it are whole. Where files roll, that depends on its length.
    fn begin_of(&self, place: u64, file: usize) -> Option<Begin> {
        let state = self.state();
        if state.next != place || self.roll.is_some() {
            return None;
        }
        let of = state.files.get(file)?;
        Some(Begin { path: of.path.clone(), file: of.file.clone()?, offset: of.end })
    }

    /// Waits for the pieces before this one, and takes its place after them.
    fn placed(
        &self,
        place: u64,
        file: usize,
        batches: Vec<RecordBatch>,
        len: u64,
        encoded: Result<(Vec<u8>, Vec<Loss>)>,
    ) -> Result<Option<Begin>> {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        // Rows of files that roll are hashed once it is known which file they are in.
        let batches = if self.roll.is_some() { batches } else { Vec::new() };
        let mut state = self.state();
        while state.next != place && !state.is_stopped {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped {
            return Ok(None);
        }
        let (note, losses) = encoded?;
        let file = match self.roll {
            None => file,
            Some(roll) => {
                if state.files.last().is_none_or(|last| last.is_full_for(len, roll)) {
                    self.roll_on(&mut state)?;
                }
                let last = state.files.len() - 1;
                self.hash(last, &batches)?;
                last
            }
        };
        let of = &mut state.files[file];
        let offset = of.end;
        of.end += len;
        of.pieces.push(PlacedPiece { offset, len, rows, note });
        let begin = of.file.clone().map(|file| Begin { path: of.path.clone(), file, offset });
        for loss in losses {
            state.losses.entry((loss.kind, loss.what.clone())).or_insert((0, loss)).0 += 1;
        }
        state.next += 1;
        self.turn.notify_all();
        Ok(begin)
    }
}

/// What is encoded of one piece.
struct PieceOutput<'a, 'w> {
    writer: &'a PieceWriter<'w>,
    place: u64,
    file: usize,
    /// Where the piece begins, once it is known.
    begin: Option<Begin>,
    /// How many of its bytes lie there.
    written: u64,
    /// Those that follow.
    waiting: &'a mut Vec<u8>,
}

impl PieceOutput<'_, '_> {
    fn len(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Writes bytes behind those that are written, if it is known where; whether it is.
    fn put(&mut self, bytes: &[u8]) -> Result<bool> {
        let Some(begin) = &self.begin else { return Ok(false) };
        begin.put(begin.offset + self.written, bytes)?;
        self.written += bytes.len() as u64;
        self.writer.session.count(bytes.len() as u64);
        Ok(true)
    }

    /// Writes what waits, if it is known where; whether it is.
    fn flush(&mut self) -> Result<bool> {
        let waiting = std::mem::take(self.waiting);
        let put = self.put(&waiting);
        *self.waiting = waiting;
        if let Ok(true) = put {
            self.waiting.clear();
        }
        put
    }
}

impl ByteSink for PieceOutput<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.session.check_cancelled()?;
        if self.waiting.len() + bytes.len() >= WORTH_WRITING {
            if self.begin.is_none() {
                self.begin = self.writer.begin_of(self.place, self.file);
            }
            if self.flush()? && self.put(bytes)? {
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
    use crate::publish::stage::{Destination, DestinationKind, Stage};
    use crate::records::flow::from_fn;
    use arrow_array::{Int32Array, cast::AsArray, types::Int32Type};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tensorferry_sdk::{ErrorKind, LossSink};

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
        let plan = Repeated(["a", "b"].map(str::to_owned));
        let files = files_of(&plan, numbers, threads, u64::try_from(numbers).ok())?;
        Ok(plan.0.each_ref().map(|name| files[name].clone()))
    }

    fn files_of(
        plan: &dyn RecordPlan,
        numbers: i32,
        threads: usize,
        rows: Option<u64>,
    ) -> Result<BTreeMap<String, Vec<u8>>> {
        let folder = tempfile::tempdir().unwrap();
        let destination = Destination { folder: folder.path().join("out"), kind: DestinationKind::Folder };
        let stage = Staging::Local(Stage::begin(&destination)?);
        let column = || Arc::new((0..numbers).collect::<Int32Array>()) as _;
        let batch = RecordBatch::try_from_iter([("number", column())]).unwrap();
        let mut batches = Some(batch.clone()).filter(|batch| batch.num_rows() > 0);
        let mut flow = from_fn(batch.schema(), || Ok(batches.take()));
        let session = Session::new(threads, 1 << 30);
        let mut hasher = RowHasher::new(Vec::new(), plan.files().len());
        let written = write(&mut *flow, plan, rows, Some(&mut hasher), &stage, &session)?;
        let hashed: Vec<u64> = hasher.finish().iter().map(|file| file.rows).collect();
        assert_eq!(hashed, written.files.iter().map(WrittenFile::rows).collect::<Vec<_>>());
        let names = written.files.iter().map(|file| (&file.name, file.bytes));
        let sealed = plan.sealed().iter().zip(written.sealed);
        let read = |(name, len): (&String, u64)| {
            let bytes = std::fs::read(stage.local_path(name).unwrap()).unwrap();
            assert_eq!(bytes.len() as u64, len, "{name}");
            (name.clone(), bytes)
        };
        Ok(names.chain(sealed).map(read).collect())
    }

    /// The same pieces in files that roll, and a file that lists them.
    struct Rolling(Roll, [String; 1]);

    impl RecordPlan for Rolling {
        fn files(&self) -> &[String] {
            &[]
        }

        fn roll(&self) -> Option<Roll> {
            Some(self.0)
        }

        fn name(&self, file: usize, count: usize) -> Result<String> {
            Ok(format!("{file}-of-{count}"))
        }

        fn group(&self) -> Group {
            Group { rows: 5, ..Group::default() }
        }

        fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
            output.write(format!("head {file}").as_bytes())
        }

        fn encode(
            &self,
            batches: &[RecordBatch],
            output: &mut dyn ByteSink,
            losses: &mut dyn LossSink,
        ) -> Result<Vec<u8>> {
            Repeated([String::new(), String::new()]).encode(batches, output, losses)
        }

        fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
            output.write(&[u8::try_from(pieces.len()).unwrap()])
        }

        fn sealed(&self) -> &[String] {
            &self.1
        }

        fn seal(&self, _sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
            files.iter().try_for_each(|file| {
                output.write(format!("{} {} {}\n", file.name, file.rows(), file.bytes).as_bytes())
            })
        }
    }

    /// Cancels its session, and pushes without end: it is told of no session.
    struct Endless([String; 1], Arc<AtomicBool>);

    impl RecordPlan for Endless {
        fn files(&self) -> &[String] {
            &self.0
        }

        fn encode(
            &self,
            _batches: &[RecordBatch],
            output: &mut dyn ByteSink,
            _losses: &mut dyn LossSink,
        ) -> Result<Vec<u8>> {
            self.1.store(true, Ordering::Relaxed);
            loop {
                output.write(b"again")?;
            }
        }
    }

    #[test]
    fn a_piece_without_end_ends_with_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let destination = Destination { folder: folder.path().join("out"), kind: DestinationKind::Folder };
        let stage = Staging::Local(Stage::begin(&destination).unwrap());
        let session = Session::new(2, 1 << 30);
        let plan = Endless(["a".to_owned()], session.cancel_flag());
        let column = Arc::new((0..10).collect::<Int32Array>()) as _;
        let mut batches = Some(RecordBatch::try_from_iter([("number", column)]).unwrap());
        let schema = batches.as_ref().unwrap().schema();
        let mut flow = from_fn(schema, || Ok(batches.take()));
        let ended = write(&mut *flow, &plan, None, None, &stage, &session);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn files_roll_at_the_same_rows_whoever_encodes_them() {
        let of = |roll, numbers, threads| {
            files_of(&Rolling(roll, ["list".to_owned()]), numbers, threads, None).unwrap()
        };
        // Twelve rows a file: pieces of five, five and two.
        let expected: Vec<u8> =
            [&b"head 1"[..], &(12..24).flat_map(bytes).collect::<Vec<_>>(), &[3]].concat();
        for threads in [1, 2, 5] {
            let files = of(Roll::Rows(12), 100, threads);
            assert_eq!(files.len(), 9 + 1, "{:?}", files.keys());
            assert!(files["1-of-9"] == expected, "{threads} threads");
            let list = String::from_utf8(files["list"].clone()).unwrap();
            assert!(list.starts_with("0-of-9 12 ") && list.contains("8-of-9 4 "), "{list}");
        }
        let most = 3_000_000;
        let by_size = of(Roll::Bytes(most), 100, 1);
        assert!(by_size == of(Roll::Bytes(most), 100, 5));
        let data: Vec<_> = by_size.iter().filter(|(name, _)| *name != "list").collect();
        // A piece that is too long for a file has one for itself.
        assert!(
            data.len() > 5
                && data.iter().all(|(_, bytes)| bytes.len() as u64 <= most + 1 || bytes.last() == Some(&1))
        );
        assert!(data.iter().any(|(_, bytes)| bytes.last() > Some(&1)));
        let empty = of(Roll::Rows(12), 0, 2);
        assert_eq!(empty["0-of-1"], b"head 0\0");
        assert_eq!(empty["list"], b"0-of-1 0 7\n");
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
