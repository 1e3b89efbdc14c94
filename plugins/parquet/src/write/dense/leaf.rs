//! The values of an array without nulls, with one or more values per row. In Parquet, such a column
//! is called a leaf column.

use arrow_buffer::ScalarBuffer;
use parquet::basic::Type;
use parquet::schema::types::ColumnDescriptor;
use std::ops::Range;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, BinaryArray};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Error, Result};

pub(super) struct Leaf {
    rows: usize,
    starts: RowStarts,
    /// The concatenated values of all rows.
    pub(super) values: Values,
}

/// Index of the first value in each row.
enum RowStarts {
    /// Every row has this number of values.
    Every(usize),
    /// Offsets of the rows in the list array. The first offset may be greater than 0.
    At(ScalarBuffer<i32>),
}

/// Values of the types that are supported in dense columns.
pub(super) enum Values {
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    Bytes(BinaryArray),
}

impl Leaf {
    /// Returns the leaf of an array. Returns `None` if the array contains a null or an empty list,
    /// or if its type is not supported.
    pub(super) fn of(array: &ArrayRef, column: &ColumnDescriptor) -> Option<Self> {
        let is_dense = array.null_count() == 0 && cfg!(target_endian = "little");
        let (starts, values) = match array.data_type() {
            _ if !is_dense => return None,
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let offsets = list.offsets();
                if !offsets.windows(2).all(|pair| pair[0] < pair[1]) {
                    return None;
                }
                let (first, last) =
                    (usize::try_from(offsets.first()).ok()?, usize::try_from(offsets.last()).ok()?);
                (RowStarts::At(offsets.inner().clone()), list.values().slice(first, last - first))
            }
            DataType::FixedSizeList(_, len) => {
                let len = usize::try_from(*len).ok().filter(|&len| len > 0)?;
                (RowStarts::Every(len), array.as_fixed_size_list().values().clone())
            }
            _ => (RowStarts::Every(1), array.clone()),
        };
        if values.null_count() > 0 {
            return None;
        }
        Some(Self { rows: array.len(), starts, values: Values::of(&values, column.physical_type())? })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the index of a row's first value. If `row` is the number of rows, returns the number
    /// of values.
    pub(super) fn start(&self, row: usize) -> usize {
        match &self.starts {
            RowStarts::Every(len) => row * len,
            // The offsets are in ascending order, because Arrow checked them when the list array
            // was created.
            RowStarts::At(offsets) => usize::try_from(offsets[row] - offsets[0]).unwrap_or(0),
        }
    }

    /// Returns the greatest row index, not less than `row`, for which `fits` returns true. The
    /// function uses a binary search.
    pub(super) fn last_row(&self, row: usize, fits: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (row, self.rows);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}

impl Values {
    fn of(array: &ArrayRef, stored: Type) -> Option<Self> {
        Some(match (array.data_type(), stored) {
            (DataType::Int32 | DataType::Date32 | DataType::Time32(_), Type::INT32) => {
                Self::Int32(numbers(array))
            }
            (DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_), Type::INT64) => {
                Self::Int64(numbers(array))
            }
            (DataType::Float32, Type::FLOAT) => Self::Float(numbers(array)),
            (DataType::Float64, Type::DOUBLE) => Self::Double(numbers(array)),
            (DataType::Binary, Type::BYTE_ARRAY) => Self::Bytes(array.as_binary::<i32>().clone()),
            _ => return None,
        })
    }

    /// Returns the number of bytes that the values occupy in plain encoding.
    pub(super) fn plain_bytes(&self, values: Range<usize>) -> u64 {
        let count = values.len() as u64;
        match self {
            Self::Int32(_) | Self::Float(_) => 4 * count,
            Self::Int64(_) | Self::Double(_) => 8 * count,
            Self::Bytes(array) => {
                let offsets = array.value_offsets();
                4 * count + u64::try_from(offsets[values.end] - offsets[values.start]).unwrap_or(0)
            }
        }
    }

    /// Returns the numbers in the form in which a page stores them, which is little-endian. Returns
    /// `None` for byte arrays, whose layout in memory is different.
    pub(super) fn plain(&self, values: Range<usize>) -> Option<&[u8]> {
        let (numbers, width) = match self {
            Self::Int32(numbers) => (numbers.inner(), 4),
            Self::Float(numbers) => (numbers.inner(), 4),
            Self::Int64(numbers) => (numbers.inner(), 8),
            Self::Double(numbers) => (numbers.inner(), 8),
            Self::Bytes(_) => return None,
        };
        numbers.get(values.start * width..values.end * width)
    }

    /// Appends the values in plain encoding. Numbers are little-endian, and a length precedes each
    /// byte array.
    pub(super) fn put_plain(&self, values: Range<usize>, page: &mut Vec<u8>) -> Result<()> {
        if let Some(numbers) = self.plain(values.clone()) {
            page.extend_from_slice(numbers);
        }
        if let Self::Bytes(array) = self {
            for place in values {
                let value = array.value(place);
                let len = u32::try_from(value.len());
                let len = len.map_err(|_| Error::plugin("a value is 4 GiB or larger"))?;
                page.extend_from_slice(&len.to_le_bytes());
                page.extend_from_slice(value);
            }
        }
        Ok(())
    }
}

/// Returns the numbers of an array as values of type `T`. `T` must have the same representation as
/// the numbers.
fn numbers<T: arrow_buffer::ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Returns the minimum and maximum of all values, or `None` if there are no values.
pub(super) fn extremes<'a, T: Copy + Ord + 'a>(values: impl IntoIterator<Item = &'a [T]>) -> Option<(T, T)> {
    let mut values = values.into_iter().filter(|values| !values.is_empty()).peekable();
    let first = values.peek()?[0];
    // The loop uses eight lanes, so that no comparison waits for the previous comparison.
    let (mut min, mut max) = ([first; 8], [first; 8]);
    for values in values {
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            for lane in 0..8 {
                min[lane] = min[lane].min(eight[lane]);
                max[lane] = max[lane].max(eight[lane]);
            }
        }
        for &value in rest {
            min[0] = min[0].min(value);
            max[0] = max[0].max(value);
        }
    }
    Some((min.into_iter().min()?, max.into_iter().max()?))
}
