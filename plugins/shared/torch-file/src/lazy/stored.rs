//! Reads the elements of a view in order. The plugin uses this for tensors whose values are
//! computed, and the host reads all other views.

use super::{CHUNK, as_usize};
use crate::Extent;
use crate::archive::Record;
use tensorferry_sdk::{
    ByteOrder, Context, DigestAlgorithm, Dtype, DtypeInfo, Error, Limits, Result, Source, element_count,
};

/// Maximum length in bytes of a view that is read as a whole, before its elements are selected in
/// memory.
const MAX_AT_ONCE: u64 = 8 << 20;

/// A view of a storage record. The offset and strides count elements, and each element consists of
/// whole bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoredView {
    pub(crate) record: Record,
    pub(crate) byte_order: ByteOrder,
    pub(crate) dtype: Dtype,
    pub(crate) offset: u64,
    pub(crate) size: Vec<u64>,
    pub(crate) stride: Vec<u64>,
}

impl StoredView {
    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> Result<u64> {
        element_count(&self.size)
    }

    /// Returns the length of an element in bytes.
    pub(crate) fn width(&self) -> u64 {
        self.dtype.info().and_then(DtypeInfo::element_bytes).map_or(1, u64::from)
    }

    /// Returns the length of all elements together in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let bytes = self.elements()?.checked_mul(self.width());
        bytes.ok_or_else(|| Error::malformed("the tensor's length does not fit in 64 bits"))
    }

    /// Reads all elements in row-major order, as little-endian numbers.
    pub(crate) fn read(&self, source: &dyn Source, context: &dyn Context) -> Result<Vec<u8>> {
        self.check_held(context.limits())?;
        let mut bytes = Vec::new();
        self.stream(source, context, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Checks that all elements may be kept in memory.
    pub(crate) fn check_held(&self, limits: &Limits) -> Result<()> {
        let bytes = self.bytes()?;
        if bytes <= limits.header_bytes {
            return Ok(());
        }
        Err(Error::limit("a part of a tensor is too long to hold in memory")
            .expected(format!("at most {} bytes", limits.header_bytes))
            .found(bytes))
    }

    /// Passes the elements to `take` in pieces, in row-major order, as little-endian numbers.
    pub(crate) fn stream(
        &self,
        source: &dyn Source,
        context: &dyn Context,
        take: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if self.elements()? == 0 {
            return Ok(());
        }
        self.check_crc(source, context)?;
        let (size, stride) = joined(&self.size, &self.stride);
        let (inner, inner_stride) =
            size.last().zip(stride.last()).map_or((1, 1), |(&size, &stride)| (size, stride));
        let (outer, outer_stride) =
            (&size[..size.len().saturating_sub(1)], &stride[..stride.len().saturating_sub(1)]);
        let reach = size.iter().zip(&stride).map(|(&size, &stride)| (size - 1) * stride).sum::<u64>() + 1;
        let mut elements = Elements::new(self, source);
        if !outer.is_empty() && reach * self.width() <= MAX_AT_ONCE {
            elements.count_elements(self.offset, reach)?;
        }
        for row in 0..element_count(outer)? {
            let mut rest = row;
            let mut first = self.offset;
            for (&size, &stride) in outer.iter().zip(outer_stride).rev() {
                first += rest % size * stride;
                rest /= size;
            }
            elements.row(first, inner, inner_stride, take)?;
            if row % 4096 == 0 {
                context.check_cancelled()?;
            }
        }
        elements.finish(take)
    }

    /// Checks the CRC of the whole record. The host checks the CRC only for storages that it reads.
    fn check_crc(&self, source: &dyn Source, context: &dyn Context) -> Result<()> {
        let Some(expected) = self.record.crc else { return Ok(()) };
        let Extent { file, offset, len } = self.record.extent;
        let mut sum = DigestAlgorithm::CRC32.start()?;
        let mut buffer = vec![0; as_usize(CHUNK.min(len))?];
        let mut done = 0;
        while done < len {
            context.check_cancelled()?;
            let part = &mut buffer[..as_usize(CHUNK.min(len - done))?];
            source.read_at(file, offset + done, part)?;
            sum.update(part);
            done += part.len() as u64;
        }
        if *sum.digest().value == expected.to_le_bytes() {
            return Ok(());
        }
        Err(Error::malformed("the CRC-32 of a storage differs from the archive")
            .file(source.name(file))
            .offset(offset))
    }
}

/// A buffer for elements between the file and the function that consumes them.
struct Elements<'a> {
    view: &'a StoredView,
    source: &'a dyn Source,
    /// The bytes that were read last.
    stored: Vec<u8>,
    /// If `stored` contains the whole view, the index of the first element in `stored`.
    held: Option<u64>,
    /// Bytes that have not been consumed yet.
    made: Vec<u8>,
}

impl<'a> Elements<'a> {
    fn new(view: &'a StoredView, source: &'a dyn Source) -> Self {
        Self { view, source, stored: Vec::new(), held: None, made: Vec::new() }
    }

    fn count_elements(&mut self, first: u64, elements: u64) -> Result<()> {
        self.read(first, elements)?;
        self.held = Some(first);
        Ok(())
    }

