//! Encoding has the plan give its encoded segments, many at once, and puts them into the staged files.
//!
//! Where a segment begins is known once those of unknown length before it in its file are whole. What is encoded of it
//! goes into the file at once then. Until then it waits: in memory, or beyond the budget in a temporary file.

use crate::context::windows::{WINDOW_BYTES, size, windows};
use crate::tensors::logical::Logical;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, EncodedId, Error, Layout, OutputId, PlacedEncoded, Result, TensorPlan,
};

/// From so many bytes on, what there is of a segment is written: it is still in the cache then, and the file is
/// asked for seldom enough.
const WORTH_WRITING: usize = 128 << 10;

/// What was said of each encoded segment, by its place; the layout has its length then.
pub type Notes = Vec<Vec<u8>>;

/// Has the plan give all encoded segments of a layout, writes them into `files`, which has a file for each of the
/// layout's, and puts their lengths into the layout.
///
/// # Errors
/// A plugin error, naming the file and the offset, where a segment has another length than was promised; whatever the
/// plan or the disk gives.
pub fn encode(
    layout: &mut Layout,
    plan: &dyn TensorPlan,
    logical: &Logical<'_>,
    context: &dyn Context,
    files: &[File],
) -> Result<Notes> {
    if layout.encoded().is_empty() {
        return Ok(Notes::new());
    }
    let encoding = Encoding::new(layout, logical, files)?;
    let next = AtomicUsize::new(0);
    // Each thread of the pool takes the next segment, so that few wait for those before them. A thread that waits for a
    // read in a call of the plugin's finds no other segment to encode in the meantime, as it would with a parallel
    // iterator.
    rayon::broadcast(|_| {
        while !encoding.has_failed() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(placed) = layout.encoded().get(index) else { return };
            if let Err(error) = encoding.segment(index, placed, plan, context) {
                encoding.failed.get_or_init(|| encoding.named(index, error));
            }
        }
    });
    let (lens, notes) = encoding.finish()?;
    let unsettled = layout.unsettled();
    layout.settle(&lens);
    for id in unsettled {
        let file = &layout.files()[id.0 as usize];
        files[id.0 as usize].set_len(file.len).map_err(|e| Error::from(e).file(&file.path))?;
    }
    Ok(notes)
}

struct Encoding<'a> {
    layout: &'a Layout,
    logical: &'a Logical<'a>,
    files: &'a [File],
    segments: Vec<SegmentState>,
    failed: OnceLock<Error>,
    /// Bytes that wait in memory.
    held: AtomicU64,
    spill: OnceLock<Result<File>>,
    spilled: AtomicU64,
}

/// A segment, as it is known so far.
#[derive(Default)]
struct SegmentState {
    /// The one after it in its file.
    next: Option<usize>,
    progress: Mutex<SegmentProgress>,
}

#[derive(Default)]
struct SegmentProgress {
    /// Where it begins, once those before it are whole.
    begin: Option<u64>,
    /// How long it is, once it is whole.
    len: Option<u64>,
    /// Its bytes, if it is whole and waits for those before it.
    waiting: Vec<Waiting>,
    note: Vec<u8>,
}

/// Bytes that wait for their place.
enum Waiting {
    Memory(Vec<u8>),
    Spilled(Range<u64>),
}

impl<'a> Encoding<'a> {
    fn new(layout: &'a Layout, logical: &'a Logical<'a>, files: &'a [File]) -> Result<Self> {
        let mut segments: Vec<SegmentState> = layout.encoded().iter().map(|_| SegmentState::default()).collect();
        let mut last_of: Vec<Option<usize>> = vec![None; files.len()];
        let mut firsts = Vec::new();
        for (index, placed) in layout.encoded().iter().enumerate() {
            match last_of[placed.file.0 as usize].replace(index) {
                Some(before) => segments[before].next = Some(index),
                None => firsts.push((index, placed.range.start)),
            }
        }
        let encoding = Self {
            layout,
            logical,
            files,
            segments,
            failed: OnceLock::new(),
            held: AtomicU64::new(0),
            spill: OnceLock::new(),
            spilled: AtomicU64::new(0),
        };
        for (index, begin) in firsts {
            encoding.place_from(index, begin)?;
        }
        Ok(encoding)
    }
}

