//! Spools a column in parts, each in a separate spool. The parts are the values, the row splits of
//! each list level, and the validity of each level with missing entries. The tensors that the
//! column becomes are known only after the last row.

use super::column_path::{ColumnPath, Hop};
use super::spool::{Spool, SpooledTensor, Spools};
use crate::cast::cast;
use crate::encoding;
use crate::lists::lists_or_maps;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tensorferry_sdk::{Dtype, Error, Result, arrow_array, arrow_schema};

/// A column to which rows are added.
pub(super) struct ColumnSpooler<'a> {
    spools: &'a Spools<'a>,
    path: &'a ColumnPath,
    levels: Vec<ListLevel<'a>>,
    values: Spool<'a>,
    /// Marks which of the values are present.
    valid: Validity<'a>,
}

/// The lists at one level of nesting.
struct ListLevel<'a> {
    /// The length of the lists, if the schema fixes the length.
    fixed: Option<u64>,
    /// The row splits of the lists, if the schema does not fix the length.
    splits: Option<Spool<'a>>,
    end: u64,
    /// The length of the first list. The field `differ` is set if a later list has a different
    /// length.
    same: Option<u64>,
    differ: bool,
    valid: Validity<'a>,
}

/// The number of elements, and a spool that marks which elements are present. The spool is created
/// when the first missing element is added.
#[derive(Default)]
struct Validity<'a> {
    places: u64,
    spool: Option<Spool<'a>>,
}

impl<'a> Validity<'a> {
    fn push(&mut self, nulls: Option<&NullBuffer>, len: usize, spools: &'a Spools<'_>) -> Result<()> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if nulls.is_some() && self.spool.is_none() {
            let mut spool = spools.open();
            spool.fill(&[1], self.places)?;
            self.spool = Some(spool);
        }
        if let Some(spool) = &mut self.spool {
            match nulls {
                Some(nulls) => nulls.iter().try_for_each(|is_valid| spool.push(&[u8::from(is_valid)]))?,
                None => spool.fill(&[1], len as u64)?,
            }
        }
        self.places += len as u64;
        Ok(())
    }

    fn has_nulls(&self) -> bool {
        self.spool.is_some()
    }
}

impl ListLevel<'_> {
    fn push(&mut self, len: u64, times: u64) -> Result<()> {
        let Some(splits) = &mut self.splits else { return Ok(()) };
        for _ in 0..times {
            self.differ |= *self.same.get_or_insert(len) != len;
            self.end += len;
            splits.push(&self.end.to_le_bytes())?;
        }
        Ok(())
    }

    /// Returns the length of the lists if the lists can become a dimension of a tensor. Lists of
    /// length 0 cannot become a dimension, because a tensor without elements does not preserve the
    /// nesting of the lists.
    fn dimension(&self) -> Option<u64> {
        self.fixed.or(self.same.filter(|_| !self.differ)).filter(|&len| len > 0)
    }
}

impl<'a> ColumnSpooler<'a> {
    /// Returns the maximum number of spools that a column needs.
    pub(super) fn spools_of(path: &ColumnPath) -> usize {
        2 * path.levels.len() + 2
    }

    /// Creates a column without rows.
    pub(super) fn new(path: &'a ColumnPath, spools: &'a Spools<'a>) -> Result<Self> {
        let level = |&fixed: &Option<u64>| {
            let splits = match fixed {
                Some(_) => None,
                None => {
                    let mut splits = spools.open();
                    splits.push(&0_u64.to_le_bytes())?;
                    Some(splits)
                }
            };
            Ok(ListLevel { fixed, splits, end: 0, same: None, differ: false, valid: Validity::default() })
        };
        let levels = path.levels.iter().map(level).collect::<Result<_>>()?;
        Ok(Self { spools, path, levels, values: spools.open(), valid: Validity::default() })
    }

    pub(super) fn push(&mut self, rows: &ArrayRef) -> Result<()> {
        self.descend(0, 0, rows, None)
    }

