//! Writes records. A flow's batches are collected into pieces. The writer encodes the pieces on
//! many threads, and the encoded pieces are written to the staged files in order. If all previous
//! pieces are complete, a piece's bytes are written to the file immediately. Otherwise, they wait
//! in memory.

mod pieces;

use super::batch_bytes::Measure;
use super::digest::RowHasher;
use super::flow::Flow;
use arrow_array::RecordBatch;
use pieces::{FileDistribution, PieceCollector, RecordPiece, divided};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry_core::context::session::Session;
use tensorferry_publish::open_files::OpenFiles;
use tensorferry_publish::output_bytes::{FileShape, OutputBytes};
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan, Roll, WrittenFile};
use tensorferry_sdk::{ByteSink, Context, Error, Loss, LossKind, Result, Severity, arrow_array};

/// Maximum number of reasons for lost records that are reported separately.
const MAX_LOST_REASONS: usize = 16;

/// Maximum number of lost records that a report lists for each reason.
const MAX_LOST_NAMED: usize = 5;

/// Minimum number of bytes that are written at a time. This number is small enough for the bytes to
/// still be in the cache, and large enough for writes to be rare.
const MIN_WRITE_BYTES: usize = 128 << 10;

/// Size in bytes of an encoder's stack. Format libraries process types recursively. If the Parquet
/// library is compiled without optimization, types nested 60 levels deep need more than the usual 2
/// MiB. Unused parts of a stack do not take memory.
const ENCODER_STACK: usize = 16 << 20;

/// Prefix for the temporary names of files that get their final names at the end.
const ROLLING: &str = ".rolling-";

/// The result of writing a record output.
#[derive(Debug, Default)]
pub struct RecordsWritten {
    /// Number of rows.
    pub records: u64,
    /// The files that contain rows, with their current names in the stage.
    pub files: Vec<WrittenFile>,
    /// The length of each additional file, such as an index, that the plan writes after the files
    /// that contain rows.
    pub sealed: Vec<u64>,
    /// The losses of values, as reported by the writer.
    pub losses: Vec<Loss>,
    /// The number of rows that are missing from each file, according to the writer's losses.
    pub(crate) lost_rows: Vec<u64>,
}

