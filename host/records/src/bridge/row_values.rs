//! The values of a column, which are read in windows from the tensor that contains them.

use super::tensor_windows::TensorWindows;
use crate::cast::cast;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, NullArray, PrimitiveArray,
    types as arrow,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, arrow_array, arrow_schema, element_count};

/// Number of bytes that are read at a time from a tensor of strings.
const WINDOW: u64 = 64 << 10;

pub(super) struct RowValues {
    pub(super) tensor: usize,
    pub(super) layout: ValueLayout,
    pub(super) data_type: DataType,
    /// The tensor that marks which values are present.
    pub(super) valid: Option<usize>,
}

/// The layout of a column's values in the tensor.
pub(super) enum ValueLayout {
    /// Numbers: their dtype, and the number of bytes of each number.
    Numbers(Dtype, u64),
    /// Elements of the dtype STR.
    Strings,
    /// Contiguous bytes of strings: the tensor that contains the end of each string, and the total
    /// number of bytes.
    Bytes(usize, u64),
    /// Strings that all have this length in bytes.
    FixedBytes(i32),
}

/// The current position in a tensor of strings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    element: u64,
    byte: u64,
}

impl RowValues {
    /// Creates values of type `data_type` from the elements of a tensor.
    pub(super) fn of(tensor: usize, dtype: Dtype, data_type: DataType, valid: Option<usize>) -> Self {
        let layout = match dtype {
            Dtype::STR => ValueLayout::Strings,
            _ => ValueLayout::Numbers(
                dtype,
                dtype.info().and_then(|info| info.element_bytes()).map_or(1, u64::from),
            ),
        };
        Self { tensor, layout, data_type, valid }
    }

    /// Returns the tensor that contains the ends of strings, if the layout has one, and the total
    /// number of bytes.
    pub(super) fn splits(&self) -> Option<(usize, u64)> {
        match self.layout {
            ValueLayout::Bytes(splits, bytes) => Some((splits, bytes)),
            _ => None,
        }
    }

    /// Returns every tensor from which these values are read.
    pub(super) fn tensors(&self) -> impl Iterator<Item = usize> {
        [Some(self.tensor), self.valid, self.splits().map(|(splits, _)| splits)].into_iter().flatten()
    }

    /// Estimates the total size in bytes of the first `element` elements.
    pub(super) fn bytes_before(&self, element: u64, windows: &TensorWindows<'_>) -> Result<u64> {
        Ok(match self.layout {
            ValueLayout::Numbers(_, width) => element.saturating_mul(width),
            ValueLayout::FixedBytes(width) => element.saturating_mul(u64::try_from(width).unwrap_or(0)),
            ValueLayout::Bytes(splits, bytes) => windows.split(splits, element, bytes)?,
            ValueLayout::Strings => {
                let tensor = windows.tensor(self.tensor);
                let elements = element_count(&tensor.shape)?.max(1);
                u64::try_from(u128::from(element) * u128::from(tensor.bytes) / u128::from(elements))
                    .unwrap_or(u64::MAX)
            }
        })
    }

