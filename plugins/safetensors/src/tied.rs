//! Tied tensors are tensors with different names that share the same data. A file stores the data
//! once, under one of the names. For each of the other names, the metadata contains an entry that
//! maps the dropped name to the stored name. `save_model` in `safetensors.torch` and
//! huggingface_hub use the same convention.

use crate::FRAMEWORK_KEY;
use globset::GlobMatcher;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogView, TensorId};

/// Returns whether a metadata entry records a tie. Such an entry maps a name that is not a tensor
/// to the name of a tensor. The entry for the framework is never a tie, even if the file contains a
/// tensor named `pt`.
pub(crate) fn is_tie(key: &str, value: &str, is_tensor: impl Fn(&str) -> bool) -> bool {
    key != FRAMEWORK_KEY && is_tensor(value) && !is_tensor(key)
}

/// Removes the ties from the metadata. Returns a map from each stored name to the sorted list of
/// names that were dropped in favor of it.
pub(crate) fn restore(
    metadata: &mut BTreeMap<String, String>,
    is_tensor: impl Fn(&str) -> bool,
) -> BTreeMap<String, Vec<String>> {
    let mut ties: BTreeMap<String, Vec<String>> = BTreeMap::new();
    metadata.retain(|key, value| {
        let tie = is_tie(key, value, &is_tensor);
        if tie {
            ties.entry(value.clone()).or_default().push(key.clone());
        }
        !tie
    });
    ties
}

/// Chooses the tied tensors to drop. Returns a map from each dropped tensor to the tensor that is
/// stored instead. In each group of tied tensors, the first tensor by name is stored. Names that
/// match `prefer` precede all others. If a tensor's name is already a metadata key, the tie cannot
/// be recorded, so that tensor is not dropped.
pub(crate) fn dedupe(
    catalog: &dyn CatalogView,
    tensors: &[TensorId],
    prefer: Option<&GlobMatcher>,
    metadata: &BTreeMap<String, String>,
) -> BTreeMap<TensorId, TensorId> {
    let mut groups: BTreeMap<TensorId, Vec<TensorId>> = BTreeMap::new();
    for &tensor in tensors {
        groups.entry(catalog.tied_to(tensor)).or_default().push(tensor);
    }
    let name = |tensor: TensorId| catalog.tensor(tensor).name;
    let mut dropped = BTreeMap::new();
    for mut group in groups.into_values().filter(|group| group.len() > 1) {
        group.sort_by_key(|&tensor| (!prefer.is_some_and(|glob| glob.is_match(name(tensor))), name(tensor)));
        let recordable =
            |tensor: &TensorId| name(*tensor) != FRAMEWORK_KEY && !metadata.contains_key(name(*tensor));
        let kept = group[0];
        dropped.extend(group.into_iter().skip(1).filter(recordable).map(|tensor| (tensor, kept)));
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_maps_no_tensor_to_one() {
        let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let mut metadata =
            text(&[("b", "a"), ("c", "a"), ("a", "pt"), ("d", "e"), ("format", "pt"), ("f", "b")]);
        let ties = restore(&mut metadata, |name| name == "a" || name == "pt");
        assert_eq!(ties, BTreeMap::from([("a".to_owned(), vec!["b".to_owned(), "c".to_owned()])]));
        assert_eq!(metadata, text(&[("a", "pt"), ("d", "e"), ("format", "pt"), ("f", "b")]));
    }
}
