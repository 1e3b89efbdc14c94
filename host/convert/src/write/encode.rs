//! Lets the writer's plan encode its segments, many of them in parallel, and writes the segments
//! into the staged files.
//!
//! The length of some segments is unknown until they are encoded. The start of a segment is known
//! once all such segments before it in its file are complete. From then on, the segment's bytes are
//! written directly. Until then, they are buffered in memory or, beyond the memory budget, in a
//! temporary file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tensorferry_core::context::windows::{WINDOW_BYTES, size, windows};
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, EncodedId, Error, Layout, OutputId, PlacedEncoded, Result, TensorPlan,
};
use tensorferry_tensors::logical::Logical;

/// The number of buffered bytes that triggers a write. The number is small enough that the bytes
/// are still in the cache, and large enough to amortize the cost of the write.
const MIN_WRITE_BYTES: usize = 128 << 10;

/// The note that the plan returned for each encoded segment. The segments' lengths are in the
/// layout.
pub type Notes = Vec<Vec<u8>>;

/// Lets the plan encode all encoded segments of a layout. Writes the segments into `files`, which
/// contains one file for each file of the layout, and adds their lengths to the layout. Returns a
/// plugin error if a segment does not have the length that the plan promised.
pub fn encode(
    layout: &mut Layout,
    plan: &dyn TensorPlan,
    logical: &Logical<'_>,
    context: &dyn Context,
    writer: &RegisteredFormat,
    files: &[OutputBytes],
) -> Result<Notes> {
    if layout.encoded().is_empty() {
        return Ok(Notes::new());
    }
    let encoding = Encoding::new(layout, logical, files)?;
    let next = AtomicUsize::new(0);
    // Each thread of the pool takes the next segment in order, so that few segments wait for
    // earlier segments. A parallel iterator is not used, because a thread that waits for a read
    // inside the plugin could then start a different segment.
    rayon::broadcast(|_| {
        while !encoding.has_failed() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(placed) = layout.encoded().get(index) else { return };
            if let Err(error) = encoding.segment(index, placed, plan, context, writer) {
                encoding.failed.get_or_init(|| encoding.named(index, error));
            }
        }
    });
    let (lens, notes) = encoding.finish()?;
    let unsettled = layout.files_of_unknown_length();
    layout.set_encoded_lengths(&lens);
    for id in unsettled {
        let file = &layout.files()[id.0 as usize];
        files[id.0 as usize].set_len(file.len).map_err(|e| e.file(&file.path))?;
    }
    Ok(notes)
}

struct Encoding<'a> {
    layout: &'a Layout,
    logical: &'a Logical<'a>,
    files: &'a [OutputBytes],
    segments: Vec<SegmentState>,
    failed: OnceLock<Error>,
    /// Number of bytes that are buffered in memory.
    held: AtomicU64,
    spill: OnceLock<Result<File>>,
    spilled: AtomicU64,
}

#[derive(Default)]
struct SegmentState {
    /// The number of the segment that follows in the same file.
    next: Option<usize>,
    progress: Mutex<SegmentProgress>,
}

#[derive(Default)]
struct SegmentProgress {
    /// The start of the segment in its file, once the start is known.
    begin: Option<u64>,
    /// The length of the segment, once the segment is complete.
    len: Option<u64>,
    /// The buffered bytes of the segment, if the segment is complete but its start is not known
    /// yet.
    waiting: Vec<UnplacedBytes>,
    note: Vec<u8>,
}

/// Buffered bytes whose position in the file is not known yet.
enum UnplacedBytes {
    Memory(Vec<u8>),
    Spilled(Range<u64>),
}

impl<'a> Encoding<'a> {
    fn new(layout: &'a Layout, logical: &'a Logical<'a>, files: &'a [OutputBytes]) -> Result<Self> {
        let mut segments: Vec<SegmentState> =
            layout.encoded().iter().map(|_| SegmentState::default()).collect();
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

    /// Adds the file and the tensor to an error that does not name them.
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
        writer: &RegisteredFormat,
    ) -> Result<()> {
        let id = EncodedId(u32::try_from(index).map_err(|_| Error::plugin("more than 2^32 segments"))?);
        let promised = placed.encoded.len;
        let mut output = SegmentOutput {
            encoding: self,
            index,
            promised,
            begin: None,
            len: 0,
            waiting: Vec::new(),
            buffer: Vec::new(),
        };
        let note = plan.encode(id, self.logical, &mut output, context)?;
        if promised.is_some_and(|promised| promised != output.len) {
            return Err(writer.attribute_error(self.another_length(index, output.len)));
        }
        output.finish(note)
    }

