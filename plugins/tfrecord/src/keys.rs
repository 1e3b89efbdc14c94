//! Assigns a number to each feature name. Programs usually write the features of each record in the
//! same order. ferry therefore first compares a name with the name at the same position in the
//! previous record. If the two names differ, ferry looks up the name.

use crate::message::Part;
use std::collections::HashMap;

/// The names of features. The number of a feature is the index of its name in the list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    names: Vec<(Part, Box<[u8]>)>,
    numbers: [HashMap<Box<[u8]>, usize>; 2],
    /// The numbers of the features in the previous record, in the order of that record.
    order: Vec<usize>,
    /// Number of features found so far in the current record.
    place: usize,
}

impl Keys {
    /// Prepares the list for the features of the next record.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.place = 0;
    }

    #[inline]
    pub(crate) fn find(&mut self, part: Part, key: &[u8]) -> Option<usize> {
        if let Some(&number) = self.order.get(self.place)
            && let Some((known_part, known)) = self.names.get(number)
            && *known_part == part
            && is_same(known, key)
        {
            self.place += 1;
            return Some(number);
        }
        self.look_up(part, key)
    }

    fn look_up(&mut self, part: Part, key: &[u8]) -> Option<usize> {
        let number = *self.numbers[part as usize].get(key)?;
        match self.order.get_mut(self.place) {
            Some(slot) => *slot = number,
            None => self.order.push(number),
        }
        self.place += 1;
        Some(number)
    }

    /// Adds a new feature and returns its number.
    pub(crate) fn add(&mut self, part: Part, key: &[u8]) -> usize {
        let number = self.names.len();
        self.names.push((part, key.into()));
        self.numbers[part as usize].insert(key.into(), number);
        number
    }

    /// Returns all features, in the order of their numbers.
    pub(crate) fn names(&self) -> &[(Part, Box<[u8]>)] {
        &self.names
    }
}

/// Compares two names. Names of up to sixteen bytes are compared inline, because a function call
/// would be slower.
#[inline]
fn is_same(known: &[u8], key: &[u8]) -> bool {
    fn ends<const N: usize>(name: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        name.first_chunk().zip(name.last_chunk())
    }
    known.len() == key.len()
        && match key.len() {
            9..=16 => ends::<8>(known) == ends::<8>(key),
            5..=8 => ends::<4>(known) == ends::<4>(key),
            2..=4 => ends::<2>(known) == ends::<2>(key),
            _ => known == key,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_in_any_byte() {
        let name: Vec<u8> = (0..20).collect();
        for len in 0..20 {
            assert!(is_same(&name[..len], &name[..len]));
            assert!(!is_same(&name[..len], &name[..=len]));
            for place in 0..len {
                let mut other = name[..len].to_vec();
                other[place] ^= 0x80;
                assert!(!is_same(&name[..len], &other));
            }
        }
    }

    #[test]
    fn names_are_found_in_any_order() {
        let mut keys = Keys::default();
        for name in ["a", "b", "c"] {
            keys.add(Part::Features, name.as_bytes());
        }
        let list = keys.add(Part::Lists, b"a");
        for order in ["abc", "abc", "cba", "bb", "", "cab"] {
            keys.begin();
            for name in order.bytes() {
                assert_eq!(keys.find(Part::Features, b"unknown"), None);
                assert_eq!(keys.find(Part::Features, &[name]), Some(usize::from(name - b'a')));
            }
            assert_eq!(keys.find(Part::Lists, b"a"), Some(list));
        }
    }
}
