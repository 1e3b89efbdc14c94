//! Slices of a tensor: their bytes, and their decoded values for any dtype.

use super::{CHUNK, Tensor};
use rayon::prelude::*;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{CatalogView, Context, Dtype, Error, Result, element_count};
use tensorferry_tensors::elements::{Elements, bits, decode, texts, unpacked};
use tensorferry_tensors::slice::{AxisSlice, read_slice};

/// Minimum number of bytes that a decoded element takes in memory.
const ELEMENT: u64 = 32;

impl Tensor {
    /// Fills `buffer` with the elements at the selected indices of each axis, in row-major,
    /// little-endian order. The elements are read by all threads of the session.
    ///
    /// # Errors
    /// Returns an error if the tensor contains strings or elements that are not whole bytes, or if
    /// `axes` does not match the tensor's shape. Also returns an error if the buffer has the wrong
    /// length, or if the input cannot be read.
    pub fn read_slice_into(&self, axes: &[AxisSlice], buffer: &mut [u8]) -> Result<()> {
        let rows = axes.first().map_or(1, |axis| axis.len);
        let row = (buffer.len() as u64).checked_div(rows).unwrap_or(0);
        let together = (CHUNK as u64 / row.max(1)).clamp(1, rows.max(1));
        let chunk_len = size((together * row).max(1));
        self.model.with_bytes(|logical| {
            if buffer.len() <= chunk_len {
                return read_slice(logical, self.id, axes, buffer);
            }
            buffer.par_chunks_mut(chunk_len).enumerate().try_for_each(|(index, chunk)| {
                let mut axes = axes.to_vec();
                if let Some(first) = axes.first_mut() {
                    let start = index as u64 * together;
                    *first = first.part(start, (start + together).min(rows));
                }
                read_slice(logical, self.id, &axes, chunk)
            })
        })
    }

    /// Returns the values of a slice in row-major order. `axes` has one entry for each axis. Reads
    /// only the bytes of the slice, except that tensors of strings are read completely.
    ///
    /// # Errors
    /// Returns an error if the dtype is a format's own block dtype, which has no individual values.
    /// Also returns an error if the values exceed the session's memory budget, or if the input
    /// cannot be read.
    pub fn elements(&self, axes: &[AxisSlice]) -> Result<Elements> {
        let shape: Vec<u64> = axes.iter().map(|axis| axis.len).collect();
        let count = element_count(&shape)?;
        let most = self.model.session.held_bytes() / ELEMENT;
        if count > most {
            let problem = Error::limit("the values do not fit in the memory budget").tensor(self.name());
            return Err(problem
                .expected(format!("at most {most} values"))
                .hint("take a slice, or raise --memory")
                .found(count));
        }
        let unsupported = || {
            let name = self.dtype_name();
            Error::unsupported(format!("blocks of {name} cannot be decoded to values")).tensor(self.name())
        };
        let (dtype, found) = (self.dtype(), size(count));
        if dtype == Dtype::STR {
            return self.strings(axes, found);
        }
        if let Some(bits) = bits(dtype) {
            return decode(dtype, &self.codes(axes, bits, found)?).ok_or_else(unsupported);
        }
        decode(dtype, &[]).ok_or_else(unsupported)?;
        let width = self.dtype_info()?.element_bytes().ok_or_else(unsupported)?;
        let mut bytes = self.room(count * u64::from(width))?;
        self.read_slice_into(axes, &mut bytes)?;
        decode(dtype, &bytes).ok_or_else(unsupported)
    }

    /// Returns the codes of packed elements, one code per byte. For each row of the last axis,
    /// reads the bytes from the first to the last selected element.
    fn codes(&self, axes: &[AxisSlice], bits: u32, count: usize) -> Result<Vec<u8>> {
        let mut codes = Vec::with_capacity(count);
        let Some((last, outer)) = axes.split_last() else { return Ok(codes) };
        if count == 0 {
            return Ok(codes);
        }
        let (block_elements, block_bytes) = {
            let info = self.dtype_info()?;
            (u64::from(info.block_elements()), u64::from(info.block_bytes()))
        };
        let (near, far) = (last.index(0), last.index(last.len - 1));
        let (low, high) = (near.min(far), near.max(far));
        let rows: u64 = outer.iter().map(|axis| axis.len).product();
        self.model.with_bytes(|logical| {
            let mut bytes = Vec::new();
            for row in 0..rows {
                logical.stored().session().check_cancelled()?;
                let first = self.linear(outer, row) * self.shape()[axes.len() - 1];
                let start = (first + low) / block_elements;
                let end = (first + high) / block_elements + 1;
                bytes.resize(size((end - start) * block_bytes), 0);
                logical.read(self.id, start * block_bytes, &mut bytes)?;
                let at = |place| first + last.index(place) - start * block_elements;
                codes.extend((0..last.len).flat_map(|place| unpacked(&bytes, bits, at(place), 1)));
            }
            Ok(())
        })?;
        Ok(codes)
    }

    fn strings(&self, axes: &[AxisSlice], count: usize) -> Result<Elements> {
        let most = self.model.session.held_bytes();
        if self.byte_len() > most {
            let problem = Error::limit("the strings do not fit in the memory budget");
            return Err(problem.tensor(self.name()).expected(most).found(self.byte_len()));
        }
        let bytes = self.read()?;
        let all = texts(&bytes);
        let text =
            |place: u64| all.get(size(self.linear(axes, place))).map_or(Vec::new(), |text| text.to_vec());
        Ok(Elements::Text((0..count as u64).map(text).collect()))
    }

    /// Converts an element's row-major index within the slice of the leading axes to its row-major
    /// index within the complete leading axes.
    fn linear(&self, axes: &[AxisSlice], place: u64) -> u64 {
        let (mut rest, mut stride, mut linear) = (place, 1, 0);
        for (axis, dim) in axes.iter().zip(self.shape()).rev() {
            linear += axis.index(rest % axis.len) * stride;
            rest /= axis.len;
            stride *= dim;
        }
        linear
    }
}