impl Encoding<'_> {
    fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    fn progress(&self, index: usize) -> MutexGuard<'_, SegmentProgress> {
        self.segments[index].progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn placed(&self, index: usize) -> &PlacedEncoded {
        &self.layout.encoded()[index]
    }

    /// Says where an error is, as far as it does not say so itself.
    fn named(&self, index: usize, error: Error) -> Error {
        let placed = self.placed(index);
        let error = match *placed.encoded.tensors {
            [only] => error.tensor(self.logical.tensor(only).name),
            _ => error,
        };
        error.file(self.path(placed.file))
    }

    fn path(&self, file: OutputId) -> &str {
        &self.layout.files()[file.0 as usize].path
    }

    fn segment(
        &self,
        index: usize,
        placed: &PlacedEncoded,
        plan: &dyn TensorPlan,
        context: &dyn Context,
    ) -> Result<()> {
        let id = EncodedId(u32::try_from(index).map_err(|_| Error::plugin("segments beyond 32 bits"))?);
        let promised = placed.encoded.len;
        let mut output =
            SegmentOutput { encoding: self, index, promised, begin: None, len: 0, waiting: Vec::new(), buffer: Vec::new() };
        let note = plan.encode(id, self.logical, &mut output, context)?;
        if promised.is_some_and(|promised| promised != output.len) {
            return Err(self.another_length(index, output.len));
        }
        output.finish(note)
    }

    fn another_length(&self, index: usize, found: u64) -> Error {
        let placed = self.placed(index);
        Error::plugin("an encoded segment has another length than was promised")
            .offset(placed.range.start)
            .expected(placed.range.end - placed.range.start)
            .found(found)
    }

    /// Says where a segment begins, and those after it, as far as it is known; writes what waited for that.
    fn place_from(&self, first: usize, begin: u64) -> Result<()> {
        let (mut index, mut begin) = (first, begin);
        loop {
            let (waiting, len) = {
                let mut progress = self.progress(index);
                progress.begin = Some(begin);
                (std::mem::take(&mut progress.waiting), progress.len.or(self.placed(index).encoded.len))
            };
            self.write_waiting(index, begin, waiting)?;
            let (Some(len), Some(next)) = (len, self.segments[index].next) else { return Ok(()) };
            begin = self.begin_of_next(index, begin + len, next);
            index = next;
        }
    }

    /// Where a segment begins, if the one before it ends at `end`.
    fn begin_of_next(&self, index: usize, end: u64, next: usize) -> u64 {
        end + (self.placed(next).range.start - self.placed(index).range.end)
    }

    fn put(&self, index: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let file = self.placed(index).file;
        self.files[file.0 as usize].write_all_at(bytes, at)?;
        self.logical.stored().session().count(bytes.len() as u64);
        Ok(())
    }

    fn write_waiting(&self, index: usize, begin: u64, waiting: Vec<Waiting>) -> Result<()> {
        let mut at = begin;
        for piece in waiting {
            match piece {
                Waiting::Memory(bytes) => {
                    self.put(index, at, &bytes)?;
                    at += bytes.len() as u64;
                    self.held.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                }
                Waiting::Spilled(range) => {
                    let mut window = vec![0; size(range.end - range.start).min(WINDOW_BYTES)];
                    for (from, len) in windows(range) {
                        self.spill()?.read_exact_at(&mut window[..len], from)?;
                        self.put(index, at, &window[..len])?;
                        at += len as u64;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps bytes until their place is known.
    fn hold(&self, bytes: Vec<u8>) -> Result<Waiting> {
        let len = bytes.len() as u64;
        let budget = self.logical.stored().session().held_bytes();
        if self.held.fetch_add(len, Ordering::Relaxed) + len <= budget {
            return Ok(Waiting::Memory(bytes));
        }
        self.held.fetch_sub(len, Ordering::Relaxed);
        let start = self.spilled.fetch_add(len, Ordering::Relaxed);
        self.spill()?.write_all_at(&bytes, start)?;
        Ok(Waiting::Spilled(start..start + len))
    }

    fn spill(&self) -> Result<&File> {
        self.spill.get_or_init(|| self.logical.stored().spill()).as_ref().map_err(Error::clone)
    }

    fn finish(self) -> Result<(Vec<u64>, Notes)> {
        if let Some(error) = self.failed.into_inner() {
            return Err(error);
        }
        let segments = self.segments.into_iter().map(|segment| {
            let SegmentProgress { len, note, .. } =
                segment.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
            let len = len.ok_or_else(|| Error::cancelled("a segment was not encoded"))?;
            Ok((len, note))
        });
        segments.collect()
    }
}

/// What is encoded of one segment.
struct SegmentOutput<'a> {
    encoding: &'a Encoding<'a>,
    index: usize,
    promised: Option<u64>,
    /// Where the segment begins in its file, once it is known.
    begin: Option<u64>,
    /// How many bytes came.
    len: u64,
    /// Those that wait for their place; none, once that is known.
    waiting: Vec<Waiting>,
    /// Those that follow.
    buffer: Vec<u8>,
}

impl SegmentOutput<'_> {
    /// Writes, or keeps, what came.
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.begin = self.begin.or_else(|| self.encoding.progress(self.index).begin);
        let Some(begin) = self.begin else {
            self.waiting.push(self.encoding.hold(buffer)?);
            return Ok(());
        };
        let waiting = std::mem::take(&mut self.waiting);
        let held: u64 = waiting.iter().map(Waiting::len).sum();
        let at = self.len - buffer.len() as u64;
        self.encoding.write_waiting(self.index, begin + (at - held), waiting)?;
        self.encoding.put(self.index, begin + at, &buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    /// The end of the segment: those after it get their places, if it has one.
    fn finish(mut self, note: Vec<u8>) -> Result<()> {
        self.flush()?;
        let Self { encoding, index, promised, len, waiting, .. } = self;
        let mut progress = encoding.progress(index);
        (progress.len, progress.note) = (Some(len), note);
        let Some(begin) = progress.begin else {
            progress.waiting = waiting;
            return Ok(());
        };
        drop(progress);
        encoding.write_waiting(index, begin, waiting)?;
        match encoding.segments[index].next {
            // Those after one of a promised length have their places already.
            Some(next) if promised.is_none() => {
                encoding.place_from(next, encoding.begin_of_next(index, begin + len, next))
            }
            _ => Ok(()),
        }
    }
}

impl ByteSink for SegmentOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.encoding.logical.stored().session().check_cancelled()?;
        if self.encoding.has_failed() {
            return Err(Error::cancelled("another segment failed"));
        }
        self.len += bytes.len() as u64;
        if self.promised.is_some_and(|promised| self.len > promised) {
            return Err(self.encoding.another_length(self.index, self.len));
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WORTH_WRITING { self.flush() } else { Ok(()) }
    }
}

impl Waiting {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spilled(range) => range.end - range.start,
        }
    }
}
