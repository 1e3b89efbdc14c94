//! Computes all elements of a sparse tensor. Each element is the sum of the values at its position,
//! added in order. An element without a value is zero.
//!
//! ```text
//! COO         indices [sparse dims, n], values [n, dense dims ...]
//! CSR, BSR    crow_indices [batch ..., rows + 1], col_indices [batch ..., n], values [batch ..., n, dense dims ...]
//! CSC, BSC    ccol_indices [batch ..., columns + 1], row_indices, values
//! ```
//! In the block layouts (BSR, BSC), rows and columns count blocks, and each value is a block with
//! the shape `[block rows, block columns, dense dims ...]`.
//!
//! Sources: `torch/sparse` and `aten/src/ATen/native/TensorConversions.cpp`
//! (`sparse_compressed_to_dense`) in PyTorch.

use super::{Addition, CHUNK, StoredView, as_usize};
use tensorferry_sdk::{ByteSink, Context, Dtype, Error, Limits, Result, Source, element_count};

/// The parts of a sparse tensor, and the shape of the dense tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dense {
    pub(crate) indices: Indices,
    pub(crate) values: StoredView,
    pub(crate) size: Vec<u64>,
}

/// The indices that define the positions of a sparse tensor's values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Indices {
    /// All coordinates of each value are stored.
    Coordinates(StoredView),
    /// One coordinate of each value is stored. The other coordinate is compressed: it is the row or
    /// column whose range of values contains the value.
    Compressed(Compressed),
}

/// Indices that are compressed by rows or by columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Compressed {
    /// The index of the first value in each row or column.
    pub(crate) starts: StoredView,
    /// The stored coordinate of each value, which is not compressed.
    pub(crate) plain: StoredView,
    /// Whether the indices are compressed by rows instead of by columns.
    pub(crate) by_rows: bool,
    /// Whether each value is a block.
    pub(crate) of_blocks: bool,
}

/// The arrangement of the values in the dense tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    /// Number of values in each batch.
    values: u64,
    batches: u64,
    rows: u64,
    columns: u64,
    /// Number of rows in a block.
    block_rows: u64,
    block_columns: u64,
    /// Number of elements in the dense dimensions. The dense dimensions follow the sparse
    /// dimensions.
    dense: u64,
}

/// Size in bytes of a position or an index in memory.
const WORD: u64 = 8;

/// A run of contiguous elements: its position in the dense tensor, and its index among the runs of
/// the values.
type Run = (u64, u64);

impl Dense {
    /// Checks that ferry can convert a sparse tensor with these dtypes to a dense tensor. The error
    /// contains the reason.
    pub(crate) fn check_dtypes(&self) -> std::result::Result<(), String> {
        let is_index = |view: &StoredView| matches!(view.dtype, Dtype::I32 | Dtype::I64);
        let are_indices = match &self.indices {
            Indices::Coordinates(indices) => is_index(indices),
            Indices::Compressed(Compressed { starts, plain, .. }) => is_index(starts) && is_index(plain),
        };
        let name = self.values.dtype.info().map_or("that dtype", |info| info.name());
        match Addition::of(self.values.dtype) {
            _ if !are_indices => Err("its indices are neither I64 nor I32".to_owned()),
            None => Err(format!("torch cannot convert {name} to a dense tensor")),
            Some(_) => Ok(()),
        }
    }

    /// Checks that the shapes of the parts match. Returns the length of the dense tensor in bytes.
    pub(crate) fn check(&self, limits: &Limits) -> Result<u64> {
        let shape = self.geometry()?;
        let bytes = element_count(&self.size)?.checked_mul(self.values.width());
        let bytes =
            bytes.ok_or_else(|| Error::malformed("the dense tensor's length does not fit in 64 bits"))?;
        let runs =
            shape.values.checked_mul(shape.batches).and_then(|count| count.checked_mul(shape.block_rows));
        let starts = match &self.indices {
            Indices::Coordinates(_) => 0,
            Indices::Compressed(compressed) => compressed.starts.bytes()?.saturating_mul(2),
        };
        let held = runs
            .and_then(|runs| runs.checked_mul(3 * WORD))
            .and_then(|held| held.checked_add(self.values.bytes().ok()?)?.checked_add(starts));
        match held {
            Some(held) if held <= limits.header_bytes => Ok(bytes),
            _ => Err(Error::limit("the sparse tensor is too large to convert to a dense tensor")
                .expected(format!("at most {} bytes of indices and values", limits.header_bytes))
                .hint("leave out -i densify to read its parts")),
        }
    }

