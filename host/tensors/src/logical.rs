//! Logical bytes: the elements of a tensor in row-major, little-endian order, regardless of how the
//! tensor is stored.

use crate::copy_plan::{PlannedCopy, plan_copies, tensor_of};
use crate::gather::{Scratch, swap};
use crate::slabs::{DigestPolicy, SlabBuffers, Slabs};
use crate::stored::{Stored, contributing_storages};
use rayon::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tensorferry_core::context::windows::{WINDOW_BYTES, size, windows};
use tensorferry_sdk::{
    ByteOrder, Catalog, CatalogBytes, CatalogView, Context, Data, Error, Result, StorageId, TensorId,
    TensorPart, check_range,
};

/// A catalog with access to the logical bytes of its tensors, which writers, digests and
/// comparisons read.
pub struct Logical<'a> {
    stored: Stored<'a>,
    ties: OnceLock<Vec<TensorId>>,
    /// Recently gathered tensors. The most recently gathered tensor is last.
    gathered: Mutex<Vec<(TensorId, Arc<Gathered>)>>,
    /// Whether all work is done in the calling thread. This is necessary if the caller holds a
    /// lock. A thread that waits for parallel work runs other tasks of the thread pool, and these
    /// tasks may wait for the same lock.
    in_one_thread: bool,
}

enum Gathered {
    Memory(Vec<u8>),
    Spilled(File),
}

impl<'a> Logical<'a> {
    #[must_use]
    pub fn new(stored: Stored<'a>) -> Self {
        Self { stored, ties: OnceLock::new(), gathered: Mutex::default(), in_one_thread: false }
    }

    /// Limits all work to the calling thread.
    #[must_use]
    pub fn in_one_thread(self) -> Self {
        Self { in_one_thread: true, ..self }
    }