    /// Follows the path from step `hop` to its end, and adds the values there. `above` marks values
    /// that are missing because the struct that contains them is missing.
    fn descend(
        &mut self,
        hop: usize,
        level: usize,
        array: &ArrayRef,
        above: Option<&NullBuffer>,
    ) -> Result<()> {
        let path = self.path;
        let nulls = NullBuffer::union(above, array.logical_nulls().as_ref());
        let nulls = nulls.as_ref();
        match path.hops.get(hop) {
            None => self.push_values(array, nulls),
            Some(Hop::Cast(to)) => {
                let cast = cast(array, to, false).map_err(|error| unsupported(&error))?;
                self.descend(hop + 1, level, &cast, above)
            }
            Some(Hop::Field(place)) => {
                let fields = array.as_struct_opt().ok_or_else(|| unexpected(array))?;
                self.descend(hop + 1, level, fields.column(*place), nulls)
            }
            Some(Hop::Fixed(len)) => {
                let lists = array.as_fixed_size_list_opt().ok_or_else(|| unexpected(array))?;
                self.levels[level].valid.push(nulls, array.len(), self.spools)?;
                let size = usize::try_from(*len).unwrap_or(usize::MAX);
                self.each_run(nulls, array.len(), |column, begin, end, is_valid| {
                    if !is_valid {
                        return column.push_zeros(level + 1, (end - begin) as u64 * *len);
                    }
                    let values = lists.values().slice(begin * size, (end - begin) * size);
                    column.descend(hop + 1, level + 1, &values, None)
                })
            }
            Some(Hop::List) => {
                let (offsets, values) = lists_or_maps(array).ok_or_else(|| unexpected(array))?;
                self.push_lists(level, &offsets, nulls)?;
                self.each_run(nulls, array.len(), |column, begin, end, is_valid| {
                    let (begin, end) = (offsets[begin], offsets[end]);
                    if !is_valid || begin == end {
                        return Ok(());
                    }
                    column.descend(hop + 1, level + 1, &values.slice(begin, end - begin), None)
                })
            }
            Some(Hop::Bytes) => {
                let texts = texts(array)?;
                let texts = texts.as_binary::<i64>();
                self.levels[level].valid.push(nulls, array.len(), self.spools)?;
                for row in 0..array.len() {
                    let bytes = if is_null(nulls, row) { &[] } else { texts.value(row) };
                    self.levels[level].push(bytes.len() as u64, 1)?;
                    self.values.push(bytes)?;
                    self.valid.places += bytes.len() as u64;
                }
                // Even if all strings have the same length, their bytes do not become a dimension
                // of a tensor.
                self.levels[level].differ = true;
                Ok(())
            }
            Some(Hop::FixedBytes(len)) => {
                let texts = array.as_fixed_size_binary_opt().ok_or_else(|| unexpected(array))?;
                self.levels[level].valid.push(nulls, array.len(), self.spools)?;
                for row in 0..array.len() {
                    if is_null(nulls, row) {
                        self.values.fill(&[0], *len)?;
                    } else {
                        self.values.push(texts.value(row))?;
                    }
                    self.valid.places += *len;
                }
                Ok(())
            }
        }
    }

