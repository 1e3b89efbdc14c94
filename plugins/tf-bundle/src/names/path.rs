//! A path describes how to reach an object from the root. It consists of local names joined with
//! `/`.
//!
//! ```text
//! model/dct/k..e.Sy                           .model .dct ["k.e/y"]: `..` escapes `.`, `.S` escapes `/`
//! model/b/.OPTIMIZER_SLOT/optimizer/m         the slot "m" of `optimizer` for `model/b`
//! model/b/.ATTRIBUTES/VARIABLE_VALUE          the key of a value of `model/b`
//! /.ATTRIBUTES/x                              the key of a value of the root
//! ```
//! Source: `tensorflow/python/trackable/trackable_utils.py`.

/// The part of a key between the path of the object and the name of the value.
pub(crate) const ATTRIBUTES: &str = "/.ATTRIBUTES/";
/// The part of a path between a variable and the optimizer that owns the slot.
pub(crate) const OPTIMIZER_SLOT: &str = "/.OPTIMIZER_SLOT/";
/// The name of the entry that contains a variable's value.
pub(crate) const VARIABLE_VALUE: &str = "VARIABLE_VALUE";

/// Appends a local name to a path.
pub(crate) fn push_name(path: &mut String, name: &str) {
    for c in name.chars() {
        match c {
            '.' => path.push_str(".."),
            '/' => path.push_str(".S"),
            _ => path.push(c),
        }
    }
}

/// Returns the local name in a segment of a path, or `None` if the segment is invalid.
pub(crate) fn name_of(segment: &str) -> Option<String> {
    let mut name = String::with_capacity(segment.len());
    let mut chars = segment.chars();
    while let Some(c) = chars.next() {
        name.push(match c {
            '.' => match chars.next()? {
                '.' => '.',
                'S' => '/',
                _ => return None,
            },
            _ => c,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_tensorflow_does() {
        for (name, segment) in [("k.e/y", "k..e.Sy"), ("kernel", "kernel"), ("", ""), (".S", "..S")] {
            let mut path = String::new();
            push_name(&mut path, name);
            assert_eq!(path, segment);
            assert_eq!(name_of(segment).as_deref(), Some(name));
        }
        for segment in [".ATTRIBUTES", ".OPTIMIZER_SLOT", "a.", "a.b"] {
            assert_eq!(name_of(segment), None);
        }
    }
}