/// Writes all rows of a flow. `rows` is the number of rows, if it is known. If the files are named
/// in advance, each file receives an equal share of the rows, or, if the number of rows is unknown,
/// the files receive pieces in turn. `measure` returns the size of rows in bytes. `hasher` receives
/// every row together with the index of its file.
pub fn write(
    flow: &mut dyn Flow,
    plan: &dyn RecordPlan,
    rows: Option<u64>,
    measure: Measure,
    hasher: Option<&mut RowHasher>,
    stage: &dyn Staging,
    session: &Session,
) -> Result<RecordsWritten> {
    let (paths, roll) = (plan.files(), plan.roll());
    if paths.is_empty() == roll.is_none() {
        return Err(Error::plugin("the plan must either name its files or roll"));
    }
    let output = PieceWriter {
        plan,
        session,
        stage,
        roll,
        max_piece_bytes: max_piece_bytes(plan, session)?,
        hasher: Mutex::new(hasher),
        state: Mutex::default(),
        turn: Condvar::new(),
        pool: stage.pool_for(paths.len()),
    };
    {
        let mut state = output.state();
        for path in paths {
            output.begin(&mut state, path.clone())?;
        }
    }
    let piece = piece_bytes(plan.group(), session.memory);
    let run = match roll {
        None => FileDistribution::over_files(paths.len(), rows),
        Some(Roll::Rows(rows)) => FileDistribution::Rolled(rows.max(1)),
        Some(Roll::Bytes(_)) => FileDistribution::Rolled(u64::MAX),
    };
    let is_exact = matches!(roll, Some(Roll::Bytes(_)));
    let mut collector = PieceCollector::new(run, Group { bytes: piece, ..plan.group() }, is_exact, measure);
    let (send, receive) = sync_channel::<RecordPiece>(0);
    let receive = &Mutex::new(receive);
    let read = std::thread::scope(|scope| {
        let started = (0..encoders(piece, session)).try_for_each(|_| {
            let thread = std::thread::Builder::new().stack_size(ENCODER_STACK);
            thread.spawn_scoped(scope, || output.encode_all(receive)).map(drop)
        });
        // The encoder threads end when the sender is dropped.
        let sent = match started {
            Ok(()) => collect_all(flow, &mut collector, &output, &send),
            Err(error) => Err(Error::from(error).context("cannot start an encoder thread")),
        };
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
    let lost_rows = std::mem::take(&mut output.state().lost_rows);
    let sealed = seal(plan, &files, stage, session)?;
    let state = output.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let losses = state.losses.into_values().map(merged);
    let losses = losses.chain(state.lost_records.into_iter().filter_map(lost_records)).collect();
    Ok(RecordsWritten { records, files, sealed, losses, lost_rows })
}

/// Writes the files that describe all files of rows, such as an index. Returns the lengths of the
/// written files.
fn seal(
    plan: &dyn RecordPlan,
    files: &[WrittenFile],
    stage: &dyn Staging,
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

/// Returns the bytes that `push` writes, or an error if the session has been canceled.
fn collected(session: &Session, push: impl FnOnce(&mut dyn ByteSink) -> Result<()>) -> Result<Vec<u8>> {
    struct CollectingSink<'a>(Vec<u8>, &'a Session);

    impl ByteSink for CollectingSink<'_> {
        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.1.check_cancelled()?;
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    let mut pushed = CollectingSink(Vec::new(), session);
    push(&mut pushed)?;
    Ok(pushed.0)
}

/// Returns the size in bytes of the rows in one piece. The size depends on the memory budget. It
/// must not depend on the number of threads, because it determines where the output's pieces end.
fn piece_bytes(asked: Group, memory: u64) -> u64 {
    asked.bytes.clamp(1, (memory / 16).max(64 << 10))
}

/// Returns the maximum length of an encoded piece that fits in a file. Returns `None` if file
/// lengths are not limited. Also returns `None` if the writer requests pieces that are longer than
/// a file, so that each piece gets its own file.
fn max_piece_bytes(plan: &dyn RecordPlan, session: &Session) -> Result<Option<u64>> {
    let Some(Roll::Bytes(most)) = plan.roll().filter(|_| plan.files().is_empty()) else { return Ok(None) };
    if plan.group().bytes > most {
        return Ok(None);
    }
    let head = collected(session, |output| plan.begin(0, output))?;
    Ok(Some(most.saturating_sub(head.len() as u64).max(1)))
}

/// Returns the number of pieces that are encoded at the same time. Half of the memory budget is for
/// reading. In the other half, each piece takes space twice (as rows and as encoded bytes), and an
/// additional piece is being collected.
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
        // An encoder that fails stores its error, so the error here is only a placeholder.
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
            let (taken, bytes) = collector.room(&rest);
            if taken == 0 {
                push(collector.end())?;
                continue;
            }
            let first = rest.slice(0, taken);
            rest = rest.slice(taken, rest.num_rows() - taken);
            if output.roll.is_none() {
                output.hash(collector.file, std::slice::from_ref(&first))?;
            }
            push(collector.add(first, bytes))?;
        }
    }
    push(collector.end())?;
    Ok(records)
}

struct PieceWriter<'a> {
    plan: &'a dyn RecordPlan,
    session: &'a Session,
    stage: &'a dyn Staging,
    roll: Option<Roll>,
    /// Maximum length of an encoded piece. Longer pieces are divided.
    max_piece_bytes: Option<u64>,
    hasher: Mutex<Option<&'a mut RowHasher>>,
    state: Mutex<WriterState>,
    turn: Condvar,
    /// The pool that limits the number of open files, if many files are named in advance.
    pool: Option<Arc<OpenFiles>>,
}

