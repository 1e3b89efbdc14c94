//! Infers types from the text of numbers. `serde_json` returns integers of more than 64 bits as
//! floats, so only the text shows whether a number is an integer.

use super::numbers::Numbers;
use super::value_type::ValueType;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Adds the numbers of a line to a type that already includes all other values of the line.
pub(super) fn take(kind: &mut ValueType, text: &RawValue) -> serde_json::Result<()> {
    match (text.get().as_bytes().first(), kind) {
        (Some(b'{'), ValueType::Object(objects)) => {
            let entries: Entries<'_> = serde_json::from_str(text.get())?;
            for (key, value) in entries.0 {
                if let Some(found) = objects.keys.get_mut(&key) {
                    take(&mut found.kind, value)?;
                }
            }
        }
        (Some(b'['), ValueType::List(item)) => {
            for value in serde_json::from_str::<Vec<&RawValue>>(text.get())? {
                take(item, value)?;
            }
        }
        (Some(b'-' | b'0'..=b'9'), ValueType::Number(numbers)) => {
            *numbers = numbers.and(Numbers::of_text(text.get()));
        }
        _ => {}
    }
    Ok(())
}

/// The keys of an object, and the JSON text of each key's value.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}
