//! An ordinal is a number in a key: `_trainable_variables/0` is whichever variable came first. In a checkpoint
//! whose program has the variables in another order, the same key is another variable's. Full names tell.
//!
//! Found in checkpoints and exports of Keras 3.15, and in those of Keras 2 (`layer_with_weights-0`).

use super::path::ATTRIBUTES;

/// Under these names Keras lists the variables of a whole model, an optimizer or a layer, one after another. That of
/// `_all_variables` is made of a set: each process has its own order.
const MIXED_LISTS: [&str; 7] = [
    "_all_variables",
    "_non_trainable_variables",
    "_trainable_variables",
    "_variables",
    "non_trainable_variables",
    "trainable_variables",
    "variables",
];
/// What stands before a layer's number in keys of Keras 2.
const NUMBERED: [&str; 2] = ["layer", "layer_with_weights"];

/// Whether an object on the way to the key's value is told by a number alone.
pub(super) fn has_ordinal(key: &[u8]) -> bool {
    segments(key).is_some_and(|mut segments| segments.any(|segment| without_number(segment).is_some()))
}

/// Whether the key is a number in a list of variables of all kinds.
pub(super) fn is_in_mixed_list(key: &[u8]) -> bool {
    let Some(mut segments) = segments(key).map(Iterator::rev) else { return false };
    let is_numbered = segments.next().is_some_and(|last| without_number(last).is_some());
    is_numbered && segments.next().is_some_and(|list| MIXED_LISTS.contains(&list))
}

/// The key without its numbers: the same for all variables of a list.
pub(super) fn pattern(key: &[u8]) -> Option<String> {
    let segments = segments(key)?.map(|segment| without_number(segment).unwrap_or(segment));
    Some(segments.collect::<Vec<_>>().join("/"))
}

/// The names on the way to a key's value.
fn segments(key: &[u8]) -> Option<impl DoubleEndedIterator<Item = &str>> {
    let key = std::str::from_utf8(key).ok()?;
    Some(key.rsplit_once(ATTRIBUTES).map_or(key, |(object, _)| object).split('/'))
}

/// What stands before the number of a segment that has one; nothing does in a list.
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
