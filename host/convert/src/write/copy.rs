//! Copies bytes from storages to staged files. The windows of all files are copied in parallel.
//! Each window is filled once, digested once and written once.
//!
//! Encoded segments are written before the copy, by [`encode`](super::encode).
//!
//! A window is [`WINDOW_BYTES`] of one output file. Contiguous bytes are read directly into the
//! window, so that one write covers many small tensors. Bytes that need a gather are not part of a
//! window and are written by tiles. Digests that cover such bytes are computed from the file
//! afterwards.

mod ahead;
mod copy_digests;
mod decoded;
mod kernel;
mod ranges;
mod read_again;
mod tiled;
mod writeback;

pub use copy_digests::{CopyDigests, InputTrees};
pub(crate) use read_again::read_again;

use ahead::ReadAhead;
use ranges::{RangeSums, covered};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, size};
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{
    ByteSink, Content, Context, Digest, Error, FileId, Layout, Loss, OutputFile, OutputId, Result, Segment,
    Source, SourceRange, StorageId, TensorId, TensorPlan,
};
use tensorferry_tensors::cast::{CastChain, ReadObserver};
use tensorferry_tensors::content::Algorithm;
use tensorferry_tensors::copy_plan::{PlannedCopy, plan_copies};
use tensorferry_tensors::gather::{CopyTiles, Scratch, StridedCopy, Tile, swap};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::slabs::{SlabBuffers, Slabs};
use tensorferry_tensors::stored::Stored;
use tensorferry_tensors::tally::CastTally;
use tiled::TiledCopy;

pub struct Copied {
    /// The digests that the layout requested, in order.
    pub digests: Vec<Digest>,
    /// The length of each file in the order of the layout, including streamed files. The length of
    /// a late file is 0.
    pub lens: Vec<u64>,
    /// Losses that the casts of the copied numbers caused.
    pub losses: Vec<Loss>,
    /// Digests of the copied bytes, if the output will have a receipt.
    pub copy_digests: Option<CopyDigests>,
}

/// Copies everything in a layout into `files`, which contains one file for each file of the layout.
/// If the output will have a receipt, `receipt` is the algorithm for the file digests. If `sync` is
/// set, the files will be synced, so the copy starts writing them to the disk early. Returns a
/// malformed-data error if a storage does not match its digest.
pub fn copy(
    layout: &Layout,
    plan: &dyn TensorPlan,
    logical: &Logical<'_>,
    context: &dyn Context,
    files: &[OutputBytes],
    receipt: Option<Algorithm>,
    sync: bool,
) -> Result<Copied> {
    let stored = logical.stored();
    let session = stored.session();
    let outputs = RangeSums::of_outputs(layout);
    let seen = receipt.map(|algorithm| CopyDigests::new(layout, logical, algorithm)).transpose()?;
    let copy_digests = seen.as_ref();
    let tally = CastTally::of(logical)?;
    let mut filled = FilePlacements::plan(layout, logical, context, &tally)?;
    let sources = RangeSums::of_storages(logical, filled.tiled.iter().map(|tiled| &tiled.slabs));
    let mut extents = Vec::new();
    for (index, placements) in filled.files.iter_mut().enumerate() {
        let Some(output) = files[index].local()? else { continue };
        extents.extend(kernel::take(index, placements, &output, stored, &sources, &outputs));
    }
    // If there is a receipt, its digests also need the decoded bytes. Decoding the storages here
    // would therefore decode them twice.
    let decoded = if copy_digests.is_none() { filled.take_decoded(logical) } else { Vec::new() };
    let lens: Vec<Mutex<u64>> = layout.files().iter().map(|file| Mutex::new(file.len)).collect();
    let tasks = CopyTasks::new(&filled, layout, &extents, session);
    let ahead = ReadAhead::new(stored, &tasks, &filled);
    let each = |buffers: &mut Buffers, number: usize| {
        session.check_cancelled()?;
        if let Some(ahead) = &ahead {
            ahead.begin(number);
        }
        let task = tasks.get(number);
        match &task {
            CopyTask::Window { file, start, end } => {
                let (sources, outputs, tally) = (&sources, &outputs, &tally);
                let copy = WindowCopy { layout, logical, sources, outputs, copy_digests, tally };
                let placements = &filled.files[*file];
                copy.window(*file, &files[*file], placements, *start, *end, &mut buffers.window)
            }
            CopyTask::Kernel(extent) => extent.copy(stored, files, session, &mut buffers.window),
            CopyTask::Gather(gather) => gather.copy(stored, files, &tally, buffers),
            CopyTask::Slab(tiled, number) => {
                tiled.copy(*number, stored, &files[tiled.file], &tally, &mut buffers.slab)
            }
            CopyTask::Stream { file } => {
                let len = stream(*file, plan, logical, context, &files[*file])?;
                *lens[*file].lock().unwrap_or_else(PoisonError::into_inner) = len;
                Ok(())
            }
        }
        .map_err(|error| in_output(error, layout, &task))
    };
    let all = || {
        decoded::copy_all(&decoded, stored, layout, files, &outputs)?;
        in_order(tasks.count(), each)
    };
    if sync {
        writeback::alongside(files, all)?;
    } else {
        all()?;
    }
    sources.check_storages(stored)?;
    let digests = outputs.finish(files)?;
    let lens = lens.into_iter().map(|len| len.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    Ok(Copied { digests, lens, losses: tally.finish(logical, layout)?, copy_digests: seen })
}

/// Runs tasks on all threads in the order of their numbers. Therefore, reads and writes advance
/// through the files from front to back. Each thread has its own buffers.
fn in_order(count: usize, each: impl Fn(&mut Buffers, usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    (0..rayon::current_num_threads().min(count)).into_par_iter().try_for_each(|_| {
        let mut buffers = Buffers::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            each(&mut buffers, number).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
        }
    })
}

/// A range of a file, and the source of its bytes.
struct Placement<'a> {
    to: u64,
    len: u64,
    fill: Fill<'a>,
}

