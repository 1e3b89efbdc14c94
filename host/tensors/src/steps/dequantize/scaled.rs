//! Weights that consist of rows of codes and a grid of scales. A scale applies to the whole tensor,
//! to a row, to a block, or to a group within a row. The methods with such weights are
//! bitsandbytes, compressed-tensors, FP8, FP4 and MLX. GPTQ and AWQ weights, in contrast, are
//! ordered by columns.

use super::codes::CodePacking;
use super::computed::Method;
use super::layers::{Extent, Layer, shaped};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{Dtype, Error, ReadStorage, Result, Tensor};

/// A weight that consists of rows of codes and their scales.
#[derive(Debug)]
pub(super) struct Scaled {
    pub(super) codes: CodePacking,
    /// The location of the codes. Every row begins at a byte boundary.
    pub(super) at: Extent,
    /// Number of bytes in a row of codes.
    pub(super) row_bytes: u64,
    pub(super) columns: u64,
    pub(super) grid: ScaleGrid,
    pub(super) scales: Scales,
    pub(super) formula: Formula,
    /// The group index of each column in a row, if a group's columns are not consecutive.
    pub(super) groups_of: Option<Arc<Vec<u32>>>,
}

/// The grid of scales. It determines which scale applies to a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScaleGrid {
    /// Number of rows that share a row of scales.
    pub(super) block_rows: u64,
    /// Number of columns that share a scale.
    pub(super) block_columns: u64,
    /// Number of rows in a matrix. If the tensor contains several experts, each expert is a matrix,
    /// and the blocks of an expert begin at its first row.
    pub(super) matrix_rows: u64,
}

/// The scales of a weight, in row-major order.
#[derive(Debug)]
pub(super) enum Scales {
    /// The scale is 1 for all values, and there is no tensor of scales.
    One,
    /// The scales are numbers.
    Plain(Extent),
    /// The scales are powers of two. Each scale is stored as a one-byte exponent. The exponent 127
    /// stands for the scale 1.
    Powers(Extent),
    /// The scales are numbers that are divided by a constant.
    Divided(Extent, f32),
    /// The scales are numbers that are multiplied by a constant.
    Times(Extent, f32),
    /// The "double quantization" of bitsandbytes. The scales are indices into a map, and each block
    /// of indices has a separate scale.
    Nested {
        indices: Extent,
        /// The value of each index.
        map: Vec<f32>,
        /// The scale of each block of indices.
        scales: Extent,
        /// Number of indices per block.
        block: u64,
        /// The offset that is added to all values.
        offset: f32,
    },
}

/// The formula that combines a code and its scale.
#[derive(Debug)]
pub(super) enum Formula {
    /// `code * scale`
    Scale,
    /// `(code * scale) * constant`
    ScaleTimes(f32),
    /// `code * scale + bias`, with one bias per scale
    ScaleAdd(Extent),
    /// `(code - constant) * scale`
    Subtract(f32),
    /// `(code - zero) * scale`, with one zero point per scale
    SubtractEach(Extent),
    /// `(code - zero) * scale`, with one zero point for each row and column group. The zero points
    /// have this many bits and are packed along the rows.
    SubtractPacked(Extent, u32),
}

impl ScaleGrid {
    /// Returns a grid with a single scale for all `rows` and `columns`.
    pub(super) fn whole(rows: u64, columns: u64) -> Self {
        Self { block_rows: rows, block_columns: columns, matrix_rows: rows }
    }

