//! The storage of a dequantized weight. A [`Method`] computes the values of some rows and columns
//! in F32. The values are then rounded once to the target dtype.

use super::layers::{Extent, Layer};
use crate::cast::{Cast, CastLosses, Load, Store, load_singles, store_singles};
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{Compute, Dtype, Error, ReadStorage, Result, StorageId};

/// Maximum number of values to compute at a time. About this many F32 values fit in the L2 cache.
/// The number is large enough that methods that read columns still read long runs.
const MAX_READ_BYTES: u64 = 256 << 10;

/// A method that computes a weight's values from its parts.
pub(super) trait Method: fmt::Debug + Send + Sync {
    /// Computes the values of some rows and columns, in row-major order. If there are several rows,
    /// `columns` must include all columns.
    fn fill(
        &self,
        read: &ReadStorage<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        values: &mut [f32],
    ) -> Result<()>;

    /// Returns the number of columns in a row.
    fn columns(&self) -> u64;

    /// Returns the locations of the parts that the method reads.
    fn parts(&self) -> Vec<Extent>;
}

/// A weight to dequantize.
pub(super) struct Weight<'a> {
    pub(super) layer: Layer<'a>,
    /// The dimensions of the weight, in the order in which the method computes the values.
    pub(super) shape: Vec<u64>,
    /// Whether the last two dimensions of the model's parameter are in the opposite order.
    pub(super) is_turned: bool,
    pub(super) method: Box<dyn Method>,
}

/// A dequantized weight, whose values are computed when they are read.
#[derive(Debug)]
pub(super) struct Dequantized {
    name: String,
    columns: u64,
    width: u64,
    store: Store<f32>,
    method: Box<dyn Method>,
    inputs: Vec<StorageId>,
}

impl Dequantized {
    /// Returns a storage that computes the weight's values in the dtype `to`.
    pub(super) fn new(name: &str, to: Dtype, method: Box<dyn Method>) -> Result<Self> {
        let columns = method.columns();
        let width = if to == Dtype::F32 { 4 } else { 2 };
        let store = store_singles(to).ok_or_else(|| Error::usage("expected f32, f16 or bf16"))?;
        let mut inputs: Vec<StorageId> = method.parts().iter().map(|part| part.storage).collect();
        inputs.sort_unstable();
        inputs.dedup();
        Ok(Self { name: name.to_owned(), columns, width, store, method, inputs })
    }

    /// Computes a range of values, which may begin inside a row.
    fn fill(&self, read: &ReadStorage<'_>, values: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        let mut floats = vec![0_f32; size(MAX_READ_BYTES.min(values.end - values.start))];
        let mut at = values.start;
        while at < values.end {
            let (row, column) = (at / self.columns, at % self.columns);
            let left = (values.end - at).min(MAX_READ_BYTES);
            let (rows, columns) = if column == 0 && left >= self.columns {
                (row..row + left / self.columns, 0..self.columns)
            } else {
                (row..row + 1, column..self.columns.min(column + left))
            };
            let count = (rows.end - rows.start) * (columns.end - columns.start);
            let floats = &mut floats[..size(count)];
            self.method.fill(read, rows, columns, floats)?;
            let to = size((at - values.start) * self.width);
            let mut lost = CastLosses::default();
            (self.store)(floats, &mut bytes[to..to + size(count * self.width)], &mut lost);
            if lost.is_out_of_range() {
                return Err(Error::unsupported("a dequantized number is out of the range of the dtype")
                    .found(lost.describe())
                    .hint("dequantize to bf16 or f32, which hold larger numbers"));
            }
            at += count;
        }
        Ok(())
    }
}

impl Compute for Dequantized {
    fn inputs(&self) -> &[StorageId] {
        &self.inputs
    }

    fn compute(&self, read: &ReadStorage<'_>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let values = offset / self.width..end.div_ceil(self.width);
        let filled = if offset.is_multiple_of(self.width) && end.is_multiple_of(self.width) {
            self.fill(read, values, buffer)
        } else {
            // The requested range begins or ends inside a number, so the whole number is computed.
            let mut bytes = vec![0; size((values.end - values.start) * self.width)];
            let start = size(offset - values.start * self.width);
            let filled = self.fill(read, values, &mut bytes);
            buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
            filled
        };
        filled.map_err(|error| error.tensor(&self.name))
    }
}

impl Extent {
    /// Reads `len` bytes of the extent, starting at `offset`.
    pub(super) fn read(self, read: &ReadStorage<'_>, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size(len)];
        read(self.storage, self.offset + offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a range of the extent's numbers, and converts them to F32.
    pub(super) fn floats(self, read: &ReadStorage<'_>, numbers: Range<u64>) -> Result<Vec<f32>> {
        let load = Floats::of(self.dtype);
        let load = load.ok_or_else(|| Error::unsupported("scales of an unsupported dtype"))?;
        let width = load.width();
        let count = numbers.end - numbers.start;
        let bytes = self.read(read, numbers.start * width, count * width)?;
        let mut values = vec![0.0; size(count)];
        load.load(&bytes, &mut values);
        Ok(values)
    }
}

/// The conversion of contiguous numbers to F32.
pub(super) enum Floats {
    Wide(Load<f32>, u64),
    /// One-byte numbers, which are converted with a table of the values of all bytes.
    Bytes(&'static [f32; 256]),
}

impl Floats {
    /// Returns the conversion for 8-bit integers, 8-bit floats, or another dtype that scales may
    /// have.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => load_singles(dtype).map(|load| Self::Wide(load, 4)),
            Dtype::F16 | Dtype::BF16 => load_singles(dtype).map(|load| Self::Wide(load, 2)),
            _ => table(dtype).map(Self::Bytes),
        }
    }

    fn width(&self) -> u64 {
        match self {
            Self::Wide(_, width) => *width,
            Self::Bytes(_) => 1,
        }
    }

    fn load(&self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::Wide(load, _) => load(bytes, values),
            Self::Bytes(table) => look_up(table, bytes, values),
        }
    }
}

/// Looks up the value of each byte in a table.
pub(super) fn look_up(table: &[f32; 256], bytes: &[u8], values: &mut [f32]) {
    for (value, byte) in values.iter_mut().zip(bytes) {
        *value = table[usize::from(*byte)];
    }
}

/// Returns the value of each byte in a one-byte dtype.
pub(super) fn table(dtype: Dtype) -> Option<&'static [f32; 256]> {
    const KNOWN: [Dtype; 5] = [Dtype::I8, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E4M3FNUZ, Dtype::F8_E8M0];
    static TABLES: [OnceLock<[f32; 256]>; 5] = [const { OnceLock::new() }; 5];
    let place = KNOWN.iter().position(|known| *known == dtype)?;
    let cast = Cast::between(dtype, Dtype::F32).ok()?;
    Some(TABLES[place].get_or_init(|| {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let mut wide = [0; 4 * 256];
        cast.run(&bytes, &mut wide);
        let mut values = [0.0; 256];
        for (value, bytes) in values.iter_mut().zip(wide.as_chunks().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        values
    }))
}