enum Fill<'a> {
    Bytes(&'a [u8]),
    Zeros,
    Read(StorageRead),
    /// Bytes that are read from a source.
    Source {
        source: Arc<dyn Source>,
        file: FileId,
        from: u64,
    },
}

/// A read of bytes from a storage.
#[derive(Clone, Copy)]
struct StorageRead {
    storage: StorageId,
    from: u64,
    swap_unit: u32,
    /// The tensor that contains the bytes, if a cast may change them.
    tally: Option<TensorId>,
}

struct GatherTask {
    file: usize,
    base: u64,
    /// The copy of elements in stored order, for bytes that are cast.
    copy: StridedCopy,
    storage: StorageId,
    swap_unit: u32,
    tensor: TensorId,
    cast: Option<CastChain>,
}

enum CopyTask<'a> {
    Window {
        file: usize,
        start: u64,
        end: u64,
    },
    Kernel(&'a kernel::Extent),
    Gather(TileTask<'a>),
    /// A slab of a tiled copy, by its number.
    Slab(&'a TiledCopy<'a>, usize),
    Stream {
        file: usize,
    },
}

struct TileTask<'a> {
    gather: &'a GatherTask,
    tile: Tile<'a>,
}

/// All tasks of a copy, by number. A task is created only when it runs, so memory use grows with
/// the number of files and tensors, but not with the sizes of files and tensors.
struct CopyTasks<'a> {
    groups: Vec<TaskGroup<'a>>,
    /// For each group of tasks, the number of its last task plus one.
    ends: Vec<usize>,
}

enum TaskGroup<'a> {
    /// The windows of a file of this length.
    Windows {
        file: usize,
        len: u64,
    },
    Kernel(&'a kernel::Extent),
    Gather {
        gather: &'a GatherTask,
        tiles: CopyTiles<'a>,
    },
    Tiled(&'a TiledCopy<'a>),
    Stream {
        file: usize,
    },
}

impl<'a> CopyTasks<'a> {
    fn new(
        filled: &'a FilePlacements<'_>,
        layout: &Layout,
        extents: &'a [kernel::Extent],
        session: &Session,
    ) -> Self {
        let mut tasks = Self { groups: Vec::new(), ends: Vec::new() };
        for (file, output) in layout.files().iter().enumerate() {
            match &output.content {
                Content::Late => {}
                Content::Streamed => tasks.push(TaskGroup::Stream { file }),
                Content::Copied(_) => tasks.push(TaskGroup::Windows { file, len: output.len }),
            }
        }
        for gather in &filled.gathers {
            let tiles = gather.copy.tiles(session.gather_bytes());
            tasks.push(TaskGroup::Gather { gather, tiles });
        }
        filled.tiled.iter().for_each(|tiled| tasks.push(TaskGroup::Tiled(tiled)));
        extents.iter().for_each(|extent| tasks.push(TaskGroup::Kernel(extent)));
        tasks
    }