    fn read(&mut self, first: u64, elements: u64) -> Result<()> {
        let width = self.view.width();
        let Extent { file, offset, .. } = self.view.record.extent;
        self.stored.resize(as_usize(elements * width)?, 0);
        self.source.read_at(file, offset + first * width, &mut self.stored)
    }

    /// Adds `len` elements to the buffer: the elements at `first`, `first + stride`, and so on.
    fn row(
        &mut self,
        first: u64,
        len: u64,
        stride: u64,
        take: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let width = self.view.width();
        // Limits the number of elements so that neither the bytes read nor the resulting elements
        // exceed a chunk.
        let max = (CHUNK / width / stride.max(1)).max(1);
        let mut done = 0;
        while done < len {
            let count = max.min(len - done);
            let from = first + done * stride;
            let skip = match self.held {
                Some(held) => as_usize((from - held) * width)?,
                None => {
                    self.read(from, (count - 1) * stride + 1)?;
                    0
                }
            };
            let (step, width) = (as_usize(stride * width)?, as_usize(width)?);
            if step == width {
                self.made.extend_from_slice(&self.stored[skip..skip + as_usize(count)? * width]);
            } else {
                for index in 0..as_usize(count)? {
                    let at = skip + index * step;
                    self.made.extend_from_slice(&self.stored[at..at + width]);
                }
            }
            if self.made.len() as u64 >= CHUNK {
                self.finish(take)?;
            }
            done += count;
        }
        Ok(())
    }

    fn finish(&mut self, take: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        if self.view.byte_order == ByteOrder::Big {
            let unit = self.view.dtype.info().map_or(1, DtypeInfo::swap_unit).max(1) as usize;
            self.made.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        take(&mut self.made)?;
        self.made.clear();
        Ok(())
    }
}

/// Merges adjacent dimensions of a view where possible. The result for a row-major view has a
/// single dimension.
fn joined(size: &[u64], stride: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut sizes, mut strides): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for (&size, &stride) in size.iter().zip(stride).filter(|&(&size, _)| size != 1) {
        match (sizes.last_mut(), strides.last_mut()) {
            (Some(last_size), Some(last_stride)) if stride.checked_mul(size) == Some(*last_stride) => {
                *last_size *= size;
                *last_stride = stride;
            }
            _ => {
                sizes.push(size);
                strides.push(stride);
            }
        }
    }
    (sizes, strides)
}

#[cfg(test)]
pub(super) mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{FileId, MemoryContext, MemorySource};

    /// Builds a view of a file that is `len` bytes long.
    pub(in super::super) fn view(dtype: Dtype, len: u64, size: &[u64], stride: &[u64]) -> StoredView {
        StoredView {
            record: Record { extent: Extent { file: FileId(0), offset: 0, len }, crc: None },
            byte_order: ByteOrder::Little,
            dtype,
            offset: 0,
            size: size.to_vec(),
            stride: stride.to_vec(),
        }
    }

    fn read(stored: &[u8], view: &StoredView) -> Result<Vec<u8>> {
        view.read(&MemorySource::file("x", stored), &MemoryContext::default())
    }

    #[test]
    fn rows_are_gathered_in_logical_order() {
        let stored: Vec<u8> = [1_i16, 2, 3, 4, 5, 6].iter().flat_map(|v| v.to_be_bytes()).collect();
        let transposed = StoredView { byte_order: ByteOrder::Big, ..view(Dtype::I16, 12, &[3, 2], &[1, 3]) };
        let made: Vec<u8> = [1_i16, 4, 2, 5, 3, 6].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(read(&stored, &transposed).unwrap(), made);
        assert_eq!(read(&[7, 8], &view(Dtype::I16, 2, &[3], &[0])).unwrap(), [7, 8, 7, 8, 7, 8]);
        assert_eq!(read(&[7, 8], &view(Dtype::I16, 2, &[], &[])).unwrap(), [7, 8]);
        assert_eq!(read(&[], &view(Dtype::I16, 0, &[2, 0], &[9, 9])).unwrap(), Vec::<u8>::new());
    }

    #[test]
    fn long_views_are_read_in_parts() {
        let stored: Vec<u8> = (0..251_u8).cycle().take(20 << 20).collect();
        let every_other = view(Dtype::I8, stored.len() as u64, &[10 << 20], &[2]);
        let expected: Vec<u8> = stored.iter().step_by(2).copied().collect();
        assert!(read(&stored, &every_other).unwrap() == expected);
        let (rows, columns) = (4_u64, 5 << 20);
        let transposed = view(Dtype::I8, stored.len() as u64, &[columns, rows], &[1, columns]);
        let made = read(&stored, &transposed).unwrap();
        assert_eq!(made[4..8], [0, 1, 2, 3].map(|row| ((row * columns + 1) % 251) as u8));
    }

    #[test]
    fn a_wrong_crc_is_noticed() {
        let mut wrong = view(Dtype::F32, 4, &[1], &[1]);
        wrong.record.crc = Some(7);
        assert!(read(&[0; 4], &wrong).is_err());
    }
}
