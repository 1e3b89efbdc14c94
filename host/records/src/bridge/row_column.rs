//! A column that is created from tensors: its type, and the tensors that contain its values.

use super::column_metadata::ColumnMetadata;
use super::column_names::ColumnTensors;
use super::row_values::{Cursor, RowValues, ValueLayout, offsets};
use super::tensor_windows::TensorWindows;
use super::value_types;
use crate::encoding::is_text;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use std::collections::BTreeSet;
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, Tensor, arrow_array, arrow_schema};
use tensorferry_tensors::cast::is_castable;

pub(super) struct RowColumn {
    /// The column's name, type and metadata hints.
    pub(super) field: Field,
    /// The lists that contain the values, outermost first.
    pub(super) lists: Vec<RowList>,
    /// The values in the innermost lists.
    pub(super) values: RowValues,
}

/// The lists at one level of nesting.
pub(super) enum RowList {
    /// Lists whose lengths vary, so that they need row splits.
    Ragged {
        /// The tensor with the row splits.
        splits: usize,
        /// Total number of elements in all lists. The elements are values or inner lists.
        inner: u64,
        /// The tensor that marks which lists are present.
        valid: Option<usize>,
    },
    /// Lists of equal length, which correspond to a dimension of the tensor.
    Dimension {
        len: u64,
        /// Whether the Arrow type fixes the length.
        is_fixed: bool,
        /// The tensor that marks which lists are present.
        valid: Option<usize>,
    },
}

impl RowColumn {
    /// Creates a column from tensors. `kept` describes the record column from which the tensors
    /// were created.
    pub(super) fn new(
        found: &ColumnTensors,
        tensors: &[Tensor],
        kept: Option<&ColumnMetadata>,
        is_utf8: bool,
    ) -> Result<Self> {
        let tensor = &tensors[found.values];
        let inner = |place: usize| match found.lists.get(place + 1) {
            Some(&(splits, _)) => tensors[splits].shape[0] - 1,
            None => tensor.shape.first().copied().unwrap_or(0),
        };
        let ragged = |(place, &(splits, valid)): (usize, &(usize, Option<usize>))| RowList::Ragged {
            splits,
            inner: inner(place),
            valid,
        };
        let mut lists: Vec<RowList> = found.lists.iter().enumerate().map(ragged).collect();
        for (place, &len) in tensor.shape.iter().skip(1).enumerate() {
            let valid = found.valid.filter(|_| place == 0);
            lists.push(RowList::Dimension { len, is_fixed: len > 0, valid });
        }
        let valid = found.valid.filter(|_| tensor.shape.len() < 2);
        let leaf = value_types::data_type(tensor.dtype).ok_or_else(|| {
            let name = tensor.dtype.info().map_or("this dtype", |info| info.name());
            let hint = match is_castable(tensor.dtype) {
                true => "add --step cast:f32 before records:row, or use --step records:tensor",
                false => "use --step records:tensor",
            };
            Error::unsupported(format!("record columns cannot contain {name} values"))
                .tensor(&tensor.name)
                .hint(hint)
        })?;
        let known = kept.and_then(|kept| Some((kept, kept.leaf()?)));
        let mut values = RowValues::of(found.values, tensor.dtype, leaf.clone(), valid);
        match known {
            // Each innermost list contains the bytes of a string.
            Some((kept, text)) if tensor.dtype == Dtype::U8 && lists.len() == kept.shape.len() + 1 => {
                let joined = match (lists.last(), &text) {
                    (Some(&RowList::Ragged { splits, inner, valid: texts }), _)
                        if is_text(&text) && valid.is_none() =>
                    {
                        Some((ValueLayout::Bytes(splits, inner), text, texts))
                    }
                    (
                        Some(&RowList::Dimension { len, valid: texts, .. }),
                        DataType::FixedSizeBinary(width),
                    ) if u64::try_from(*width) == Ok(len) => {
                        Some((ValueLayout::FixedBytes(*width), text, texts))
                    }
                    _ => None,
                };
                if let Some((layout, data_type, valid)) = joined {
                    values = RowValues { tensor: found.values, layout, data_type, valid };
                    lists.pop();
                }
            }
            Some((_, data_type)) if value_types::dtype(&data_type) == Some(tensor.dtype) => {
                values = RowValues::of(found.values, tensor.dtype, data_type, valid);
            }
            _ if is_utf8 => values = RowValues::of(found.values, tensor.dtype, DataType::Utf8, valid),
            _ => {}
        }
        if let Some(kept) = kept.filter(|kept| kept.shape.len() == lists.len()) {
            for (list, fixed) in lists.iter_mut().zip(&kept.shape) {
                if let RowList::Dimension { len, is_fixed, .. } = list {
                    *is_fixed = *fixed == Some(*len);
                }
            }
        }
        let mut data_type = values.data_type.clone();
        for list in lists.iter().rev() {
            data_type = list.data_type(data_type).map_err(|error| error.tensor(&tensor.name))?;
        }
        let may_miss = match lists.first() {
            Some(RowList::Ragged { valid, .. } | RowList::Dimension { valid, .. }) => valid.is_some(),
            None => values.valid.is_some(),
        };
        let nullable = may_miss || kept.is_some_and(|kept| kept.nullable);
        let metadata = kept.map(|kept| kept.metadata.clone()).unwrap_or_default();
        Ok(Self {
            field: Field::new(&found.name, data_type, nullable).with_metadata(metadata),
            lists,
            values,
        })
    }