    /// Checks the shapes of the parts against each other. Returns the arrangement of the values.
    fn geometry(&self) -> Result<Geometry> {
        match &self.indices {
            Indices::Coordinates(indices) => {
                let &[sparse, values] = &*indices.size else { return Err(self.mismatch_error()) };
                let sparse = usize::try_from(sparse).unwrap_or(usize::MAX);
                let (Some((&first, below)), Some((_, dense))) =
                    (self.values.size.split_first(), self.size.split_at_checked(sparse))
                else {
                    return Err(self.mismatch_error());
                };
                if first != values || below != dense {
                    return Err(self.mismatch_error());
                }
                let dense = element_count(dense)?;
                Ok(Geometry {
                    values,
                    batches: 1,
                    rows: 1,
                    columns: 1,
                    block_rows: 1,
                    block_columns: 1,
                    dense,
                })
            }
            Indices::Compressed(Compressed { starts, plain, by_rows, of_blocks }) => {
                let (Some((&starts, batch)), Some((&values, plain_batch))) =
                    (starts.size.split_last(), plain.size.split_last())
                else {
                    return Err(self.mismatch_error());
                };
                let (of_size, of_values) =
                    (self.size.strip_prefix(batch), self.values.size.strip_prefix(batch));
                let (Some(&[rows, columns, ref dense @ ..]), Some(&[first, ref below @ ..])) =
                    (of_size, of_values)
                else {
                    return Err(self.mismatch_error());
                };
                let (block_rows, block_columns, below) = match *below {
                    [rows, columns, ref below @ ..] if *of_blocks => (rows, columns, below),
                    _ if *of_blocks => return Err(self.mismatch_error()),
                    ref below => (1, 1, below),
                };
                let fits = plain_batch == batch
                    && first == values
                    && below == dense
                    && block_rows > 0
                    && block_columns > 0
                    && rows.is_multiple_of(block_rows)
                    && columns.is_multiple_of(block_columns);
                if !fits {
                    return Err(self.mismatch_error());
                }
                let lines = if *by_rows { rows / block_rows } else { columns / block_columns };
                if starts.checked_sub(1) != Some(lines) {
                    return Err(self.mismatch_error());
                }
                let (batches, dense) = (element_count(batch)?, element_count(dense)?);
                Ok(Geometry { values, batches, rows, columns, block_rows, block_columns, dense })
            }
        }
    }

    fn mismatch_error(&self) -> Error {
        let parts = match &self.indices {
            Indices::Coordinates(indices) => format!("indices {:?}", indices.size),
            Indices::Compressed(Compressed { starts, plain, .. }) => {
                format!("compressed indices {:?}, plain indices {:?}", starts.size, plain.size)
            }
        };
        Error::malformed("the shapes of a sparse tensor's parts do not match")
            .found(format!("{parts}, values {:?}, size {:?}", self.values.size, self.size))
    }

    pub(super) fn decode(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        self.check(context.limits())?;
        let shape = self.geometry()?;
        let total = element_count(&self.size)?;
        let firsts = match &self.indices {
            _ if total == 0 => Vec::new(),
            Indices::Coordinates(indices) => self.coordinates(indices, shape, source, context)?,
            Indices::Compressed(compressed) => compressed.positions(shape, source, context)?,
        };
        let mut runs: Vec<Run> = Vec::with_capacity(firsts.len() * as_usize(shape.block_rows)?);
        for (first, value) in firsts.into_iter().zip(0_u64..) {
            for row in 0..shape.block_rows {
                runs.push((first + row * shape.columns * shape.dense, value * shape.block_rows + row));
            }
        }
        context.check_cancelled()?;
        // Because the run index is part of the sort key, sorting does not change the order of
        // values at the same position.
        if !runs.is_sorted() {
            runs.sort_unstable();
        }
        let values = self.values.read(source, context)?;
        self.write(&runs, &values, shape.block_columns * shape.dense, total, output, context)
    }

