//! Reads windows of tensors by position: bytes, validity, and row splits.

use crate::flow::BATCH_BYTES;
use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use tensorferry_sdk::{CatalogView, Context, Data, Dtype, Error, Result, Tensor, TensorId};
use tensorferry_tensors::logical::Logical;

/// The tensors of a catalog, read by position.
pub(super) struct TensorWindows<'a> {
    logical: &'a Logical<'a>,
    /// Tensors that are stored in several pieces. Such tensors are copied to a file once, because
    /// they are read in many windows. Each entry contains the tensor's index and its offset in the
    /// file.
    held: BTreeMap<usize, u64>,
    file: Option<File>,
    end: u64,
}

impl<'a> TensorWindows<'a> {
    pub(super) fn new(logical: &'a Logical<'a>) -> Self {
        Self { logical, held: BTreeMap::new(), file: None, end: 0 }
    }

    pub(super) fn check_cancelled(&self) -> Result<()> {
        self.logical.stored().session().check_cancelled()
    }

    pub(super) fn tensor(&self, place: usize) -> &Tensor {
        &self.logical.catalog().tensors()[place]
    }

    /// Returns the maximum size in bytes of a row or a string.
    pub(super) fn most_held(&self) -> u64 {
        self.logical.stored().session().held_bytes().max(BATCH_BYTES)
    }

    /// Checks that `bytes` bytes of a tensor fit in the allowed memory.
    pub(super) fn check_held(&self, place: usize, bytes: u64) -> Result<()> {
        let most = self.most_held();
        if bytes <= most {
            return Ok(());
        }
        let error = Error::limit("the strings are too large for memory").hint("raise --memory");
        Err(error.tensor(&self.tensor(place).name).expected(format!("at most {most} bytes")).found(bytes))
    }

    /// Copies the specified tensors into one file if they are stored in several pieces.
    pub(super) fn hold(&mut self, places: &BTreeSet<usize>) -> Result<()> {
        for &place in places {
            if !matches!(self.tensor(place).data, Data::Blocks(_) | Data::Grid(_))
                || self.held.contains_key(&place)
            {
                continue;
            }
            if self.file.is_none() {
                self.file = Some(self.logical.stored().spill()?);
            }
            let Some(file) = &self.file else { continue };
            let begin = self.end;
            self.logical.each_window(id(place), |bytes| {
                file.write_all_at(bytes, self.end)?;
                self.end += bytes.len() as u64;
                Ok(())
            })?;
            self.held.insert(place, begin);
        }
        Ok(())
    }

    fn read(&self, place: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match (self.held.get(&place), &self.file) {
            (Some(begin), Some(file)) => file.read_exact_at(buffer, begin + offset).map_err(Error::from),
            _ => self.logical.read(id(place), offset, buffer),
        }
    }

    /// Returns a range of a tensor's bytes in a buffer that is aligned for Arrow.
    pub(super) fn bytes(&self, place: usize, offset: u64, len: u64) -> Result<MutableBuffer> {
        let len =
            usize::try_from(len).map_err(|_| Error::limit("more bytes than this machine can address"))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.read(place, offset, bytes.as_slice_mut())?;
        Ok(bytes)
    }

    /// Returns a mask of the present elements from `begin` to `end`, or `None` if all of them are
    /// present.
    pub(super) fn nulls(&self, place: usize, begin: u64, end: u64) -> Result<Option<NullBuffer>> {
        let bytes = self.bytes(place, begin, end - begin)?;
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0));
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// Returns the start of a list. `inner` is the total number of values in all lists.
    pub(super) fn split(&self, place: usize, list: u64, inner: u64) -> Result<u64> {
        Ok(self.splits(place, list, list, inner)?[0])
    }

    /// Returns the starts of the lists from `begin` to `end`, and the end of the last list. `inner`
    /// is the total number of values in all lists.
    pub(super) fn splits(&self, place: usize, begin: u64, end: u64, inner: u64) -> Result<Vec<u64>> {
        let is_wide = self.tensor(place).dtype == Dtype::I64;
        let width = if is_wide { 8 } else { 4 };
        let bytes = self.bytes(place, begin * width, (end - begin + 1) * width)?;
        let mut before = 0;
        let check = |(list, bytes): (u64, &[u8])| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let at = match is_wide {
                true => i64::from_le_bytes(wide),
                false => i64::from(i32::from_le_bytes([wide[0], wide[1], wide[2], wide[3]])),
            };
            let split = u64::try_from(at).ok().filter(|split| (before..=inner).contains(split));
            before = split.ok_or_else(|| {
                Error::malformed("row splits decrease or exceed the number of values")
                    .tensor(&self.tensor(place).name)
                    .record(list)
                    .expected(format!("{before} to {inner}"))
                    .found(at)
            })?;
            Ok(before)
        };
        (begin..).zip(bytes.chunks_exact(usize::try_from(width).unwrap_or(8))).map(check).collect()
    }

    /// Checks that the first list starts at 0 and that the last list ends at `inner`, the total
    /// number of values.
    pub(super) fn check_splits(&self, place: usize, inner: u64) -> Result<()> {
        let last = self.tensor(place).shape[0] - 1;
        let (begin, end) = (self.split(place, 0, inner)?, self.split(place, last, inner)?);
        if (begin, end) == (0, inner) {
            return Ok(());
        }
        Err(Error::malformed("the row splits do not cover all values")
            .tensor(&self.tensor(place).name)
            .expected(format!("0 to {inner}"))
            .found(format!("{begin} to {end}")))
    }
}

fn id(place: usize) -> TensorId {
    TensorId(u32::try_from(place).unwrap_or(u32::MAX))
}
