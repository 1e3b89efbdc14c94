//! Makes names unique. Names can collide, for example, if a graph has a node `f/x` and also a
//! function `f` with a node `x`.

use std::collections::{HashMap, HashSet};

/// The names in use. `wanted` contains the number of suffixes that have been tried for each name.
#[derive(Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
    wanted: HashMap<String, u64>,
}

impl Names {
    /// Returns the name if it is unused. Otherwise, returns the name with the first suffix that
    /// makes it unique, such as `x_1`.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while self.taken.contains(&unique) {
            let count = self.wanted.entry(name.to_owned()).or_insert(0);
            *count += 1;
            unique = format!("{name}_{count}");
        }
        self.taken.insert(unique.clone());
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once() {
        let mut names = Names::default();
        let given = ["a", "a_1", "a", "a", "a_1", ""].map(|name| names.unique(name));
        assert_eq!(given, ["a", "a_1", "a_2", "a_3", "a_1_1", ""]);
    }
}
