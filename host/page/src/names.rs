//! Compresses lists of names. Most names share a prefix with the previous name. For each name, a
//! page therefore stores only the length of this prefix and the rest of the name. A page may list a
//! hundred thousand tensors.

use serde_json::Value;

/// Returns two values for each name: the length of the prefix that it shares with the previous
/// name, and the rest of the name. The length is in UTF-16 code units, as in JavaScript.
pub fn shared_beginnings<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let mut values = Vec::new();
    let mut last = "";
    for name in names {
        let pairs = name.chars().zip(last.chars()).take_while(|(a, b)| a == b);
        let (mut units, mut bytes) = (0, 0);
        for (c, _) in pairs {
            units += c.len_utf16();
            bytes += c.len_utf8();
        }
        values.extend([Value::from(units), Value::from(&name[bytes..])]);
        last = name;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_what_they_were() {
        let names = ["a.b.weight", "a.b.bias", "", "\u{1f600}x", "\u{1f600}y", "\u{1f601}"];
        let expected = json!([0, "a.b.weight", 4, "bias", 0, "", 0, "\u{1f600}x", 2, "y", 0, "\u{1f601}"]);
        assert_eq!(Value::from(shared_beginnings(names)), expected);
    }
}
