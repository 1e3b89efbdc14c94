//! Finds the tensors of a column by their names: `x.values` and `x.row_splits` describe lists, and
//! `x.valid` marks the values of `x` that are present. If the name of a tensor matches but its
//! dtype or shape does not, the tensor is a separate column.

use std::collections::{BTreeMap, BTreeSet};
use tensorferry_sdk::{Dtype, Error, Result, Tensor};

/// The tensors of a column, as indices in the catalog's list of tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnTensors {
    pub(super) name: String,
    /// For each level of lists, outermost first: the tensor with the row splits, and the tensor
    /// that marks which lists are present.
    pub(super) lists: Vec<(usize, Option<usize>)>,
    pub(super) values: usize,
    /// The tensor that marks which values are present.
    pub(super) valid: Option<usize>,
    /// Number of rows; `None` if the tensor is a scalar, which has no leading dimension.
    pub(super) rows: Option<u64>,
}

/// Groups tensors into columns, in the order of each column's first tensor.
pub(super) fn columns(tensors: &[Tensor]) -> Result<Vec<ColumnTensors>> {
    let named = TensorsByName {
        places: tensors.iter().enumerate().map(|(place, tensor)| (tensor.name.as_str(), place)).collect(),
        tensors,
    };
    let mut taken = BTreeSet::new();
    let mut found = BTreeMap::new();
    for (place, tensor) in tensors.iter().enumerate() {
        let Some(base) = tensor.name.strip_suffix(SPLITS).filter(|_| named.splits(place)) else { continue };
        let is_inner = base.strip_suffix(VALUES).is_some_and(|outer| named.ragged(outer).is_some());
        if let Some(column) = named.ragged(base).filter(|_| !is_inner) {
            let parts = column.lists.iter().flat_map(|&(splits, valid)| [Some(splits), valid]);
            let parts: BTreeSet<usize> = parts.chain([Some(column.values), column.valid]).flatten().collect();
            found.insert(parts.first().copied().unwrap_or(place), column);
            taken.extend(parts);
        }
    }
    // A tensor that marks the present values of another tensor is not a column, even if the marking
    // tensor precedes the other tensor.
    let dense = |place: &usize| !taken.contains(place);
    let masks: BTreeSet<usize> = (0..tensors.len())
        .filter(dense)
        .filter_map(|place| {
            let valid = named.valid(&tensors[place].name, *tensors[place].shape.first()?)?;
            dense(&valid).then_some(valid)
        })
        .collect();
    for place in (0..tensors.len()).filter(dense).filter(|place| !masks.contains(place)) {
        let Tensor { name, shape, .. } = &tensors[place];
        let rows = shape.first().copied();
        let valid = rows.and_then(|rows| named.valid(name, rows)).filter(|valid| masks.contains(valid));
        found.insert(
            place,
            ColumnTensors { name: name.clone(), lists: Vec::new(), values: place, valid, rows },
        );
    }
    let columns: Vec<ColumnTensors> = found.into_values().collect();
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<String> = columns
        .iter()
        .filter(|column| !seen.insert(&column.name))
        .map(|column| format!("{:?}", column.name))
        .collect();
    if twice.is_empty() {
        return Ok(columns);
    }
    Err(Error::usage("two columns that are created from tensors have the same name")
        .hint("rename one of the tensors with --step rename")
        .found(twice.into_iter().collect::<Vec<_>>().join(", ")))
}

const SPLITS: &str = ".row_splits";
const VALUES: &str = ".values";
const VALID: &str = ".valid";

struct TensorsByName<'a> {
    tensors: &'a [Tensor],
    places: BTreeMap<&'a str, usize>,
}