    fn push(&mut self, group: TaskGroup<'a>) {
        let count = match &group {
            TaskGroup::Windows { len, .. } => size(len.div_ceil(WINDOW_BYTES as u64)),
            TaskGroup::Gather { tiles, .. } => tiles.count(),
            TaskGroup::Tiled(tiled) => tiled.slabs.count(),
            TaskGroup::Kernel(_) | TaskGroup::Stream { .. } => 1,
        };
        self.ends.push(self.count() + count);
        self.groups.push(group);
    }

    fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the task with this number, which must be less than the number of tasks.
    fn get(&self, number: usize) -> CopyTask<'_> {
        let place = self.ends.partition_point(|&end| end <= number);
        let first = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        match &self.groups[place] {
            TaskGroup::Windows { file, len } => {
                let start = ((number - first) * WINDOW_BYTES) as u64;
                let end = (*len).min(start + WINDOW_BYTES as u64);
                CopyTask::Window { file: *file, start, end }
            }
            TaskGroup::Kernel(extent) => CopyTask::Kernel(extent),
            TaskGroup::Gather { gather, tiles } => {
                CopyTask::Gather(TileTask { gather, tile: tiles.get(number - first) })
            }
            TaskGroup::Tiled(tiled) => CopyTask::Slab(tiled, number - first),
            TaskGroup::Stream { file } => CopyTask::Stream { file: *file },
        }
    }
}

#[derive(Default)]
struct Buffers {
    window: Vec<u8>,
    scratch: Scratch,
    slab: SlabBuffers,
}

/// The placements of each copied file in order, and the gathers.
struct FilePlacements<'a> {
    files: Vec<Vec<Placement<'a>>>,
    gathers: Vec<GatherTask>,
    tiled: Vec<TiledCopy<'a>>,
}

impl<'a> FilePlacements<'a> {
    /// Removes and returns the storages that are decoded straight into their output files.
    fn take_decoded(&mut self, logical: &Logical<'_>) -> Vec<decoded::DecodedExtent> {
        let gathered = self.gathers.iter().map(|gather| gather.storage);
        let tiled = self.tiled.iter().flat_map(|tiled| logical.storages_of(tiled.tensor).unwrap_or_default());
        decoded::take(&mut self.files, logical.stored(), gathered.chain(tiled))
    }

    fn plan(
        layout: &'a Layout,
        logical: &Logical<'a>,
        context: &dyn Context,
        tally: &CastTally,
    ) -> Result<Self> {
        let mut filled = Self { files: Vec::new(), gathers: Vec::new(), tiled: Vec::new() };
        for (index, file) in layout.files().iter().enumerate() {
            let placements = filled.file((index, file), logical, context, tally)?;
            filled.files.push(placements);
        }
        Ok(filled)
    }

    fn file(
        &mut self,
        (index, file): (usize, &'a OutputFile),
        logical: &Logical<'a>,
        context: &dyn Context,
        tally: &CastTally,
    ) -> Result<Vec<Placement<'a>>> {
        let Content::Copied(segments) = &file.content else { return Ok(Vec::new()) };
        let mut placements = Vec::with_capacity(segments.len());
        for placed in segments {
            let base = placed.offset;
            let fill = match &placed.segment {
                Segment::Encoded(_) => continue,
                Segment::Bytes(bytes) => Fill::Bytes(bytes),
                Segment::Source(SourceRange { source, file, range }) => {
                    let source = context.open(source)?;
                    let file = source.open(file)?;
                    Fill::Source { source, file, from: range.start }
                }
                Segment::Pad | Segment::Deferred(_) => Fill::Zeros,
                Segment::Storage { storage, offset, swap_unit } => {
                    let (storage, from, swap_unit) = (*storage, *offset, *swap_unit);
                    Fill::Read(StorageRead { storage, from, swap_unit, tally: None })
                }
                Segment::Tensor(part) => {
                    let first = placements.len();
                    let tensor = part.tensor;
                    let watched = tally.may_lose(tensor).then_some(tensor);
                    let budget = logical.stored().session().slab_bytes();
                    if let Some(slabs) = Slabs::of(logical.catalog(), part, budget)? {
                        self.tiled.push(TiledCopy { file: index, base, tensor, slabs });
                        continue;
                    }
                    for copy in plan_copies(logical.catalog(), part)? {
                        match copy {
                            PlannedCopy::Contiguous { to, len, storage, from, swap_unit } => {
                                let read = StorageRead { storage, from, swap_unit, tally: watched };
                                placements.push(Placement { to: base + to, len, fill: Fill::Read(read) });
                            }
                            PlannedCopy::Strided { copy, storage, swap_unit } => {
                                let cast = logical.stored().chain(storage)?;
                                let copy = cast.as_ref().map_or(copy.clone(), |cast| cast.rescaled(&copy));
                                let file = index;
                                let gather =
                                    GatherTask { file, base, copy, storage, swap_unit, tensor, cast };
                                self.gathers.push(gather);
                            }
                        }
                    }
                    placements[first..].sort_by_key(|placement| placement.to);
                    continue;
                }
            };
            placements.push(Placement { to: base, len: placed.len, fill });
        }
        placements.retain(|placement| placement.len > 0);
        Ok(placements)
    }
}