    /// Returns the grid for a tensor of scales and a weight of this shape, whose last two
    /// dimensions form a matrix. `block` is the block size from the configuration.
    pub(super) fn of(shape: &[u64], scales: &Tensor, block: Option<[u64; 2]>) -> Result<Self> {
        let [experts @ .., rows, columns] = shape else {
            return Err(shaped(scales, "the shape of a matrix's scales"));
        };
        let (rows, columns) = (*rows, *columns);
        let all_rows: u64 = experts.iter().product::<u64>() * rows;
        // `ahead` is whether the scales have dimensions for the experts. `own` contains the
        // dimensions of the scales for one matrix.
        let (ahead, own) = match scales.shape.strip_prefix(experts) {
            Some(own) if !experts.is_empty() => (true, own),
            _ => (false, &*scales.shape),
        };
        // ModelOpt adds a dimension of length 1 after each dimension of the matrix.
        let own = match *own {
            [of_rows, 1, of_columns, 1] => vec![of_rows, of_columns],
            _ => own.to_vec(),
        };
        let count: u64 = scales.shape.iter().product();
        let grid = |block_rows, block_columns| Self { block_rows, block_columns, matrix_rows: rows };
        if count == 1 {
            return Ok(Self::whole(all_rows, columns));
        }
        let found = match *own {
            [] | [1] | [1, 1] if ahead => Some(grid(rows, columns)),
            [of_rows] | [of_rows, 1] if of_rows == rows && block.is_none() => Some(grid(1, columns)),
            [of_rows, of_columns] => block
                .filter(|block| {
                    [rows.div_ceil(block[0]), columns.div_ceil(block[1])] == [of_rows, of_columns]
                })
                .map(|block| grid(block[0], block[1]))
                .or_else(|| {
                    let is_group = of_rows == rows && of_columns > 0 && columns.is_multiple_of(of_columns);
                    is_group.then(|| grid(1, columns / of_columns))
                })
                .or_else(|| {
                    let found =
                        block.is_none().then(|| block_of([rows, columns], [of_rows, of_columns]))??;
                    Some(grid(found[0], found[1]))
                }),
            _ => None,
        };
        found.filter(|_| ahead || experts.is_empty()).ok_or_else(|| {
            let of_block = block.map_or(String::new(), |[r, c]| format!(", or one for each {r} x {c}"));
            shaped(
                scales,
                format!("a scale for {shape:?}, for each row, or for groups in each row{of_block}"),
            )
        })
    }

    /// Returns the number of scales per grid row.
    fn per_row(&self, columns: u64) -> u64 {
        columns.div_ceil(self.block_columns)
    }

    /// Returns the index of the scale row that applies to a row of codes.
    fn row(&self, row: u64) -> u64 {
        let matrix = self.matrix_rows.div_ceil(self.block_rows);
        row / self.matrix_rows * matrix + row % self.matrix_rows / self.block_rows
    }
}

/// Guesses the block size of a grid of scales if the configuration does not specify the size. If
/// 128 x 128 matches the number of scales, as in nearly all models, the result is 128 x 128.
/// Otherwise, a side of the block is the whole dimension if that dimension has a single scale, and
/// the only matching power of two if not.
fn block_of(dims: [u64; 2], counts: [u64; 2]) -> Option<[u64; 2]> {
    let fits = |block: u64| [0, 1].iter().all(|&axis: &usize| dims[axis].div_ceil(block) == counts[axis]);
    if fits(128) {
        return Some([128, 128]);
    }
    let one = |axis: usize| {
        let mut blocks =
            (3..32).map(|bit| 1 << bit).filter(|block| dims[axis].div_ceil(*block) == counts[axis]);
        match (blocks.next(), blocks.next()) {
            (Some(_), _) if counts[axis] == 1 => Some(dims[axis]),
            (Some(block), None) => Some(block),
            _ => None,
        }
    };
    Some([one(0)?, one(1)?])
}

impl Scales {
    /// Determines the kind of scales that a tensor contains from the tensor's dtype.
    pub(super) fn of(layer: &Layer<'_>, tensor: &Tensor) -> Result<Self> {
        const DTYPES: [Dtype; 6] =
            [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F8_E8M0, Dtype::U8, Dtype::F8_E4M3];
        let stored = layer.extent_of(tensor, &DTYPES)?;
        Ok(if matches!(tensor.dtype, Dtype::U8 | Dtype::F8_E8M0) {
            Self::Powers(stored)
        } else {
            Self::Plain(stored)
        })
    }

    fn parts(&self) -> Vec<Extent> {
        match self {
            Self::One => Vec::new(),
            Self::Plain(at) | Self::Powers(at) | Self::Divided(at, _) | Self::Times(at, _) => vec![*at],
            Self::Nested { indices, scales, .. } => vec![*indices, *scales],
        }
    }