    /// Calls `each` for every run of consecutive rows that are all present or all missing, in
    /// order.
    fn each_run(
        &mut self,
        nulls: Option<&NullBuffer>,
        rows: usize,
        mut each: impl FnMut(&mut Self, usize, usize, bool) -> Result<()>,
    ) -> Result<()> {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return each(self, 0, rows, true);
        };
        let mut done = 0;
        for (begin, end) in nulls.valid_slices() {
            if done < begin {
                each(self, done, begin, false)?;
            }
            each(self, begin, end, true)?;
            done = end;
        }
        if done < rows { each(self, done, rows, false) } else { Ok(()) }
    }

    /// Adds the lengths of lists. A missing list has length 0.
    fn push_lists(&mut self, level: usize, offsets: &[usize], nulls: Option<&NullBuffer>) -> Result<()> {
        let rows = offsets.len() - 1;
        self.levels[level].valid.push(nulls, rows, self.spools)?;
        for row in 0..rows {
            let len = if is_null(nulls, row) { 0 } else { offsets[row + 1] - offsets[row] };
            self.levels[level].push(len as u64, 1)?;
        }
        Ok(())
    }

    /// For missing lists of a fixed length, adds zeros in place of the values.
    fn push_zeros(&mut self, level: usize, times: u64) -> Result<()> {
        let Some(lists) = self.levels.get_mut(level) else {
            self.valid.push(None, usize::try_from(times).unwrap_or(usize::MAX), self.spools)?;
            // A missing string is stored as an empty string, which consists of only its length
            // prefix.
            let width = self.path.dtype.info().and_then(|info| info.element_bytes()).unwrap_or(8);
            return self.values.fill(&[0; 16][..width as usize], times);
        };
        lists.valid.push(None, usize::try_from(times).unwrap_or(usize::MAX), self.spools)?;
        lists.push(0, times)?;
        match lists.fixed {
            Some(len) => self.push_zeros(level + 1, times * len),
            None => Ok(()),
        }
    }

    /// Adds values. A missing value is written as 0 or as an empty string.
    fn push_values(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<()> {
        self.valid.push(nulls, array.len(), self.spools)?;
        if *array.data_type() == DataType::Null {
            return self.values.fill(&[0], array.len() as u64);
        }
        if self.path.dtype == Dtype::BOOL {
            let values = array.as_boolean_opt().ok_or_else(|| unexpected(array))?.values();
            return (0..array.len()).try_for_each(|row| {
                self.values.push(&[u8::from(values.value(row) && !is_null(nulls, row))])
            });
        }
        if encoding::is_text(array.data_type()) {
            let texts = texts(array)?;
            let texts = texts.as_binary::<i64>();
            return (0..array.len()).try_for_each(|row| {
                let bytes = if is_null(nulls, row) { &[] } else { texts.value(row) };
                self.values.push(&(bytes.len() as u64).to_le_bytes())?;
                self.values.push(bytes)
            });
        }
        let width = self.path.dtype.info().and_then(|info| info.element_bytes()).unwrap_or(1) as usize;
        let data = array.to_data();
        let buffer = data.buffers().first().ok_or_else(|| unexpected(array))?;
        let from = data.offset() * width;
        let bytes = buffer.get(from..from + array.len() * width).ok_or_else(|| unexpected(array))?;
        self.each_run(nulls, array.len(), |column, begin, end, is_valid| {
            if is_valid {
                column.values.push(&bytes[begin * width..end * width])
            } else {
                column.values.fill(&[0; 16][..width], (end - begin) as u64)
            }
        })
    }

    /// Returns the tensors that the column becomes.
    pub(super) fn finish(self) -> Result<Vec<SpooledTensor>> {
        let Self { spools, path, levels, values, valid } = self;
        let mut dimensions = Vec::new();
        if !valid.has_nulls() {
            for level in levels.iter().rev() {
                let Some(dimension) = level.dimension() else { break };
                dimensions.push(dimension);
                if level.valid.has_nulls() {
                    break;
                }
            }
            dimensions.reverse();
        }
        let ragged = levels.len() - dimensions.len();
        let mut tensors = Vec::new();
        let mut name = path.name.clone();
        // The validity mask that belongs to the tensor that is named next.
        let mut missing = Some(valid);
        for (place, mut level) in levels.into_iter().enumerate() {
            if place > ragged {
                continue;
            }
            let valid = std::mem::take(&mut level.valid);
            if place == ragged {
                missing = Some(valid);
                continue;
            }
            let splits = match level.splits {
                Some(splits) => splits,
                None => {
                    let mut splits = spools.open();
                    let len = level.fixed.unwrap_or(0);
                    (0..=valid.places).try_for_each(|list| splits.push(&(list * len).to_le_bytes()))?;
                    splits
                }
            };
            let shape = vec![valid.places + 1];
            tensors.push(tensor(format!("{name}.row_splits"), Dtype::I64, shape, splits)?);
            tensors.extend(valid.finish(&name)?);
            name += ".values";
        }
        let valid = missing.take().unwrap_or_default();
        let mut shape = vec![valid.places];
        shape.extend(dimensions);
        tensors.push(tensor(name.clone(), path.dtype, shape, values)?);
        tensors.extend(valid.finish(&name)?);
        Ok(tensors)
    }
}

impl Validity<'_> {
    fn finish(self, name: &str) -> Result<Option<SpooledTensor>> {
        let Some(spool) = self.spool else { return Ok(None) };
        tensor(format!("{name}.valid"), Dtype::BOOL, vec![self.places], spool).map(Some)
    }
}

fn tensor(name: String, dtype: Dtype, shape: Vec<u64>, spool: Spool<'_>) -> Result<SpooledTensor> {
    Ok(SpooledTensor { name, dtype, shape, bytes: spool.finish()? })
}

/// Returns strings as bytes.
fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    cast(array, &DataType::LargeBinary, false).map_err(|error| unsupported(&error))
}

fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

fn unsupported(error: &arrow_schema::ArrowError) -> Error {
    Error::unsupported(format!("no tensor can represent these values: {error}"))
}

fn unexpected(array: &ArrayRef) -> Error {
    Error::plugin("a batch does not match its schema").found(array.data_type())
}

#[cfg(test)]
mod tests;