    /// Writes all elements of the dense tensor. Runs with the same position are summed, and zeros
    /// fill the gaps between runs.
    fn write(
        &self,
        runs: &[Run],
        values: &[u8],
        run: u64,
        total: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let sum = Addition::of(self.values.dtype)
            .ok_or_else(|| Error::plugin("values of this dtype cannot be added"))?;
        let (width, mut done) = (self.values.width(), 0);
        let run_bytes = as_usize(run * width)?;
        let mut made = Vec::new();
        let mut sums = vec![0_u8; run_bytes];
        for same in runs.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(first, _)) = same.first() else { continue };
            push_zeros((first - done) * width, &mut made, output, context)?;
            sums.fill(0);
            for &(_, number) in same {
                let from = as_usize(number)? * run_bytes;
                sum.add(&mut sums, &values[from..from + run_bytes]);
            }
            made.extend_from_slice(&sums);
            done = first + run;
            flush(&mut made, output, context)?;
        }
        push_zeros((total - done) * width, &mut made, output, context)?;
        output.write(&made)
    }

    /// For each value, returns the index of the first dense tensor element that the value covers.
    fn coordinates(
        &self,
        indices: &StoredView,
        shape: Geometry,
        source: &dyn Source,
        context: &dyn Context,
    ) -> Result<Vec<u64>> {
        let mut places = vec![0_u64; as_usize(shape.values)?];
        let (mut dim, mut value) = (0, 0);
        indices.stream(source, context, &mut |bytes| {
            each_index(indices.dtype, bytes, &mut |index| {
                let len = self.size[dim];
                places[value] = places[value] * len + check_index(index, len)?;
                value += 1;
                if value == places.len() {
                    (dim, value) = (dim + 1, 0);
                }
                Ok(())
            })
        })?;
        places.iter_mut().for_each(|place| *place *= shape.dense);
        Ok(places)
    }
}

impl Compressed {
    /// For each value, returns the index of the first dense tensor element that the value covers.
    fn positions(&self, shape: Geometry, source: &dyn Source, context: &dyn Context) -> Result<Vec<u64>> {
        let (rows, columns) = (shape.rows / shape.block_rows, shape.columns / shape.block_columns);
        let (lines, others) = if self.by_rows { (rows, columns) } else { (columns, rows) };
        let mut ends = Vec::new();
        let stored = self.starts.read(source, context)?;
        each_index(self.starts.dtype, &stored, &mut |index| {
            let negative =
                |_| Error::malformed("a compressed index of a sparse tensor is negative").found(index);
            ends.push(u64::try_from(index).map_err(negative)?);
            Ok(())
        })?;
        for starts in ends.chunks_exact(as_usize(lines + 1)?) {
            let whole = starts.first() == Some(&0) && starts.last() == Some(&shape.values);
            if !whole || !starts.is_sorted() {
                let error =
                    Error::malformed("a sparse tensor's compressed indices do not partition its values");
                return Err(error.expected(format!("ascending numbers from 0 to {}", shape.values)));
            }
        }
        let mut places = Vec::with_capacity(as_usize(shape.values * shape.batches)?);
        // The batch, the row or column, and the index within the batch of the next value.
        let (mut batch, mut line, mut value) = (0_u64, 0_u64, 0_u64);
        self.plain.stream(source, context, &mut |bytes| {
            each_index(self.plain.dtype, bytes, &mut |index| {
                let other = check_index(index, others)?;
                while ends[as_usize(batch * (lines + 1) + line + 1)?] <= value {
                    line += 1;
                }
                let (row, column) = if self.by_rows { (line, other) } else { (other, line) };
                let element = (batch * shape.rows + row * shape.block_rows) * shape.columns
                    + column * shape.block_columns;
                places.push(element * shape.dense);
                value += 1;
                if value == shape.values {
                    (batch, line, value) = (batch + 1, 0, 0);
                }
                Ok(())
            })
        })?;
        Ok(places)
    }
}

fn each_index(dtype: Dtype, bytes: &[u8], take: &mut dyn FnMut(i64) -> Result<()>) -> Result<()> {
    match dtype {
        Dtype::I32 => {
            bytes.as_chunks().0.iter().try_for_each(|&bytes| take(i32::from_le_bytes(bytes).into()))
        }
        _ => bytes.as_chunks().0.iter().try_for_each(|&bytes| take(i64::from_le_bytes(bytes))),
    }
}

fn check_index(index: i64, len: u64) -> Result<u64> {
    u64::try_from(index).ok().filter(|&index| index < len).ok_or_else(|| {
        Error::malformed("an index of a sparse tensor is out of bounds")
            .expected(format!("0 to {}", len.saturating_sub(1)))
            .found(index)
    })
}

fn push_zeros(
    mut count: u64,
    made: &mut Vec<u8>,
    output: &mut dyn ByteSink,
    context: &dyn Context,
) -> Result<()> {
    while count > 0 {
        let part = count.min(CHUNK);
        made.resize(made.len() + as_usize(part)?, 0);
        count -= part;
        flush(made, output, context)?;
    }
    Ok(())
}

fn flush(made: &mut Vec<u8>, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
    if made.len() as u64 >= CHUNK {
        context.check_cancelled()?;
        output.write(made)?;
        made.clear();
    }
    Ok(())
}