struct WindowCopy<'a> {
    layout: &'a Layout,
    logical: &'a Logical<'a>,
    sources: &'a RangeSums,
    outputs: &'a RangeSums,
    copy_digests: Option<&'a CopyDigests>,
    tally: &'a CastTally,
}

impl WindowCopy<'_> {
    /// Fills the bytes `start..end` of a file, adds them to the digests, and writes them.
    fn window(
        &self,
        index: usize,
        file: &OutputBytes,
        placements: &[Placement<'_>],
        start: u64,
        end: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let len = size(end - start);
        // A small file does not need a whole window, and clearing the window would take longer than
        // the copy.
        buffer.resize(len.max(buffer.len()), 0);
        let buffer = &mut buffer[..len];
        let first = placements.partition_point(|p| p.to + p.len <= start);
        let inside = || placements[first..].iter().take_while(|p| p.to < end);
        let mut pending: Option<PendingRead> = None;
        for placement in inside() {
            let from = placement.to.max(start);
            let to = (placement.to + placement.len).min(end);
            let skipped = from - placement.to;
            let range = size(from - start)..size(to - start);
            match &placement.fill {
                Fill::Bytes(bytes) => {
                    buffer[range].copy_from_slice(&bytes[size(skipped)..size(skipped + (to - from))]);
                }
                Fill::Zeros => buffer[range].fill(0),
                Fill::Source { source, file, from } => {
                    source.read_at(*file, from + skipped, &mut buffer[range])?;
                }
                Fill::Read(read) if read.swap_unit == 1 => {
                    let read =
                        PendingRead { read: StorageRead { from: read.from + skipped, ..*read }, range };
                    match &mut pending {
                        Some(before) if before.continues(&read) => before.range.end = read.range.end,
                        before => {
                            if let Some(before) = before.replace(read) {
                                self.read(&before, buffer)?;
                            }
                        }
                    }
                }
                Fill::Read(read) => {
                    self.read_swapped(read, skipped, placement.len, &mut buffer[range])?;
                }
            }
        }
        if let Some(last) = pending {
            self.read(&last, buffer)?;
        }
        let runs = covered(inside().map(|p| p.to.max(start)..(p.to + p.len).min(end)));
        self.outputs.add_window(index, start, buffer, &runs)?;
        if let (Some(copy_digests), Content::Copied(segments)) =
            (self.copy_digests, &self.layout.files()[index].content)
        {
            copy_digests.add_window(self.logical, (index, segments), start, buffer, &runs)?;
        }
        for run in &runs {
            let bytes = &buffer[size(run.start - start)..size(run.end - start)];
            file.write_all_at(bytes, run.start)?;
            self.logical.stored().session().count(bytes.len() as u64);
        }
        Ok(())
    }

    fn read(&self, pending: &PendingRead, buffer: &mut [u8]) -> Result<()> {
        let bytes = &mut buffer[pending.range.clone()];
        let from = pending.read.from;
        self.fetch(&pending.read, from, bytes, from..from + bytes.len() as u64)
    }

    /// Reads part of a storage and swaps the bytes of its numbers. If a window ends within a
    /// number, the whole number is read for each of the two windows.
    fn read_swapped(&self, read: &StorageRead, skipped: u64, len: u64, out: &mut [u8]) -> Result<()> {
        let wide = u64::from(read.swap_unit);
        let end = skipped + out.len() as u64;
        let start = skipped / wide * wide;
        let mut bytes = vec![0; size(end.next_multiple_of(wide).min(len) - start)];
        self.fetch(read, read.from + start, &mut bytes, read.from + skipped..read.from + end)?;
        swap(&mut bytes, read.swap_unit);
        let cut = size(skipped - start);
        out.copy_from_slice(&bytes[cut..cut + out.len()]);
        Ok(())
    }

    /// Reads bytes of a storage. Only the `owned` bytes count in the storages' digests and in the
    /// counts of values that casts changed.
    fn fetch(&self, read: &StorageRead, from: u64, bytes: &mut [u8], owned: Range<u64>) -> Result<()> {
        let stored = self.logical.stored();
        let see = &mut |storage, from, bytes: &[u8]| {
            self.sources.add_read(storage, from, bytes)?;
            self.copy_digests
                .map_or(Ok(()), |copy_digests| copy_digests.add_read(stored, storage, from, bytes))
        };
        let lost = stored.read_observed(read.storage, from, bytes, &mut ReadObserver { owned, see })?;
        if let Some(tensor) = read.tally {
            self.tally.add(tensor, lost);
        }
        Ok(())
    }
}

