//! Where each value of a document is: the keys that lead to it.

use crate::chunked::is_chunked;
use crate::document::{Document, Item};

/// Where each value of a document is.
#[derive(Debug)]
pub struct Places(Vec<Place>);

/// Where a value is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// What holds it, and its number there.
    pub parent: Option<(u32, u32)>,
    /// Whether it is a map that stands for an array: Flax sees such maps in maps and alone, not in lists.
    pub is_chunked: bool,
    /// Whether it is a part of such a map.
    pub is_in_chunked: bool,
    is_in_list: bool,
}

impl Places {
    /// The places of a document's values.
    #[must_use]
    pub fn of(document: &Document) -> Self {
        let mut places = vec![Place::default(); document.items.len()];
        // What holds a value comes after it.
        for (id, item) in document.items.iter().enumerate().rev() {
            let parts: Vec<u32> = match item {
                Item::List(parts) => parts.clone(),
                Item::Map(entries) => {
                    let place = places[id];
                    places[id].is_chunked = !place.is_in_list && !place.is_in_chunked && is_chunked(entries);
                    entries.iter().map(|(_, part)| *part).collect()
                }
                _ => continue,
            };
            let place = places[id];
            for (number, part) in (0..).zip(parts) {
                places[part as usize] = Place {
                    parent: Some((u32::try_from(id).unwrap_or(u32::MAX), number)),
                    is_chunked: false,
                    is_in_chunked: place.is_chunked || place.is_in_chunked,
                    is_in_list: place.is_in_list || matches!(item, Item::List(_)),
                };
            }
        }
        Self(places)
    }

    /// The place of a value.
    #[must_use]
    pub fn at(&self, id: usize) -> Place {
        self.0.get(id).copied().unwrap_or_default()
    }

    /// The keys that lead to a value, each with whether it is a number in a list.
    #[must_use]
    pub fn keys(&self, document: &Document, id: usize) -> Vec<(String, bool)> {
        let mut keys = Vec::new();
        let mut at = self.at(id);
        while let Some((parent, number)) = at.parent {
            keys.push(match &document.items[parent as usize] {
                Item::Map(entries) => (entries[number as usize].0.to_string(), false),
                _ => (number.to_string(), true),
            });
            at = self.at(parent as usize);
        }
        keys.reverse();
        keys
    }

    /// The same keys as one text.
    #[must_use]
    pub fn path(&self, document: &Document, id: usize, between: &str) -> String {
        let keys: Vec<String> = self.keys(document, id).into_iter().map(|(key, _)| key).collect();
        keys.join(between)
    }
}