    /// Reads the values from `begin` to `end`.
    pub(super) fn read(
        &self,
        begin: u64,
        end: u64,
        cursor: &mut Cursor,
        windows: &TensorWindows<'_>,
    ) -> Result<ArrayRef> {
        let nulls = self.valid.map(|valid| windows.nulls(valid, begin, end)).transpose()?.flatten();
        let len = size(end - begin)?;
        if self.data_type == DataType::Null {
            return Ok(Arc::new(NullArray::new(len)));
        }
        let values: ArrayRef = match self.layout {
            ValueLayout::Numbers(Dtype::BOOL, _) => {
                let bytes = windows.bytes(self.tensor, begin, end - begin)?;
                let bits = BooleanBuffer::collect_bool(len, |place| bytes[place] != 0);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            ValueLayout::Numbers(dtype, width) => {
                let bytes = windows.bytes(self.tensor, begin * width, (end - begin) * width)?;
                numbers(dtype, bytes.into(), len, nulls)?
            }
            ValueLayout::FixedBytes(width) => {
                let each = u64::try_from(width).unwrap_or(0);
                let bytes = windows.bytes(self.tensor, begin * each, (end - begin) * each)?;
                let made = FixedSizeBinaryArray::try_new(width, bytes.into(), nulls);
                Arc::new(made.map_err(|error| Error::unsupported(error.to_string()))?)
            }
            ValueLayout::Bytes(splits, all) => {
                let ends = windows.splits(splits, begin, end, all)?;
                let first = ends.first().copied().unwrap_or(0);
                let bytes = windows.bytes(self.tensor, first, ends.last().map_or(0, |last| last - first))?;
                binary(offsets(&ends)?, bytes.into(), nulls)?
            }
            ValueLayout::Strings => self.strings(begin, end, nulls, cursor, windows)?,
        };
        self.cast(&values)
    }

    fn cast(&self, values: &ArrayRef) -> Result<ArrayRef> {
        cast(values, &self.data_type, true).map_err(|error| {
            Error::unsupported(format!("the values do not match the column's type: {error}"))
        })
    }

    fn strings(
        &self,
        begin: u64,
        end: u64,
        nulls: Option<NullBuffer>,
        cursor: &mut Cursor,
        windows: &TensorWindows<'_>,
    ) -> Result<ArrayRef> {
        let mut strings = StringReader::new(self.tensor, *cursor, windows);
        while strings.cursor.element < begin {
            strings.next()?;
        }
        let (mut ends, mut bytes) = (vec![0], Vec::new());
        while strings.cursor.element < end {
            bytes.extend_from_slice(strings.next()?);
            windows.check_held(self.tensor, bytes.len() as u64)?;
            ends.push(bytes.len() as u64);
        }
        *cursor = strings.cursor;
        binary(offsets(&ends)?, Buffer::from_vec(bytes), nulls)
    }
}

/// Returns whether all strings of a tensor are UTF-8.
pub(super) fn are_utf8(tensor: usize, windows: &TensorWindows<'_>) -> Result<bool> {
    let elements = element_count(&windows.tensor(tensor).shape)?;
    let mut strings = StringReader::new(tensor, Cursor::default(), windows);
    while strings.cursor.element < elements {
        if std::str::from_utf8(strings.next()?).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the strings of a tensor sequentially.
struct StringReader<'a> {
    tensor: usize,
    cursor: Cursor,
    windows: &'a TensorWindows<'a>,
    /// An offset in the tensor, and the bytes from that offset on.
    window: (u64, Vec<u8>),
}

impl<'a> StringReader<'a> {
    fn new(tensor: usize, cursor: Cursor, windows: &'a TensorWindows<'a>) -> Self {
        Self { tensor, cursor, windows, window: (0, Vec::new()) }
    }

    fn next(&mut self) -> Result<&[u8]> {
        let mut len = [0; 8];
        len.copy_from_slice(self.get(self.cursor.byte, 8)?);
        let len = u64::from_le_bytes(len);
        let begin = self.cursor.byte + 8;
        self.cursor = Cursor { element: self.cursor.element + 1, byte: begin.saturating_add(len) };
        self.get(begin, len)
    }

    fn get(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        let tensor = self.windows.tensor(self.tensor);
        let left = tensor.bytes.saturating_sub(at);
        if len > left {
            return Err(Error::malformed("a string extends past the end of its tensor")
                .tensor(&tensor.name)
                .offset(at)
                .expected(format!("at most {left} bytes"))
                .found(len));
        }
        let (start, bytes) = &self.window;
        if at < *start || at + len > start + bytes.len() as u64 {
            self.windows.check_held(self.tensor, len)?;
            let wanted = len.max(WINDOW).min(left);
            self.window = (at, self.windows.bytes(self.tensor, at, wanted)?.to_vec());
        }
        let from = size(at - self.window.0)?;
        Ok(&self.window.1[from..from + size(len)?])
    }
}

/// Converts positions in a tensor to Arrow offsets, which start at 0.
pub(super) fn offsets(ends: &[u64]) -> Result<OffsetBuffer<i32>> {
    let first = ends.first().copied().unwrap_or(0);
    let offset = |&end: &u64| {
        i32::try_from(end - first)
            .map_err(|_| Error::limit("the lists in a batch contain more than 2^31 values"))
    };
    let offsets: Vec<i32> = ends.iter().map(offset).collect::<Result<_>>()?;
    Ok(OffsetBuffer::new(offsets.into()))
}

fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::limit("more values than this machine can address"))
}

fn binary(offsets: OffsetBuffer<i32>, bytes: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let made = BinaryArray::try_new(offsets, bytes, nulls);
    Ok(Arc::new(made.map_err(|error| Error::unsupported(error.to_string()))?))
}

fn numbers(dtype: Dtype, bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(bytes, 0, len), nulls))
    }
    Ok(match dtype {
        Dtype::I8 => of::<arrow::Int8Type>(bytes, len, nulls),
        Dtype::I16 => of::<arrow::Int16Type>(bytes, len, nulls),
        Dtype::I32 => of::<arrow::Int32Type>(bytes, len, nulls),
        Dtype::I64 => of::<arrow::Int64Type>(bytes, len, nulls),
        Dtype::U8 => of::<arrow::UInt8Type>(bytes, len, nulls),
        Dtype::U16 => of::<arrow::UInt16Type>(bytes, len, nulls),
        Dtype::U32 => of::<arrow::UInt32Type>(bytes, len, nulls),
        Dtype::U64 => of::<arrow::UInt64Type>(bytes, len, nulls),
        Dtype::F16 => of::<arrow::Float16Type>(bytes, len, nulls),
        Dtype::F32 => of::<arrow::Float32Type>(bytes, len, nulls),
        Dtype::F64 => of::<arrow::Float64Type>(bytes, len, nulls),
        _ => return Err(Error::plugin("the dtype has no Arrow type").found(format!("{dtype:?}"))),
    })
}
