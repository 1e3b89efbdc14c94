//! Reads hyper-rectangles of a tensor, and reads many tensors in one call.

use super::{CHUNK, Model, Tensor, read_side_by_side};
use rayon::prelude::*;
use std::sync::Arc;
use tensorferry_sdk::{ByteOrder, Data, Error, Order, Region, Result, TensorPart, element_count};

impl Tensor {
    /// Returns the length of a region in bytes. `origin` and `shape` contain one number of elements
    /// for each dimension.
    ///
    /// # Errors
    /// Returns an error if the region is not inside the tensor, or if the tensor contains strings.
    /// Also returns an error if a packed dtype's elements in the region do not fill whole bytes.
    pub fn region_len(&self, origin: &[u64], shape: &[u64]) -> Result<u64> {
        self.check_region(origin, shape)?;
        let len = self.dtype_info()?.bytes_of(element_count(shape)?);
        len.map_err(|error| error.tensor(self.name()))
    }

    /// Fills `buffer` with a hyper-rectangle of the tensor in row-major, little-endian order. The
    /// region is read by all threads of the session.
    ///
    /// # Errors
    /// Returns an error for any reason that [`region_len`](Self::region_len) lists, or if elements
    /// of a packed dtype are not contiguous. Also returns an error if the buffer has the wrong
    /// length, or if the input cannot be read.
    pub fn read_region_into(&self, origin: &[u64], shape: &[u64], buffer: &mut [u8]) -> Result<()> {
        let len = self.region_len(origin, shape)?;
        self.check_len(buffer.len(), len)?;
        let region = Region { origin: origin.to_vec(), shape: shape.to_vec() };
        if buffer.is_empty() {
            return Ok(());
        }
        let info = self.dtype_info()?;
        let is_gathered = matches!(self.facts().data, Data::Blocks(_) | Data::Grid(_));
        let (run, width) = (region.row_major_run(self.shape()), info.element_bytes());
        if let Some((first, _)) = run.filter(|_| !is_gathered || width.is_none()) {
            let start = info.bytes_of(first).map_err(|error| error.tensor(self.name()))?;
            return self.model.with_bytes(|logical| read_side_by_side(logical, self.id, start, buffer));
        }
        if width.is_none() {
            let problem = Error::unsupported("packed elements that are not contiguous cannot be read");
            return Err(problem.tensor(self.name()).hint("read whole rows"));
        }
        // Rows of the region are contiguous in the buffer, so each thread reads a range of rows.
        let rows = shape.first().copied().unwrap_or(1);
        let row = buffer.len() as u64 / rows;
        let together = (CHUNK as u64 / row.max(1)).clamp(1, rows);
        let step = usize::try_from(together * row).unwrap_or(usize::MAX);
        self.model.with_bytes(|logical| {
            buffer.par_chunks_mut(step).enumerate().try_for_each(|(index, chunk)| {
                let mut region = region.clone();
                if let (Some(start), Some(count)) = (region.origin.first_mut(), region.shape.first_mut()) {
                    *start += index as u64 * together;
                    *count = chunk.len() as u64 / row;
                }
                let part = TensorPart {
                    tensor: self.id,
                    region: Some(region),
                    order: Order::C,
                    byte_order: ByteOrder::Little,
                };
                logical.read_part(&part, chunk)
            })
        })
    }

    fn check_region(&self, origin: &[u64], shape: &[u64]) -> Result<()> {
        let whole = self.shape();
        let ends = origin.iter().zip(shape).map(|(&start, &len)| start.checked_add(len));
        let is_inside = origin.len() == whole.len()
            && shape.len() == whole.len()
            && ends.zip(whole).all(|(end, dim)| end.is_some_and(|end| end <= *dim));
        if is_inside {
            return Ok(());
        }
        let problem = format!("the region at {origin:?} of shape {shape:?} is not inside {whole:?}");
        Err(Error::usage(problem).tensor(self.name()))
    }
}

impl Model {
    /// Reads several tensors of this model, each into its own buffer, as [`Tensor::read_into`] does
    /// for one tensor. The tensors are distributed over the session's threads.
    ///
    /// # Errors
    /// Returns an error if a tensor is from a different model, or if the input cannot be read. Also
    /// returns an error if a buffer does not have the length of its tensor.
    pub fn read_many<'b>(&self, parts: impl IntoIterator<Item = (&'b Tensor, &'b mut [u8])>) -> Result<()> {
        let parts: Vec<_> = parts.into_iter().collect();
        for (tensor, buffer) in &parts {
            if !Arc::ptr_eq(&tensor.model.opened, &self.opened) {
                return Err(Error::usage("the tensor is from a different model").tensor(tensor.name()));
            }
            tensor.check_len(buffer.len(), tensor.byte_len())?;
        }
        self.with_bytes(|logical| {
            parts.into_par_iter().try_for_each(|(tensor, buffer)| self.read_whole(logical, tensor.id, buffer))
        })
    }
}
