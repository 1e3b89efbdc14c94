//! A lazy view is a tensor whose values are the conjugates or the negatives of the stored ones:
//! torch keeps that as a bit beside the bytes. Here the bytes are made, when they are asked for.

use crate::Extent;
use crate::archive::Record;
use tensorferry_sdk::{
    ByteOrder, ByteSink, Context, DigestAlgorithm, Dtype, Error, Result, Source, element_count,
};

/// Bytes that are read at once, and made at once.
const CHUNK: u64 = 1 << 20;

/// A view, and what to do to its values. Offset and strides count elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LazyView {
    pub(crate) record: Record,
    pub(crate) byte_order: ByteOrder,
    pub(crate) dtype: Dtype,
    pub(crate) offset: u64,
    pub(crate) size: Vec<u64>,
    pub(crate) stride: Vec<u64>,
    pub(crate) conjugate: bool,
    pub(crate) negative: bool,
}

/// What the parts of an element are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Complex,
    Integer,
}

impl LazyView {
    /// How many bytes the values take; or why they cannot be made.
    pub(crate) fn check(&self) -> std::result::Result<u64, String> {
        let unknown = || "its bit for a conjugate or a negative means nothing for its dtype".to_owned();
        let kind = self.kind().ok_or_else(unknown)?;
        if self.conjugate && kind != Kind::Complex {
            return Err(unknown());
        }
        let elements = element_count(&self.size).map_err(|e| e.to_string())?;
        elements.checked_mul(self.width()).ok_or_else(|| "its length does not fit 64 bits".to_owned())
    }