    fn another_length(&self, index: usize, found: u64) -> Error {
        let placed = self.placed(index);
        Error::plugin(format!("encoded segment {index} has a different length than promised"))
            .expected(placed.range.end - placed.range.start)
            .found(found)
    }

    /// Sets the start of segment `first`, and the starts of later segments up to the first one
    /// whose length is unknown. Writes the bytes that waited for these starts.
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

    /// Returns the start of segment `next`, given that the earlier segment `index` ends at `end`.
    fn begin_of_next(&self, index: usize, end: u64, next: usize) -> u64 {
        end + (self.placed(next).range.start - self.placed(index).range.end)
    }

    fn put(&self, index: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let file = self.placed(index).file;
        self.files[file.0 as usize].write_all_at(bytes, at)?;
        self.logical.stored().session().count(bytes.len() as u64);
        Ok(())
    }

    fn write_waiting(&self, index: usize, begin: u64, waiting: Vec<UnplacedBytes>) -> Result<()> {
        let mut at = begin;
        for piece in waiting {
            match piece {
                UnplacedBytes::Memory(bytes) => {
                    self.put(index, at, &bytes)?;
                    at += bytes.len() as u64;
                    self.held.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                }
                UnplacedBytes::Spilled(range) => {
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

    /// Buffers bytes until their position in the file is known.
    fn hold(&self, bytes: Vec<u8>) -> Result<UnplacedBytes> {
        let len = bytes.len() as u64;
        let budget = self.logical.stored().session().held_bytes();
        if self.held.fetch_add(len, Ordering::Relaxed) + len <= budget {
            return Ok(UnplacedBytes::Memory(bytes));
        }
        self.held.fetch_sub(len, Ordering::Relaxed);
        let start = self.spilled.fetch_add(len, Ordering::Relaxed);
        self.spill()?.write_all_at(&bytes, start)?;
        Ok(UnplacedBytes::Spilled(start..start + len))
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

/// The encoded bytes of one segment.
struct SegmentOutput<'a> {
    encoding: &'a Encoding<'a>,
    index: usize,
    promised: Option<u64>,
    /// The start of the segment in its file, once the start is known.
    begin: Option<u64>,
    /// Number of bytes received so far.
    len: u64,
    /// Bytes that wait for the segment's start to be known. Empty after that.
    waiting: Vec<UnplacedBytes>,
    /// Received bytes that have not yet been written or moved to `waiting`.
    buffer: Vec<u8>,
}

impl SegmentOutput<'_> {
    /// Writes the received bytes, or buffers them if their position is not known yet.
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
        let held: u64 = waiting.iter().map(UnplacedBytes::len).sum();
        let at = self.len - buffer.len() as u64;
        self.encoding.write_waiting(self.index, begin + (at - held), waiting)?;
        self.encoding.put(self.index, begin + at, &buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the segment. If the segment's start is known, sets the starts of the segments after it.
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
            // If the plan promised the length, the starts of the next segments are already known.
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
        if self.buffer.len() >= MIN_WRITE_BYTES { self.flush() } else { Ok(()) }
    }
}

impl UnplacedBytes {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spilled(range) => range.end - range.start,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;
    use tensorferry_core::context::session::Session;
    use tensorferry_core::read::input::TensorInput;
    use tensorferry_core::read::source::FileSource;
    use tensorferry_sdk::{
        CatalogBuilder, CatalogSink, Dtype, Encoded, ErrorKind, LayoutBuilder, LayoutSink, Limits,
        MemorySource, Role, Storage, TensorId,
    };
    use tensorferry_tensors::stored::Stored;

    const SEGMENTS: u64 = 40;

    /// The bytes of a segment: some are empty, and some exceed the flush threshold.
    fn bytes(index: u64) -> Vec<u8> {
        (0..index % 5 * 70_000).map(|at| (at + index).to_le_bytes()[0]).collect()
    }

    /// A plan whose segments take different amounts of time, so that they are not completed in
    /// order.
    struct Slow {
        fails_at: Option<u64>,
    }

    impl TensorPlan for Slow {
        fn encode(
            &self,
            id: EncodedId,
            _: &dyn CatalogView,
            output: &mut dyn ByteSink,
            _: &dyn Context,
        ) -> Result<Vec<u8>> {
            let index = u64::from(id.0);
            std::thread::sleep(Duration::from_millis((SEGMENTS - index) % 7));
            if self.fails_at == Some(index) {
                return Err(Error::unsupported("this one"));
            }
            bytes(index).chunks(50_000).try_for_each(|part| output.write(part))?;
            Ok(vec![id.0.to_le_bytes()[0]])
        }
    }

    struct Outcome {
        layout: Layout,
        notes: Notes,
        files: [Vec<u8>; 2],
    }

    /// Encodes two files of alternating segments, each after four bytes. Every third segment has a
    /// known length. `lie` is the index of a segment that promises one byte too many.
    fn encoded(plan: &Slow, threads: usize, memory: u64, lie: Option<u64>) -> Result<Outcome> {
        let (memory_source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("made", &memory_source, &limits);
        let storage = builder.storage(Storage::inline(vec![7; 1]))?;
        for index in 0..SEGMENTS {
            builder.tensor(&format!("t{index}"), Dtype::U8, &[1], storage, 0)?;
        }
        let catalog = builder.finish()?;
        let input =
            TensorInput::in_memory(FileSource::of_files(PathBuf::new(), vec![String::new()]), catalog);
        let session = Session::new(threads, memory);
        let spill = Box::new(|| tempfile::tempfile().map_err(Error::from));
        let logical = Logical::new(Stored::new(&input, &input.catalog, &session, spill));

        let mut layout = LayoutBuilder::new(&logical, &session);
        let outputs = [layout.file("a", Role::Data)?, layout.file("b", Role::Data)?];
        for (index, tensor) in (0..SEGMENTS).zip((0..).map(TensorId)) {
            let file = outputs[size(index % 2)];
            layout.bytes(file, b"head")?;
            let holds = Encoded::tensors([tensor]);
            let len = bytes(index).len() as u64 + u64::from(lie == Some(index));
            let is_known = index % 3 == 0 || lie == Some(index);
            layout.encoded(file, if is_known { holds.of_len(len) } else { holds })?;
        }
        let mut layout = layout.finish()?;
        let files = [tempfile::tempfile()?, tempfile::tempfile()?].map(OutputBytes::Local);
        let notes =
            session.install(|| encode(&mut layout, plan, &logical, &session, &input.format, &files))?;
        let read = |file: &OutputBytes| {
            let file = file.local().unwrap().unwrap();
            let mut all = vec![0; size(file.metadata().unwrap().len())];
            file.read_exact_at(&mut all, 0).unwrap();
            all
        };
        Ok(Outcome { layout, notes, files: files.each_ref().map(read) })
    }

    #[test]
    fn segments_lie_in_order_whoever_encodes_them_in_however_little_memory() {
        // Depending on the memory budget, waiting bytes are in memory or in a file.
        for (threads, memory) in [(1, 1 << 30), (2, 1 << 30), (5, 1 << 30), (2, 0), (5, 0)] {
            let Outcome { layout, notes, files } =
                encoded(&Slow { fails_at: None }, threads, memory, None).unwrap();
            for (index, placed) in (0..).zip(layout.encoded()) {
                let file = &files[placed.file.0 as usize];
                let (start, end) = (size(placed.range.start), size(placed.range.end));
                assert!(file[start..end] == bytes(index), "segment {index} of {threads} threads");
                // The bytes between segments remain zero here, because the copy writes them later.
                assert_eq!(file[start - 4..start], [0; 4]);
                assert_eq!(notes[size(index)], index.to_le_bytes()[..1]);
            }
            let lens = files.each_ref().map(|file| file.len() as u64);
            assert_eq!(lens.to_vec(), layout.files().iter().map(|file| file.len).collect::<Vec<_>>());
            let of_file = |file: u64| (0..SEGMENTS).filter(move |index| index % 2 == file);
            let len = |file: u64| of_file(file).map(|index| 4 + bytes(index).len() as u64).sum::<u64>();
            assert_eq!(lens, [len(0), len(1)]);
        }
    }

    #[test]
    fn a_segment_that_fails_or_lies_is_named() {
        let error = encoded(&Slow { fails_at: Some(11) }, 3, 1 << 20, None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.details().eq([("file", "b".to_owned()), ("tensor", "t11".to_owned())]), "{error}");
        for segment in [4, 5, 39] {
            let error = encoded(&Slow { fails_at: None }, 2, 1 << 20, Some(segment)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Plugin);
            let text = error.to_string();
            let found = bytes(segment).len();
            let says = format!("expected {}, found {found}", found + 1);
            assert!(error.message().starts_with(&format!("encoded segment {segment} has")), "{error}");
            assert!(text.contains(&says) && text.contains(&format!("t{segment}")), "{text}");
        }
    }
}