    #[must_use]
    pub fn catalog(&self) -> &'a Catalog {
        self.stored.catalog()
    }

    /// Returns the storages of the catalog.
    #[must_use]
    pub fn stored(&self) -> &Stored<'a> {
        &self.stored
    }

    /// Passes all bytes of a tensor to `each`, in order, in windows of [`WINDOW_BYTES`].
    pub fn each_window(&self, id: TensorId, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let tensor = tensor_of(self.catalog(), id)?;
        let mut buffer = vec![0; size(tensor.bytes).min(WINDOW_BYTES)];
        windows(0..tensor.bytes).try_for_each(|(offset, len)| {
            self.stored.session().check_cancelled()?;
            self.read(id, offset, &mut buffer[..len])?;
            each(&buffer[..len])
        })
    }

    /// Passes all bytes of a tensor to `each`, in any order, in pieces of whole elements. Unlike
    /// reading in order, this function does not need a gather. `buffer` may be reused.
    pub(crate) fn each_piece(
        &self,
        id: TensorId,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        /// Number of bytes that are passed to `each` at a time. Several runs are collected in one
        /// piece, because a run may be as short as one element.
        const PIECE: usize = 64 << 10;
        let unit = self.dtype_info(self.tensor(id).dtype)?.block_bytes().max(1) as usize;
        buffer.clear();
        let mut write = |_, run: &[u8]| {
            buffer.extend_from_slice(run);
            if buffer.len() >= PIECE && buffer.len().is_multiple_of(unit) {
                each(buffer);
                buffer.clear();
            }
            Ok(())
        };
        self.each_run(&TensorPart::whole(id), &mut write)?;
        each(buffer);
        Ok(())
    }

    /// Returns the storages that contain a tensor's bytes, including the underlying storages of
    /// casts and the parts of joined storages.
    pub fn storages_of(&self, id: TensorId) -> Result<Vec<StorageId>> {
        let tensor = tensor_of(self.catalog(), id)?;
        Ok(tensor.storages().flat_map(|storage| contributing_storages(self.catalog(), storage)).collect())
    }

    fn gathered(&self, id: TensorId) -> Result<Arc<Gathered>> {
        let keep = self.stored.session().threads + 1;
        let lock = || self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(known, _)| *known == id) {
            return Ok(found.clone());
        }
        let gathered = Arc::new(self.gather(id)?);
        let mut known = lock();
        if known.len() >= keep {
            known.remove(0);
        }
        known.push((id, gathered.clone()));
        Ok(gathered)
    }

    /// Gathers a tensor: in memory if it is small, otherwise in a temporary file.
    fn gather(&self, id: TensorId) -> Result<Gathered> {
        let tensor = tensor_of(self.catalog(), id)?;
        let (part, session) = (TensorPart::whole(id), self.stored.session());
        if tensor.bytes <= session.held_bytes() / (session.threads as u64 + 1) {
            let mut bytes = vec![0; size(tensor.bytes)];
            self.place_part(&part, &mut bytes)?;
            return Ok(Gathered::Memory(bytes));
        }
        let file = self.stored.spill()?;
        file.set_len(tensor.bytes)?;
        if self.in_one_thread {
            self.each_run(&part, &mut |to, run| file.write_all_at(run, to).map_err(Error::from))?;
            return Ok(Gathered::Spilled(file));
        }
        if let Some(slabs) = self.slabs(&part)? {
            (0..slabs.count()).into_par_iter().try_for_each_init(
                SlabBuffers::default,
                |buffers, number| {
                    let write = &mut |to, run: &[u8]| file.write_all_at(run, to).map_err(Error::from);
                    slabs.copy(number, &self.stored, DigestPolicy::Ignored, buffers, write).map(drop)
                },
            )?;
            return Ok(Gathered::Spilled(file));
        }
        let copies = plan_copies(self.catalog(), &part)?;
        copies.par_iter().try_for_each_init(Scratch::default, |scratch, copy| {
            self.place(copy, scratch, &mut |to, part| file.write_all_at(part, to).map_err(Error::from))
        })?;
        Ok(Gathered::Spilled(file))
    }

    /// Fills `buffer` with a part of a tensor. Returns an error if the part does not exist or does
    /// not have the length of the buffer.
    pub fn read_part(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        self.place_part(part, buffer).map_err(|e| match self.catalog().tensor(part.tensor) {
            Some(tensor) => e.tensor(&tensor.name),
            None => e,
        })
    }

    fn slabs(&self, part: &TensorPart) -> Result<Option<Slabs<'a>>> {
        Slabs::of(self.catalog(), part, self.stored.session().slab_bytes())
    }

    fn place_part(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        let write = &mut |to, run: &[u8]| {
            let to = size(to);
            buffer[to..to + run.len()].copy_from_slice(run);
            Ok(())
        };
        self.each_run(part, write)
    }

    /// Passes the bytes of a part to `write`, run by run. The first argument of `write` is the
    /// offset of the run in the part.
    fn each_run(&self, part: &TensorPart, write: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        if let Some(slabs) = self.slabs(part)? {
            let mut buffers = SlabBuffers::default();
            return (0..slabs.count()).try_for_each(|number| {
                self.stored.session().check_cancelled()?;
                slabs.copy(number, &self.stored, DigestPolicy::Ignored, &mut buffers, write).map(drop)
            });
        }
        let mut scratch = Scratch::default();
        let copies = plan_copies(self.catalog(), part)?;
        copies.iter().try_for_each(|copy| self.place(copy, &mut scratch, write))
    }

    /// Passes the bytes of a copy to `write`, run by run. The first argument of `write` is the
    /// offset of the run.
    pub(super) fn place(
        &self,
        copy: &PlannedCopy,
        scratch: &mut Scratch,
        write: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match copy {
            PlannedCopy::Strided { copy, storage, swap_unit } => {
                for tile in copy.tiles(self.stored.session().gather_bytes()).iter() {
                    self.stored.session().check_cancelled()?;
                    tile.copy(
                        scratch,
                        *swap_unit,
                        |from, buffer| self.stored.read(*storage, from, buffer),
                        &mut *write,
                    )?;
                }
                Ok(())
            }
            PlannedCopy::Contiguous { to, len, storage, from, swap_unit } => {
                let mut buffer = vec![0; size(*len).min(WINDOW_BYTES)];
                windows(0..*len).try_for_each(|(done, part)| {
                    self.stored.session().check_cancelled()?;
                    let part = &mut buffer[..part];
                    self.stored.read(*storage, from + done, part)?;
                    swap(part, *swap_unit);
                    write(to + done, part)
                })
            }
        }
    }

    /// Reads contiguous bytes. If the range begins or ends inside a number, reads the whole number
    /// and swaps its bytes.
    fn read_contiguous(
        &self,
        storage: StorageId,
        at: u64,
        offset: u64,
        buffer: &mut [u8],
        unit: u32,
    ) -> Result<()> {
        let unit_bytes = u64::from(unit);
        let cut = offset % unit_bytes;
        let end = offset + buffer.len() as u64;
        if unit == 1 || (cut == 0 && end.is_multiple_of(unit_bytes)) {
            self.stored.read(storage, at + offset, buffer)?;
            swap(buffer, unit);
            return Ok(());
        }
        let start = offset - cut;
        let mut wide = vec![0; size(end.next_multiple_of(unit_bytes) - start)];
        self.stored.read(storage, at + start, &mut wide)?;
        swap(&mut wide, unit);
        let cut = size(cut);
        buffer.copy_from_slice(&wide[cut..cut + buffer.len()]);
        Ok(())
    }
}

impl CatalogBytes for Logical<'_> {
    fn read_part(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        self.read_part(part, buffer)
    }

    fn catalog(&self) -> &Catalog {
        self.catalog()
    }

    fn ties(&self) -> &[TensorId] {
        self.ties.get_or_init(|| self.catalog().ties())
    }

    fn read_tensor(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let tensor = tensor_of(self.catalog(), id)?;
        check_range("", tensor.bytes, offset, buffer.len() as u64)
            .map_err(|e| Error::plugin(e.message()).tensor(&tensor.name).offset(offset))?;
        let read = match &tensor.data {
            Data::Empty => Ok(()),
            Data::Whole { storage, offset: at } => {
                let info = self.dtype_info(tensor.dtype)?;
                let big = self.stored.storage(*storage)?.byte_order == ByteOrder::Big;
                let unit = if big { info.swap_unit() } else { 1 };
                self.read_contiguous(*storage, *at, offset, buffer, unit)
            }
            Data::Blocks(_) | Data::Grid(_) => match &*self.gathered(id)? {
                Gathered::Memory(bytes) => {
                    let start = size(offset);
                    buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                    Ok(())
                }
                Gathered::Spilled(file) => file.read_exact_at(buffer, offset).map_err(Error::from),
            },
        };
        read.map_err(|e: Error| e.tensor(&tensor.name))
    }
}