#[derive(Default)]
struct WriterState {
    next: u64,
    files: Vec<FileState>,
    /// For each kind of loss in each column, the number of pieces that report such a loss, and the
    /// first such loss.
    losses: BTreeMap<(LossKind, String), (u64, Loss)>,
    /// For each file, the number of rows that the writer reported as lost.
    lost_rows: Vec<u64>,
    /// For each reason, the number of rows that are missing from the output, and the first such
    /// losses.
    lost_records: BTreeMap<String, (u64, Vec<Loss>)>,
    error: Option<Error>,
    is_stopped: bool,
}

struct FileState {
    path: String,
    /// The open file; `None` after the file is finished and closed. Files are closed early, because
    /// there may be too many rolled files to keep all of them open.
    file: Option<Arc<OutputBytes>>,
    end: u64,
    pieces: Vec<PlacedPiece>,
}

impl FileState {
    /// Returns whether the file has too little room for another piece of this length.
    fn is_full_for(&self, len: u64, roll: Roll) -> bool {
        match roll {
            _ if self.pieces.is_empty() => false,
            Roll::Rows(rows) => self.pieces.iter().map(|piece| piece.rows).sum::<u64>() >= rows,
            Roll::Bytes(bytes) => self.end.saturating_add(len) > bytes,
        }
    }
}

/// Merges the losses of one kind in one column, which `pieces` pieces have reported. Keeps the text
/// of the first loss.
fn merged((pieces, mut first): (u64, Loss)) -> Loss {
    if pieces > 1 {
        first.why += &format!(" (and in {} more pieces)", pieces - 1);
    }
    first
}

/// Returns one loss for all rows that are missing for the same reason.
fn lost_records((why, (count, mut first)): (String, (u64, Vec<Loss>))) -> Option<Loss> {
    if count <= 1 {
        return first.pop();
    }
    let names: Vec<&str> = first.iter().map(|loss| loss.what.as_str()).collect();
    let first = if count > names.len() as u64 { "the first are " } else { "" };
    let why = format!("{why}: {first}{}", names.join(", "));
    Some(Loss::new(LossKind::Record, format!("{count} records"), why))
}

impl WriterState {
    /// Counts a lost record. Details are kept only for the first reasons and the first records of
    /// each reason, because there may be as many losses as rows.
    fn add_lost_record(&mut self, loss: Loss) {
        let is_kept = self.lost_records.len() < MAX_LOST_REASONS || self.lost_records.contains_key(&loss.why);
        let why = if is_kept { &*loss.why } else { "for other reasons" };
        let (count, first) = self.lost_records.entry(why.to_owned()).or_default();
        *count += 1;
        if first.len() < MAX_LOST_NAMED {
            first.push(loss);
        }
    }
}

/// The position of a piece in its file.
#[derive(Clone)]
struct PiecePosition {
    path: String,
    file: Arc<OutputBytes>,
    offset: u64,
}

impl PiecePosition {
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

    /// Creates a file of the output, and writes the bytes that precede its rows.
    fn begin(&self, state: &mut WriterState, path: String) -> Result<()> {
        let head = collected(self.session, |output| self.plan.begin(state.files.len(), output))?;
        let shape = FileShape { is_kept: path.starts_with(ROLLING), ..FileShape::default() };
        let file = Arc::new(self.stage.create_in(self.pool.as_ref(), state.files.len(), &path, shape)?);
        let begin = PiecePosition { file, path: path.clone(), offset: 0 };
        begin.put(0, &head)?;
        let end = head.len() as u64;
        state.files.push(FileState { path, file: Some(begin.file), end, pieces: Vec::new() });
        Ok(())
    }

    /// Writes the bytes that follow the rows of a file, and closes the file. Other threads may
    /// still be writing pieces of the file.
    fn finish(&self, state: &mut WriterState, number: usize) -> Result<()> {
        let Some(of) = state.files.get_mut(number) else { return Ok(()) };
        let Some(file) = of.file.take() else { return Ok(()) };
        let tail = collected(self.session, |output| self.plan.finish(number, &of.pieces, output))?;
        file.write_all_at(&tail, of.end).map_err(|e| e.file(&of.path))?;
        of.end += tail.len() as u64;
        file.ends_at(of.end).map_err(|e| e.file(&of.path))
    }

