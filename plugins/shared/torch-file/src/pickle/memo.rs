//! Maps the memo numbers of a pickle to values.

use super::ValueId;
use std::collections::HashMap;

/// The memo of a pickle. A table contains the values with low numbers, and a map contains the
/// values whose numbers are far beyond the end of the table. A pickle that stores a value under the
/// number 4294967295 must not create a table of that length.
#[derive(Debug, Default)]
pub(super) struct Memo {
    near: Vec<Option<ValueId>>,
    far: HashMap<u64, ValueId>,
    len: u64,
}

impl Memo {
    /// Returns the number of entries, which is also the number that MEMOIZE uses next.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn get(&self, number: u64) -> Option<ValueId> {
        let near = usize::try_from(number).ok().and_then(|index| self.near.get(index).copied().flatten());
        // A number may be far beyond the table when a value is first stored under it, and inside
        // the table later. In this case, the entry in the table is newer than the entry in the map.
        near.or_else(|| self.far.get(&number).copied())
    }

    pub(super) fn put(&mut self, number: u64, value: ValueId) {
        let known = self.get(number).is_some();
        match usize::try_from(number) {
            Ok(index) if number <= 2 * self.len + 1024 => {
                if index >= self.near.len() {
                    self.near.resize(index + 1, None);
                }
                self.near[index] = Some(value);
            }
            _ => {
                self.far.insert(number, value);
            }
        }
        self.len += u64::from(!known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pickle::{Graph, Value};

    #[test]
    fn far_numbers_take_no_table_and_the_newest_value_wins() {
        let mut graph = Graph::default();
        let [first, second] = [1, 2].map(|n| graph.push(Value::Int(n)));
        let mut memo = Memo::default();
        memo.put(u64::MAX, first);
        memo.put(3000, first);
        assert!(memo.near.len() <= 1024);
        for number in 0..2000 {
            memo.put(number, first);
        }
        memo.put(3000, second);
        assert_eq!(memo.get(3000), Some(second));
        assert_eq!(memo.get(u64::MAX), Some(first));
        assert_eq!(memo.get(2000), None);
        assert_eq!(memo.len(), 2002);
    }
}