    /// Reads a range of scales.
    fn read(&self, read: &ReadStorage<'_>, numbers: Range<u64>) -> Result<Vec<f32>> {
        Ok(match self {
            Self::One => (numbers).map(|_| 1.0).collect(),
            Self::Plain(at) => at.floats(read, numbers)?,
            Self::Powers(at) => {
                let bytes = at.read(read, numbers.start, numbers.end - numbers.start)?;
                bytes.into_iter().map(power).collect()
            }
            Self::Divided(at, by) => at.floats(read, numbers)?.into_iter().map(|scale| scale / by).collect(),
            Self::Times(at, by) => at.floats(read, numbers)?.into_iter().map(|scale| scale * by).collect(),
            Self::Nested { indices, map, scales, block, offset } => {
                let blocks = numbers.start / block..numbers.end.div_ceil(*block);
                let of_blocks = scales.floats(read, blocks.clone())?;
                let bytes = indices.read(read, numbers.start, numbers.end - numbers.start)?;
                let one = |(number, index): (u64, u8)| {
                    let scale = of_blocks[size(number / block - blocks.start)];
                    map[usize::from(index)] * scale + offset
                };
                numbers.clone().zip(bytes).map(one).collect()
            }
        })
    }
}

/// Returns two to the power of (byte - 127). The byte 255 is NaN, as in the OCP's E8M0.
fn power(byte: u8) -> f32 {
    match byte {
        // The result is half of the smallest normal number, which is subnormal.
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

impl Method for Scaled {
    fn fill(
        &self,
        read: &ReadStorage<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        values: &mut [f32],
    ) -> Result<()> {
        let width = size(columns.end - columns.start);
        // If several rows are requested, all of their columns are requested.
        let first = self.codes.start(columns.start);
        let start = rows.start * self.row_bytes + first / 32 * 4;
        // If the requested columns end inside a word, some codes of the word are not needed.
        let needed = self.codes.bytes(columns.end).unwrap_or(self.row_bytes).min(self.row_bytes);
        let end = (rows.end - 1) * self.row_bytes + needed;
        let bytes = self.at.read(read, start, end - start)?;
        let per_row = self.grid.per_row(self.columns);
        let groups = match self.groups_of {
            Some(_) => 0..per_row,
            None => columns.start / self.grid.block_columns..columns.end.div_ceil(self.grid.block_columns),
        };
        let scale_rows = self.grid.row(rows.start)..self.grid.row(rows.end - 1) + 1;
        let numbers = scale_rows.start * per_row + groups.start..(scale_rows.end - 1) * per_row + groups.end;
        let scales = self.scales.read(read, numbers.clone())?;
        let biases = match &self.formula {
            Formula::ScaleAdd(at) | Formula::SubtractEach(at) => at.floats(read, numbers)?,
            _ => Vec::new(),
        };
        let zeros = match self.formula {
            Formula::SubtractPacked(at, bits) => Some(PackedZeros::read(at, bits, read, &rows, per_row)?),
            _ => None,
        };
        for (row, values) in rows.clone().zip(values.chunks_exact_mut(width)) {
            let at = size((row - rows.start) * self.row_bytes);
            self.codes.fill(&bytes[at..], size(first % 32), values);
            let of_row = size((self.grid.row(row) - scale_rows.start) * per_row);
            if let Some(groups_of) = &self.groups_of {
                let of_columns = &groups_of[size(columns.start)..size(columns.end)];
                for (value, &group) in values.iter_mut().zip(of_columns) {
                    let number = of_row + group as usize;
                    let of = |formula: &Formula| match formula {
                        Formula::Subtract(zero) => *zero,
                        Formula::SubtractPacked(..) => {
                            zeros.as_ref().map_or(0.0, |zeros| zeros.get(row, group.into()))
                        }
                        _ => 0.0,
                    };
                    *value = (*value - of(&self.formula)) * scales[number];
                }
                continue;
            }
            let mut values = values;
            let mut column = columns.start;
            for group in groups.clone() {
                let end = ((group + 1) * self.grid.block_columns).min(columns.end);
                let (of_group, rest) = values.split_at_mut(size(end - column));
                (values, column) = (rest, end);
                let number = of_row + size(group - groups.start);
                let scale = scales[number];
                match &self.formula {
                    Formula::Scale => of_group.iter_mut().for_each(|value| *value *= scale),
                    Formula::ScaleTimes(constant) => {
                        of_group.iter_mut().for_each(|value| *value = *value * scale * constant);
                    }
                    Formula::ScaleAdd(_) => {
                        let bias = biases[number];
                        of_group.iter_mut().for_each(|value| *value = *value * scale + bias);
                    }
                    Formula::SubtractEach(_) => {
                        let zero = biases[number];
                        of_group.iter_mut().for_each(|value| *value = (*value - zero) * scale);
                    }
                    Formula::Subtract(zero) => {
                        of_group.iter_mut().for_each(|value| *value = (*value - zero) * scale);
                    }
                    Formula::SubtractPacked(..) => {
                        let zero = zeros.as_ref().map_or(0.0, |zeros| zeros.get(row, group));
                        of_group.iter_mut().for_each(|value| *value = (*value - zero) * scale);
                    }
                }
            }
        }
        Ok(())
    }

    fn columns(&self) -> u64 {
        self.columns
    }

    fn parts(&self) -> Vec<Extent> {
        let mut parts = self.scales.parts();
        parts.push(self.at);
        if let Formula::ScaleAdd(at) | Formula::SubtractEach(at) | Formula::SubtractPacked(at, _) =
            &self.formula
        {
            parts.push(*at);
        }
        parts
    }
}

/// The zero points of some rows, packed along the rows. Within a column group, word `w` contains
/// the zero points from row `32 w / bits` on.
struct PackedZeros {
    bytes: Vec<u8>,
    first_word: u64,
    bits: u32,
    groups: u64,
}

impl PackedZeros {
    fn read(at: Extent, bits: u32, read: &ReadStorage<'_>, rows: &Range<u64>, groups: u64) -> Result<Self> {
        let wide = u64::from(bits);
        let words = rows.start * wide / 32..(rows.end * wide).div_ceil(32);
        let bytes = at.read(read, words.start * groups * 4, (words.end - words.start) * groups * 4)?;
        Ok(Self { bytes, first_word: words.start, bits, groups })
    }

    fn get(&self, row: u64, group: u64) -> f32 {
        let word = |number: u64| {
            let at = size(((number - self.first_word) * self.groups + group) * 4);
            let bytes = self.bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
            bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
        };
        let first = row * u64::from(self.bits);
        let both = word(first / 32) | word(first / 32 + 1) << 32;
        // A zero point has at most eight bits, so only one byte is used.
        f32::from((both >> (first % 32)).to_le_bytes()[0] & (0xff >> (8 - self.bits)))
    }
}

/// Returns the number of bytes of a row of `columns` codes. The tensor must contain whole rows.
pub(super) fn row_bytes(tensor: &Tensor, rows: u64, columns: u64, codes: &CodePacking) -> Result<u64> {
    let bytes = tensor.bytes.checked_div(rows).unwrap_or(0);
    let needed = codes.bytes(columns);
    if rows == 0 || !tensor.bytes.is_multiple_of(rows) || needed.is_none_or(|needed| needed > bytes) {
        return Err(shaped(tensor, format!("{rows} rows of {columns} codes of {} bits", codes.bits())));
    }
    Ok(bytes)
}

/// Returns the error for a number of bits per code that a method does not support.
pub(super) fn odd_bits(layer: &str, found: impl std::fmt::Display) -> Error {
    Error::malformed("invalid number of bits per code").tensor(layer).expected("1 to 8").found(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_follows_from_its_number_where_one_power_of_two_fits() {
        for (dims, counts, block) in [
            ([256, 384], [2, 3], Some([128, 128])),
            ([200, 300], [2, 3], Some([128, 128])),
            ([32, 48], [2, 3], Some([16, 16])),
            ([48, 16], [1, 2], Some([48, 8])),
            ([48, 48], [2, 2], Some([32, 32])),
            ([32, 48], [32, 48], None),
            ([32, 48], [5, 7], None),
        ] {
            assert_eq!(block_of(dims, counts), block, "{dims:?} {counts:?}");
        }
    }
}
