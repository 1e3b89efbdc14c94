//! Tied tensors are several names for one tensor. A file holds it once, under the name that is
//! kept, and has a metadata entry for each other name: `{dropped: kept}`, as `save_model` of
//! `safetensors.torch` and huggingface_hub write it.

use crate::FRAMEWORK_KEY;
use globset::GlobMatcher;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogView, TensorId};

/// Whether a metadata entry is a tie: it maps a name that no tensor has to one that a tensor has.
/// The framework's key never is, so that a tensor called `pt` does no harm.
pub(crate) fn is_tie(key: &str, value: &str, is_tensor: impl Fn(&str) -> bool) -> bool {
    key != FRAMEWORK_KEY && is_tensor(value) && !is_tensor(key)
}

/// Takes the ties out of metadata: the dropped names, sorted, by the kept one.
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

/// Chooses which of these tensors are dropped, each with the one that is kept: of tied ones the
/// first by name that `prefer` matches, else the first by name. A name that is a key of the
/// metadata already cannot be recorded there, so its tensor is written.
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
