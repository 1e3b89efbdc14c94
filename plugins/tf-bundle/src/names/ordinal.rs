//! An ordinal is a number in a key. For example, `_trainable_variables/0` is the variable that was
//! created first. If a program creates its variables in a different order, the same key belongs to
//! a different variable. Full names reveal this difference.
//!
//! The rules are based on checkpoints and exports written by Keras 3.15 and Keras 2
//! (`layer_with_weights-0`).

use super::path::ATTRIBUTES;

/// Names of the lists in which Keras stores all variables of a model, an optimizer or a layer.
/// Keras builds `_all_variables` from a set, so its order differs between processes.
const MIXED_LISTS: [&str; 7] = [
    "_all_variables",
    "_non_trainable_variables",
    "_trainable_variables",
    "_variables",
    "non_trainable_variables",
    "trainable_variables",
    "variables",
];
/// The text before the layer numbers in Keras 2 keys.
const NUMBERED: [&str; 2] = ["layer", "layer_with_weights"];

/// Returns whether an object on the path of the key is identified only by a number.
pub(super) fn has_ordinal(key: &[u8]) -> bool {
    segments(key).is_some_and(|mut segments| segments.any(|segment| without_number(segment).is_some()))
}

/// Returns whether the key is a position in one of the `MIXED_LISTS`.
pub(super) fn is_in_mixed_list(key: &[u8]) -> bool {
    let Some(mut segments) = segments(key).map(Iterator::rev) else { return false };
    let is_numbered = segments.next().is_some_and(|last| without_number(last).is_some());
    is_numbered && segments.next().is_some_and(|list| MIXED_LISTS.contains(&list))
}

/// Returns the key without its numbers. The result is the same for all variables of a list.
pub(super) fn pattern(key: &[u8]) -> Option<String> {
    let segments = segments(key)?.map(|segment| without_number(segment).unwrap_or(segment));
    Some(segments.collect::<Vec<_>>().join("/"))
}

/// Returns the names on the path of a key.
fn segments(key: &[u8]) -> Option<impl DoubleEndedIterator<Item = &str>> {
    let key = std::str::from_utf8(key).ok()?;
    Some(key.rsplit_once(ATTRIBUTES).map_or(key, |(object, _)| object).split('/'))
}

/// Returns the part of a segment before its number. This part is empty for a list element. Returns
/// `None` if the segment has no number.
fn without_number(segment: &str) -> Option<&str> {
    let name = segment.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = || name.strip_suffix('-').is_some_and(|name| NUMBERED.contains(&name));
    (name.len() < segment.len() && (name.is_empty() || is_numbered())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_is_a_number_among_names() {
        for (key, has, is_mixed) in [
            ("optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE", true, true),
            ("variables/12", true, true),
            ("blocks/0/_kernel/.ATTRIBUTES/VARIABLE_VALUE", true, false),
            ("parts/0/.ATTRIBUTES/VARIABLE_VALUE", true, false),
            ("layer_with_weights-3/kernel/.ATTRIBUTES/VARIABLE_VALUE", true, false),
            ("dense_1/kernel/.ATTRIBUTES/VARIABLE_VALUE", false, false),
            ("conv-1/kernel", false, false),
            ("w", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (has_ordinal(key.as_bytes()), is_in_mixed_list(key.as_bytes())),
                (has, is_mixed),
                "{key}"
            );
        }
        assert!(!has_ordinal(b"\xff/0"));
        assert_eq!(pattern(b"variables/0"), pattern(b"variables/12/.ATTRIBUTES/VARIABLE_VALUE"));
        assert_ne!(pattern(b"variables/0"), pattern(b"_all_variables/0"));
    }
}