impl TensorsByName<'_> {
    /// Returns whether a tensor's dtype and shape are those of row splits.
    fn splits(&self, place: usize) -> bool {
        let tensor = &self.tensors[place];
        matches!(tensor.dtype, Dtype::I64 | Dtype::I32) && matches!(tensor.shape[..], [places] if places > 0)
    }

    /// Returns the tensor that marks which values of the tensor `name` are present. `rows` is the
    /// number of values.
    fn valid(&self, name: &str, rows: u64) -> Option<usize> {
        let place = *self.places.get(format!("{name}{VALID}").as_str())?;
        let tensor = &self.tensors[place];
        (tensor.dtype == Dtype::BOOL && tensor.shape == [rows]).then_some(place)
    }

    /// Returns the column with this name, if tensors with its values and row splits exist.
    fn ragged(&self, name: &str) -> Option<ColumnTensors> {
        let mut lists = Vec::new();
        let mut part = name.to_owned();
        let mut all = None;
        // This loop ends because each iteration requires an existing tensor with a longer name.
        while let Some(&splits) =
            self.places.get(format!("{part}{SPLITS}").as_str()).filter(|&&splits| self.splits(splits))
        {
            let inner = format!("{part}{VALUES}");
            let has_values = self.places.contains_key(inner.as_str())
                || self.places.contains_key(format!("{inner}{SPLITS}").as_str());
            if !has_values {
                return None;
            }
            let rows = self.tensors[splits].shape[0] - 1;
            all.get_or_insert(rows);
            lists.push((splits, self.valid(&part, rows)));
            part = inner;
        }
        let values = *self.places.get(part.as_str()).filter(|_| !lists.is_empty())?;
        let valid = self.valid(&part, *self.tensors[values].shape.first()?);
        Some(ColumnTensors { name: name.to_owned(), lists, values, valid, rows: all })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::Data;

    fn tensors(facts: &[(&str, Dtype, &[u64])]) -> Vec<Tensor> {
        let of = |&(name, dtype, shape): &(&str, Dtype, &[u64])| Tensor {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            bytes: 0,
            data: Data::Empty,
            attributes: BTreeMap::new(),
        };
        facts.iter().map(of).collect()
    }

    fn seen(facts: &[(&str, Dtype, &[u64])]) -> Vec<(String, usize, Option<u64>)> {
        let found = columns(&tensors(facts)).unwrap();
        found.into_iter().map(|column| (column.name, column.lists.len(), column.rows)).collect()
    }

    #[test]
    fn parts_of_a_column_are_found() {
        let of = |name: &str, lists, rows| (name.to_owned(), lists, rows);
        let nested: &[(&str, Dtype, &[u64])] = &[
            ("x.values.row_splits", Dtype::I64, &[6]),
            ("x.values.values", Dtype::F32, &[9, 2]),
            ("x.row_splits", Dtype::I32, &[4]),
            ("x.valid", Dtype::BOOL, &[3]),
            ("y", Dtype::F32, &[3, 2]),
            ("y.valid", Dtype::BOOL, &[3]),
        ];
        assert_eq!(seen(nested), [of("x", 2, Some(3)), of("y", 0, Some(3))]);
    }

    #[test]
    fn what_only_looks_like_a_part_is_a_column() {
        let names = |facts: &[(&str, Dtype, &[u64])]| -> Vec<String> {
            seen(facts).into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names(&[("a.row_splits", Dtype::I64, &[3])]), ["a.row_splits"]);
        assert_eq!(names(&[("a", Dtype::F32, &[3]), ("a.valid", Dtype::BOOL, &[2])]), ["a", "a.valid"]);
        assert_eq!(names(&[("a", Dtype::F32, &[3]), ("a.valid", Dtype::U8, &[3])]), ["a", "a.valid"]);
        let float: &[(&str, Dtype, &[u64])] =
            &[("a.row_splits", Dtype::F32, &[3]), ("a.values", Dtype::F32, &[3])];
        assert_eq!(names(float), ["a.row_splits", "a.values"]);
        assert_eq!(names(&[("a.valid", Dtype::BOOL, &[2])]), ["a.valid"]);
        assert_eq!(seen(&[("scalar", Dtype::F32, &[])]), [("scalar".to_owned(), 0, None)]);
        let twice: &[(&str, Dtype, &[u64])] =
            &[("a", Dtype::F32, &[2]), ("a.row_splits", Dtype::I64, &[3]), ("a.values", Dtype::F32, &[3])];
        let refused = columns(&tensors(twice)).unwrap_err().to_string();
        assert!(refused.contains("found \"a\""), "{refused}");
    }
}
