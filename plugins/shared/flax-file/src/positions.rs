//! Finds the position of each value in a document, which determines the keys on the path to the
//! value.

use crate::chunked::is_chunked;
use crate::document::{Document, Item};

/// The position of each value in its document.
#[derive(Debug)]
pub struct Positions(Vec<Position>);

/// The position of a value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position {
    /// Index of the parent, and the position of the value among the parent's children.
    pub parent: Option<(u32, u32)>,
    /// Whether the value is a map that represents an array. Flax recognizes such maps only inside
    /// maps, not inside lists.
    pub is_chunked: bool,
    /// Whether the value is inside a map that represents an array.
    pub is_in_chunked: bool,
    is_in_list: bool,
}

impl Positions {
    /// Finds the positions of all values in a document.
    #[must_use]
    pub fn of(document: &Document) -> Self {
        let mut places = vec![Position::default(); document.items.len()];
        // The loop runs in reverse, because the document lists parents after their children.
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
                places[part as usize] = Position {
                    parent: Some((u32::try_from(id).unwrap_or(u32::MAX), number)),
                    is_chunked: false,
                    is_in_chunked: place.is_chunked || place.is_in_chunked,
                    is_in_list: place.is_in_list || matches!(item, Item::List(_)),
                };
            }
        }
        Self(places)
    }

    /// Returns the position of a value.
    #[must_use]
    pub fn at(&self, id: usize) -> Position {
        self.0.get(id).copied().unwrap_or_default()
    }

    /// Returns the keys on the path from the root to a value. The flag of a key is set if the key
    /// is an index in a list.
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

    /// Returns the keys on the path from the root to a value, joined with `between`.
    #[must_use]
    pub fn path(&self, document: &Document, id: usize, between: &str) -> String {
        let keys: Vec<String> = self.keys(document, id).into_iter().map(|(key, _)| key).collect();
        keys.join(between)
    }
}
