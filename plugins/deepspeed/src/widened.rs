//! Converts floats of other widths to F32, as in `zero_to_fp32.py`. The conversion runs in chunks
//! when the bytes are requested.

use half::f16;
use tensorferry_sdk::{
    ByteOrder, ByteSink, Context, Digest, Dtype, EncodedStorage, Error, FileId, Result, Source, Storage,
    StorageLocation,
};

/// Number of bytes to read at a time.
const CHUNK: u64 = 1 << 20;

/// Contiguous elements of a storage that are converted to F32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Widened {
    file: FileId,
    /// Byte offset of the first element.
    offset: u64,
    elements: u64,
    from: Dtype,
    byte_order: ByteOrder,
    /// Digest of the unconverted bytes, if the storage has a digest and the elements cover the
    /// whole storage.
    digest: Option<Digest>,
}

/// Returns whether a dtype is converted to F32. F64 is also converted, and loses precision.
pub(crate) fn is_widened(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F64)
}

impl Widened {
    /// Creates a conversion of `elements` elements that start at byte `offset` of `storage`.
    /// Returns an error if the storage is too short.
    pub(crate) fn new(storage: &Storage, offset: u64, elements: u64, from: Dtype) -> Result<Self> {
        let StorageLocation::File { file, offset: start } = storage.location else {
            return Err(Error::unsupported("a tensor with computed values, such as a conjugate"));
        };
        let is_whole = offset == 0 && elements.checked_mul(width(from)) == Some(storage.len);
        let digest = storage.digest.clone().filter(|_| is_whole);
        Ok(Self { file, offset: start + offset, elements, from, byte_order: storage.byte_order, digest })
    }

    /// Returns the number of bytes after the conversion.
    pub(crate) fn len(&self) -> Result<u64> {
        self.elements.checked_mul(4).ok_or_else(|| Error::malformed("a length does not fit in 64 bits"))
    }
}

impl EncodedStorage for Widened {
    /// Writes the elements as little-endian F32.
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let width = width(self.from);
        let mut sum = self.digest.as_ref().map(|digest| digest.algorithm.start()).transpose()?;
        let (mut stored, mut made) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < self.elements {
            context.check_cancelled()?;
            let count = (CHUNK / width).min(self.elements - done);
            stored.resize(
                usize::try_from(count * width).map_err(|_| Error::limit("too long for this machine"))?,
                0,
            );
            source.read_at(self.file, self.offset + done * width, &mut stored)?;
            if let Some(sum) = &mut sum {
                sum.update(&stored);
            }
            made.clear();
            for element in stored.chunks_exact_mut(usize::try_from(width).unwrap_or(1)) {
                if self.byte_order == ByteOrder::Big {
                    element.reverse();
                }
                made.extend_from_slice(&widen(element, self.from).to_le_bytes());
            }
            output.write(&made)?;
            done += count;
        }
        match sum.map(|sum| sum.digest()) {
            Some(collector) if Some(&collector) != self.digest.as_ref() => {
                let error = Error::malformed("the digest of a storage does not match the archive");
                Err(error.file(source.name(self.file)).offset(self.offset))
            }
            _ => Ok(()),
        }
    }
}

fn width(dtype: Dtype) -> u64 {
    if dtype == Dtype::F64 { 8 } else { 2 }
}

/// Converts the bytes of one element to F32.
fn widen(element: &[u8], from: Dtype) -> f32 {
    match (element, from) {
        (&[low, high], Dtype::F16) => f16::from_le_bytes([low, high]).to_f32(),
        // A BF16 value is the upper half of an F32 value.
        (&[low, high], _) => f32::from_le_bytes([0, 0, low, high]),
        (&[a, b, c, d, e, f, g, h], _) => narrow(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => f32::NAN,
    }
}

/// Rounds to the nearest F32 value, as torch does.
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use half::bf16;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn decoded(bytes: &[u8], storage: &Storage, elements: u64, from: Dtype) -> Result<Vec<f32>> {
        let source = MemorySource::file("x", bytes);
        let mut made = Vec::new();
        Widened::new(storage, 0, elements, from)?.decode(&source, &mut made, &MemoryContext::default())?;
        Ok(made.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
    }

    #[test]
    fn values_are_those_of_the_wider_dtype() {
        let values = [1.5_f32, -0.0, f32::INFINITY, 65504.0, 1e-7];
        let halves: Vec<u8> = values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
        let expected: Vec<f32> = values.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
        assert_eq!(decoded(&halves, &Storage::file(FileId(0), 0, 10), 5, Dtype::F16).unwrap(), expected);
        let brains: Vec<u8> = values.iter().flat_map(|&v| bf16::from_f32(v).to_be_bytes()).collect();
        let expected: Vec<f32> = values.iter().map(|&v| bf16::from_f32(v).to_f32()).collect();
        let big = Storage::file(FileId(0), 0, 10).byte_order(ByteOrder::Big);
        assert_eq!(decoded(&brains, &big, 5, Dtype::BF16).unwrap(), expected);
        let doubles: Vec<u8> = [0.1_f64, 1e300].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(
            decoded(&doubles, &Storage::file(FileId(0), 0, 16), 2, Dtype::F64).unwrap(),
            [0.1, f32::INFINITY]
        );
    }

    #[test]
    fn long_runs_are_made_in_parts_and_digests_are_checked() {
        let bytes = vec![0x3f_u8; 3 << 20];
        let storage = Storage::file(FileId(0), 0, 3 << 20);
        assert_eq!(decoded(&bytes, &storage, 3 << 19, Dtype::BF16).unwrap().len(), 3 << 19);
        let wrong = storage.digest(Digest::crc32(7));
        assert!(decoded(&bytes, &wrong, 3 << 19, Dtype::BF16).is_err());
        assert!(decoded(&bytes, &wrong, 5, Dtype::BF16).is_ok(), "the digest does not apply to a part");
        assert!(Widened::new(&Storage::encoded(0, 8), 0, 4, Dtype::F16).is_err());
    }
}