    /// Pushes the values: row-major, little-endian.
    ///
    /// # Errors
    /// Malformed, if the storage does not have the CRC that the archive gives for it; i/o.
    pub fn decode(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        self.check_crc(source, context)?;
        let (size, stride) = joined(&self.size, &self.stride);
        let (inner, inner_stride) =
            size.last().zip(stride.last()).map_or((1, 0), |(&size, &stride)| (size, stride));
        let outer = &size[..size.len().saturating_sub(1)];
        for row in 0..element_count(outer)? {
            let mut rest = row;
            let mut first = self.offset;
            for (&size, &stride) in outer.iter().zip(&stride).rev() {
                first += rest % size * stride;
                rest /= size;
            }
            self.row(source, first, inner, inner_stride, output)?;
            if row % 4096 == 0 {
                context.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// The elements at `first`, `first + stride`, ...
    fn row(
        &self,
        source: &dyn Source,
        first: u64,
        len: u64,
        stride: u64,
        output: &mut dyn ByteSink,
    ) -> Result<()> {
        let width = self.width();
        // As many elements as lie within one chunk, of what is read and of what is made.
        let most = (CHUNK / width / stride.max(1)).max(1);
        let mut stored = Vec::new();
        let mut made = Vec::new();
        let mut done = 0;
        while done < len {
            let count = most.min(len - done);
            let at = self.record.extent.offset + (first + done * stride) * width;
            stored.resize(bytes((count - 1) * stride * width + width)?, 0);
            source.read_at(self.record.extent.file, at, &mut stored)?;
            made.clear();
            for index in 0..count {
                let from = bytes(index * stride * width)?;
                made.extend_from_slice(&stored[from..from + bytes(width)?]);
            }
            self.apply(&mut made);
            output.write(&made)?;
            done += count;
        }
        Ok(())
    }

    fn apply(&self, values: &mut [u8]) {
        let Some((kind, info)) = self.kind().zip(self.dtype.info()) else { return };
        let unit = info.swap_unit().max(1) as usize;
        if self.byte_order == ByteOrder::Big {
            values.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        for (index, part) in values.chunks_exact_mut(unit).enumerate() {
            let imaginary = kind == Kind::Complex && index % 2 == 1;
            // The conjugate's imaginary part changes its sign, and back if it is negated too.
            if self.negative == (self.conjugate && imaginary) {
                continue;
            }
            if kind == Kind::Integer {
                let mut carry = true;
                for byte in part {
                    (*byte, carry) = (!*byte).overflowing_add(carry.into());
                }
            } else if let Some(last) = part.last_mut() {
                *last ^= 0x80;
            }
        }
    }

    /// The host checks the CRCs of storages that it reads itself; this one it does not see.
    fn check_crc(&self, source: &dyn Source, context: &dyn Context) -> Result<()> {
        let Some(expected) = self.record.crc else { return Ok(()) };
        let Extent { file, offset, len } = self.record.extent;
        let mut sum = DigestAlgorithm::CRC32.start()?;
        let mut buffer = vec![0; bytes(CHUNK.min(len))?];
        let mut done = 0;
        while done < len {
            context.check_cancelled()?;
            let part = &mut buffer[..bytes(CHUNK.min(len - done))?];
            source.read_at(file, offset + done, part)?;
            sum.update(part);
            done += part.len() as u64;
        }
        if sum.digest().value == expected.to_le_bytes() {
            return Ok(());
        }
        Err(Error::malformed("a storage's bytes do not have the CRC-32 that the archive gives")
            .file(source.name(file))
            .offset(offset))
    }

    fn width(&self) -> u64 {
        self.dtype.info().and_then(tensorferry_sdk::DtypeInfo::element_bytes).map_or(1, u64::from)
    }

    fn kind(&self) -> Option<Kind> {
        Some(match self.dtype {
            Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => Kind::Float,
            Dtype::C32 | Dtype::BC32 | Dtype::C64 | Dtype::C128 => Kind::Complex,
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Kind::Integer,
            _ => return None,
        })
    }
}

/// The same view with as few dimensions as it needs: a row-major one has one.
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

fn bytes(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{FileId, MemoryContext, MemorySource};

    fn decode(stored: &[u8], view: &LazyView) -> Result<Vec<u8>> {
        let source = MemorySource::file("x", stored);
        let mut made = Vec::new();
        view.decode(&source, &mut made, &MemoryContext::default())?;
        Ok(made)
    }

    fn view(dtype: Dtype, len: u64, size: &[u64], stride: &[u64]) -> LazyView {
        LazyView {
            record: Record { extent: Extent { file: FileId(0), offset: 0, len }, crc: None },
            byte_order: ByteOrder::Little,
            dtype,
            offset: 0,
            size: size.to_vec(),
            stride: stride.to_vec(),
            conjugate: false,
            negative: true,
        }
    }

    #[test]
    fn rows_are_gathered_and_negated() {
        let stored: Vec<u8> = [1_i16, 2, 3, 4, 5, 6].iter().flat_map(|v| v.to_be_bytes()).collect();
        let transposed = LazyView { byte_order: ByteOrder::Big, ..view(Dtype::I16, 12, &[3, 2], &[1, 3]) };
        let made: Vec<u8> = [-1_i16, -4, -2, -5, -3, -6].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(decode(&stored, &transposed).unwrap(), made);
        let repeated = view(Dtype::I16, 12, &[4], &[0]);
        assert_eq!(decode(&[255, 255], &repeated).unwrap(), [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_negated_conjugate_changes_its_real_part() {
        let stored: Vec<u8> = [1_f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        for (conjugate, negative, expected) in
            [(true, false, [1_f32, -2.0]), (false, true, [-1.0, -2.0]), (true, true, [-1.0, 2.0])]
        {
            let view = LazyView { conjugate, negative, ..view(Dtype::C64, 8, &[], &[]) };
            let expected: Vec<u8> = expected.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(decode(&stored, &view).unwrap(), expected);
        }
    }

    #[test]
    fn bits_without_a_meaning_and_wrong_crcs_are_noticed() {
        assert!(view(Dtype::BOOL, 1, &[1], &[1]).check().is_err());
        assert!(LazyView { conjugate: true, ..view(Dtype::F32, 4, &[1], &[1]) }.check().is_err());
        let mut wrong = view(Dtype::F32, 4, &[1], &[1]);
        wrong.record.crc = Some(7);
        assert!(decode(&[0; 4], &wrong).is_err());
    }

    #[test]
    fn long_rows_are_made_in_chunks() {
        let stored = vec![1_u8; 3 << 20];
        let made = decode(&stored, &view(Dtype::I8, 3 << 20, &[3 << 19], &[2])).unwrap();
        assert_eq!(made, vec![255; 3 << 19]);
    }
}
