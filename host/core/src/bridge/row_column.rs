//! The column that tensors become: which type it has, and where its values are read.

use super::columns;
use super::leaf;
use super::names;
use super::row_values::Values;
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, Tensor, arrow_schema};

/// A column of tensors.
pub(super) struct RowColumn {
    /// Its name, type and hints.
    pub(super) field: Field,
    /// The lists on the way to its values, outermost first.
    pub(super) lists: Vec<List>,
    /// The values in the innermost.
    pub(super) values: Values,
}

/// Lists, side by side.
pub(super) enum List {
    /// A tensor says where they end.
    Ragged {
        /// That tensor.
        splits: usize,
        /// How many values, or lists, there are in them.
        inner: u64,
        /// The one that says which are there.
        valid: Option<usize>,
    },
    /// A dimension of the values.
    Dimension {
        /// Their length.
        len: u64,
        /// Whether the type says it.
        is_fixed: bool,
        /// The tensor that says which are there.
        valid: Option<usize>,
    },
}

impl RowColumn {
    /// The column of these tensors. `kept`: what is known of the column that they were.
    ///
    /// # Errors
    /// Unsupported, for a dtype that Arrow does not have, or a dimension that is too long for its lists.
    pub(super) fn new(
        found: &names::Column,
        tensors: &[Tensor],
        kept: Option<&columns::Column>,
        is_utf8: bool,
    ) -> Result<Self> {
        let tensor = &tensors[found.values];
        let inner = |place: usize| match found.lists.get(place + 1) {
            Some(&(splits, _)) => tensors[splits].shape[0] - 1,
            None => tensor.shape.first().copied().unwrap_or(0),
        };
        let ragged = |(place, &(splits, valid)): (usize, &(usize, Option<usize>))| List::Ragged {
            splits,
            inner: inner(place),
            valid,
        };
        let mut lists: Vec<List> = found.lists.iter().enumerate().map(ragged).collect();
        for (place, &len) in tensor.shape.iter().skip(1).enumerate() {
            let valid = found.valid.filter(|_| place == 0);
            lists.push(List::Dimension { len, is_fixed: len > 0, valid });
        }
        let valid = found.valid.filter(|_| tensor.shape.len() < 2);
        let leaf = leaf::data_type(tensor.dtype).ok_or_else(|| {
            let name = tensor.dtype.info().map_or("this dtype", |info| info.name());
            Error::unsupported(format!(
                "records have no {name}: cast:f32 before records:row, or records:tensor, carries it"
            ))
            .tensor(&tensor.name)
        })?;
        let known = kept.and_then(|kept| Some((kept, kept.leaf()?)));
        let mut values = Values::of(found.values, tensor.dtype, leaf.clone(), valid);
        match known {
            // The bytes of strings.
            Some((kept, text)) if tensor.dtype == Dtype::U8 && lists.len() == kept.shape.len() + 1 => {
                let joined = match (lists.last(), &text) {
                    (Some(&List::Ragged { splits, inner, valid: texts }), _)
                        if leaf::is_text(&text) && valid.is_none() =>
                    {
                        Some(Values::bytes(found.values, (splits, inner), text, texts))
                    }
                    (Some(&List::Dimension { len, valid: texts, .. }), DataType::FixedSizeBinary(width))
                        if u64::try_from(*width) == Ok(len) =>
                    {
                        Some(Values::fixed_bytes(found.values, *width, texts))
                    }
                    _ => None,
                };
                if let Some(joined) = joined {
                    values = joined;
                    lists.pop();
                }
            }
            Some((_, data_type)) if leaf::dtype(&data_type) == Some(tensor.dtype) => {
                values = Values::of(found.values, tensor.dtype, data_type, valid);
            }
            _ if is_utf8 => values = Values::of(found.values, tensor.dtype, DataType::Utf8, valid),
            _ => {}
        }
        if let Some(kept) = kept.filter(|kept| kept.shape.len() == lists.len()) {
            for (list, fixed) in lists.iter_mut().zip(&kept.shape) {
                if let List::Dimension { len, is_fixed, .. } = list {
                    *is_fixed = *fixed == Some(*len);
                }
            }
        }
        let mut data_type = values.data_type().clone();
        for list in lists.iter().rev() {
            data_type = list.data_type(data_type).map_err(|error| error.tensor(&tensor.name))?;
        }
        let may_miss = match lists.first() {
            Some(List::Ragged { valid, .. } | List::Dimension { valid, .. }) => valid.is_some(),
            None => values.may_miss(),
        };
        let nullable = may_miss || kept.is_some_and(|kept| kept.nullable);
        let metadata = kept.map(|kept| kept.metadata.clone()).unwrap_or_default();
        Ok(Self {
            field: Field::new(&found.name, data_type, nullable).with_metadata(metadata),
            lists,
            values,
        })
    }
}

impl List {
    /// The type of lists of these.
    fn data_type(&self, item: DataType) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(item, true));
        Ok(match self {
            Self::Dimension { len, is_fixed: true, .. } => {
                let len = i32::try_from(*len).map_err(|_| {
                    Error::unsupported("a dimension is too long for a list: records:tensor carries it")
                        .found(len)
                })?;
                DataType::FixedSizeList(item, len)
            }
            _ => DataType::List(item),
        })
    }
}