    /// Finishes all files, and renames rolled files to their final names.
    fn finish_all(&self) -> Result<Vec<WrittenFile>> {
        let mut state = self.state();
        if state.files.is_empty() {
            // An output without rows still has one file.
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

    /// Finishes the last file and creates the next file. The new file gets its final name when all
    /// files exist.
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

    /// Returns the temporary name of a rolled file whose final name is not known yet. Objects in a
    /// store cannot be renamed. An object therefore has its final name from the start, if this name
    /// does not depend on the number of files.
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
        let encoded = self.encode_to(&mut output, batches);
        if let (Ok(piece), Some(most)) = (&encoded, self.max_piece_bytes)
            && piece.is_divisible(most)
        {
            let parts = self.encode_parts(&output, piece, most);
            return self.put_parts(place, file, parts);
        }
        let Some(begins) = self.wait_for_positions(place, file, encoded.map(|piece| vec![piece]))? else {
            return Ok(());
        };
        output.begin = begins.into_iter().next();
        output.flush().map(drop)
    }

    fn encode_to(&self, output: &mut PieceOutput<'_, '_>, batches: Vec<RecordBatch>) -> Result<EncodedPiece> {
        let mut losses = Vec::new();
        let note = self.plan.encode(&batches, output, &mut losses)?;
        Ok(EncodedPiece { batches, len: output.len(), note, losses })
    }

    /// Encodes a piece again in parts, because the encoded piece is too long. Each part fits in a
    /// file, unless the part is a single row. Encoding again is necessary because the encoded
    /// length of rows is not known in advance.
    fn encode_parts(
        &self,
        of: &PieceOutput<'_, '_>,
        piece: &EncodedPiece,
        most: u64,
    ) -> Result<Vec<(EncodedPiece, Vec<u8>)>> {
        let mut parts = Vec::new();
        for batches in divided(&piece.batches, piece.rows_of_part(most)) {
            let mut bytes = Vec::new();
            let mut output = PieceOutput {
                writer: self,
                place: of.place,
                file: of.file,
                begin: None,
                written: 0,
                waiting: &mut bytes,
            };
            let part = self.encode_to(&mut output, batches)?;
            if part.is_divisible(most) {
                parts.extend(self.encode_parts(of, &part, most)?);
            } else {
                parts.push((part, bytes));
            }
        }
        Ok(parts)
    }

    fn put_parts(&self, place: u64, file: usize, parts: Result<Vec<(EncodedPiece, Vec<u8>)>>) -> Result<()> {
        let (pieces, bytes) = match parts {
            Ok(parts) => {
                let (pieces, bytes): (_, Vec<_>) = parts.into_iter().unzip();
                (Ok(pieces), bytes)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let Some(begins) = self.wait_for_positions(place, file, pieces)? else { return Ok(()) };
        for (begin, mut bytes) in begins.into_iter().zip(bytes) {
            let begin = Some(begin);
            let mut output =
                PieceOutput { writer: self, place, file, begin, written: 0, waiting: &mut bytes };
            output.flush()?;
        }
        Ok(())
    }

    /// Returns the position of a piece in its file, if all previous pieces are complete. In rolled
    /// files, the position depends on the piece's length and is not known yet.
    fn position_of(&self, place: u64, file: usize) -> Option<PiecePosition> {
        let state = self.state();
        if state.next != place || self.roll.is_some() {
            return None;
        }
        let of = state.files.get(file)?;
        Some(PiecePosition { path: of.path.clone(), file: of.file.clone()?, offset: of.end })
    }

    /// Waits until all previous pieces have a position. Then assigns positions to this piece or to
    /// all of its parts.
    fn wait_for_positions(
        &self,
        place: u64,
        file: usize,
        encoded: Result<Vec<EncodedPiece>>,
    ) -> Result<Option<Vec<PiecePosition>>> {
        let mut state = self.state();
        while state.next != place && !state.is_stopped {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped {
            return Ok(None);
        }
        let mut begins = Vec::new();
        for piece in encoded? {
            begins.extend(self.assign_position(&mut state, file, piece)?);
        }
        state.next += 1;
        self.turn.notify_all();
        Ok(Some(begins))
    }

    /// Assigns the next position in its file to a piece.
    fn assign_position(
        &self,
        state: &mut WriterState,
        file: usize,
        piece: EncodedPiece,
    ) -> Result<Option<PiecePosition>> {
        let EncodedPiece { batches, len, note, losses } = piece;
        let file = match self.roll {
            None => file,
            Some(roll) => {
                if state.files.last().is_none_or(|last| last.is_full_for(len, roll)) {
                    self.roll_on(state)?;
                }
                let last = state.files.len() - 1;
                // Rows in rolled files are hashed now, because the file of a row was not known
                // earlier.
                self.hash(last, &batches)?;
                last
            }
        };
        let rows = rows_of(&batches);
        let of = &mut state.files[file];
        let offset = of.end;
        of.end += len;
        of.pieces.push(PlacedPiece { offset, len, rows, note });
        let begin = of.file.clone().map(|file| PiecePosition { path: of.path.clone(), file, offset });
        state.lost_rows.resize(state.files.len(), 0);
        for loss in losses {
            if is_of_row(&loss, &batches) {
                state.lost_rows[file] += 1;
                state.add_lost_record(loss);
                continue;
            }
            state.losses.entry((loss.kind, loss.what.clone())).or_insert((0, loss)).0 += 1;
        }
        Ok(begin)
    }
}

/// A piece that has been encoded.
struct EncodedPiece {
    batches: Vec<RecordBatch>,
    len: u64,
    note: Vec<u8>,
    losses: Vec<Loss>,
}

impl EncodedPiece {
    fn is_divisible(&self, most: u64) -> bool {
        self.len > most && rows_of(&self.batches) > 1
    }

    /// Returns the number of rows that take about a quarter of `most` bytes. Because the parts are
    /// small, files become almost `most` bytes long.
    fn rows_of_part(&self, most: u64) -> usize {
        let rows = rows_of(&self.batches);
        let parts = (u128::from(self.len) * 4).div_ceil(u128::from(most)).clamp(2, u128::from(rows.max(2)));
        usize::try_from(u128::from(rows).div_ceil(parts)).unwrap_or(usize::MAX)
    }
}

/// Returns whether a loss reported by a writer describes a row that is missing from the output.
/// Such a loss does not name a column.
fn is_of_row(loss: &Loss, batches: &[RecordBatch]) -> bool {
    let is_column = |batch: &RecordBatch| batch.schema_ref().column_with_name(&loss.what).is_some();
    loss.kind == LossKind::Record && loss.severity == Severity::Lost && !batches.iter().any(is_column)
}

fn rows_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// The encoded bytes of one piece.
struct PieceOutput<'a, 'w> {
    writer: &'a PieceWriter<'w>,
    place: u64,
    file: usize,
    /// The position of the piece, once it is known.
    begin: Option<PiecePosition>,
    /// Number of bytes of the piece that have been written.
    written: u64,
    /// The piece's remaining bytes, which have not been written yet.
    waiting: &'a mut Vec<u8>,
}

impl PieceOutput<'_, '_> {
    fn len(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Writes `bytes` after the bytes that were already written, if the position of the piece is
    /// known. Returns whether the position is known.
    fn put(&mut self, bytes: &[u8]) -> Result<bool> {
        let Some(begin) = &self.begin else { return Ok(false) };
        begin.put(begin.offset + self.written, bytes)?;
        self.written += bytes.len() as u64;
        self.writer.session.count(bytes.len() as u64);
        Ok(true)
    }

    /// Writes the waiting bytes, if the position of the piece is known. Returns whether the
    /// position is known.
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
        if self.waiting.len() + bytes.len() >= MIN_WRITE_BYTES {
            if self.begin.is_none() {
                self.begin = self.writer.position_of(self.place, self.file);
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
mod tests;