/// A read that may be extended by the next placement.
struct PendingRead {
    read: StorageRead,
    range: Range<usize>,
}

impl PendingRead {
    fn continues(&self, next: &Self) -> bool {
        let (read, then) = (&self.read, &next.read);
        read.storage == then.storage
            && read.tally == then.tally
            && self.range.end == next.range.start
            && read.from + self.range.len() as u64 == then.from
    }
}

impl TileTask<'_> {
    fn copy(
        &self,
        stored: &Stored<'_>,
        files: &[OutputBytes],
        tally: &CastTally,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let GatherTask { file, base, storage, swap_unit, tensor, .. } = self.gather;
        let write = |to: u64, bytes: &[u8]| {
            stored.session().count(bytes.len() as u64);
            files[*file].write_all_at(bytes, base + to)
        };
        let Buffers { window, scratch, .. } = buffers;
        if let Some(cast) = &self.gather.cast {
            let lost = cast.copy_tile(
                &self.tile,
                *swap_unit,
                (scratch, window),
                |from, lying: &mut [u8]| stored.read(cast.of, from, lying),
                write,
            )?;
            tally.add(*tensor, lost);
            return Ok(());
        }
        let read = |from: u64, buffer: &mut [u8]| stored.read(*storage, from, buffer);
        self.tile.copy(scratch, *swap_unit, read, write)
    }
}

fn stream(
    file: usize,
    plan: &dyn TensorPlan,
    logical: &Logical<'_>,
    context: &dyn Context,
    output: &OutputBytes,
) -> Result<u64> {
    let mut sink = StreamSink {
        output,
        buffer: Vec::with_capacity(WINDOW_BYTES),
        written: 0,
        session: logical.stored().session(),
    };
    plan.stream(OutputId(u32::try_from(file).unwrap_or(u32::MAX)), logical, &mut sink, context)?;
    sink.flush()?;
    output.ends_at(sink.written)?;
    Ok(sink.written)
}

struct StreamSink<'a> {
    output: &'a OutputBytes,
    buffer: Vec<u8>,
    /// Number of bytes that were written before the bytes in the buffer.
    written: u64,
    session: &'a Session,
}

impl StreamSink<'_> {
    fn flush(&mut self) -> Result<()> {
        self.output.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.session.count(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }
}

impl ByteSink for StreamSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.session.check_cancelled()?;
        if self.buffer.len() + bytes.len() > WINDOW_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WINDOW_BYTES { self.flush() } else { Ok(()) }
    }
}

fn in_output(error: Error, layout: &Layout, task: &CopyTask<'_>) -> Error {
    let file = match task {
        CopyTask::Window { file, .. } | CopyTask::Stream { file } => *file,
        CopyTask::Kernel(extent) => extent.file,
        CopyTask::Gather(tile) => tile.gather.file,
        CopyTask::Slab(tiled, _) => tiled.file,
    };
    error.file(layout.files()[file].path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_and_not_listed() {
        let mut tasks = CopyTasks { groups: Vec::new(), ends: Vec::new() };
        let len = (10 << 40) + 1;
        for (file, len) in [(0, 5), (1, 0), (2, len)] {
            tasks.push(TaskGroup::Windows { file, len });
        }
        tasks.push(TaskGroup::Stream { file: 3 });
        assert_eq!((tasks.groups.len(), tasks.count()), (4, 1 + (10 << 20) + 1 + 1));
        let window = |number| match tasks.get(number) {
            CopyTask::Window { file, start, end } => (file, start, end),
            _ => (usize::MAX, 0, 0),
        };
        assert_eq!((window(0), window(1)), ((0, 0, 5), (2, 0, 1 << 20)));
        assert_eq!(window(1 + (10 << 20)), (2, len - 1, len));
        assert!(matches!(tasks.get(tasks.count() - 1), CopyTask::Stream { file: 3 }));
    }
}