    /// Returns every tensor that the column reads.
    pub(super) fn tensors(&self) -> BTreeSet<usize> {
        let of_lists = self.lists.iter().flat_map(|list| match list {
            RowList::Ragged { splits, valid, .. } => [Some(*splits), *valid],
            RowList::Dimension { valid, .. } => [None, *valid],
        });
        of_lists.flatten().chain(self.values.tensors()).collect()
    }

    /// Returns the tensors that contain the end positions of lists or strings, each with the total
    /// number of values or bytes.
    pub(super) fn splits(&self) -> impl Iterator<Item = (usize, u64)> {
        let of_lists = self.lists.iter().filter_map(|list| match list {
            RowList::Ragged { splits, inner, .. } => Some((*splits, *inner)),
            RowList::Dimension { .. } => None,
        });
        of_lists.chain(self.values.splits())
    }

    /// Estimates the total size in bytes of the column's values in the rows before `row`.
    pub(super) fn bytes_before(&self, row: u64, windows: &TensorWindows<'_>) -> Result<u64> {
        let mut at = row;
        for list in &self.lists {
            at = match list {
                RowList::Ragged { splits, inner, .. } => windows.split(*splits, at, *inner)?,
                RowList::Dimension { len, .. } => at.saturating_mul(*len),
            };
        }
        self.values.bytes_before(at, windows)
    }

    /// Reads the lists from `begin` to `end` at level `depth`, and all lists and values in them.
    pub(super) fn read(
        &self,
        depth: usize,
        begin: u64,
        end: u64,
        cursor: &mut Cursor,
        windows: &TensorWindows<'_>,
    ) -> Result<ArrayRef> {
        let Some(list) = self.lists.get(depth) else {
            return self.values.read(begin, end, cursor, windows);
        };
        let nulls = |valid: &Option<usize>| valid.map(|valid| windows.nulls(valid, begin, end)).transpose();
        let item = |inner: &ArrayRef| Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let wrong = |error: arrow_schema::ArrowError| Error::unsupported(error.to_string());
        Ok(match list {
            RowList::Ragged { splits, inner, valid } => {
                let ends = windows.splits(*splits, begin, end, *inner)?;
                let (first, last) = (ends[0], ends[ends.len() - 1]);
                let values = self.read(depth + 1, first, last, cursor, windows)?;
                let made =
                    ListArray::try_new(item(&values), offsets(&ends)?, values, nulls(valid)?.flatten());
                Arc::new(made.map_err(wrong)?)
            }
            RowList::Dimension { len, is_fixed, valid } => {
                let values = self.read(depth + 1, begin * len, end * len, cursor, windows)?;
                let count = usize::try_from(end - begin).unwrap_or(usize::MAX);
                let nulls = nulls(valid)?.flatten();
                if *is_fixed {
                    let size = i32::try_from(*len).unwrap_or(i32::MAX);
                    Arc::new(FixedSizeListArray::try_new(item(&values), size, values, nulls).map_err(wrong)?)
                } else {
                    let len = usize::try_from(*len).unwrap_or(usize::MAX);
                    let offsets = OffsetBuffer::try_from_repeated_length(len, count)
                        .map_err(|_| Error::limit("the lists in a batch contain more than 2^31 values"))?;
                    Arc::new(ListArray::try_new(item(&values), offsets, values, nulls).map_err(wrong)?)
                }
            }
        })
    }
}

impl RowList {
    /// Returns the list type with this item type.
    fn data_type(&self, item: DataType) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(item, true));
        Ok(match self {
            Self::Dimension { len, is_fixed: true, .. } => {
                let len = i32::try_from(*len).map_err(|_| {
                    Error::unsupported("a dimension is too long for a list")
                        .hint("use --step records:tensor")
                        .found(len)
                })?;
                DataType::FixedSizeList(item, len)
            }
            _ => DataType::List(item),
        })
    }
}
