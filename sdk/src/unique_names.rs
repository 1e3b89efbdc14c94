//! Makes names unique. A reader that joins the keys of nested containers may produce the same name
//! twice, as in `{"a.b": x, "a": {"b": y}}`.

use crate::{CatalogSink, Loss, LossKind, Result};
use std::collections::HashMap;

/// The names that a reader has assigned to tensors.
///
/// For each name, the number at which the search for the next free variant starts. Many tensors may
/// request the same name.
#[derive(Debug, Default)]
pub struct UniqueNames(HashMap<String, u64>);

impl UniqueNames {
    /// Returns the wanted name if no tensor has it. Otherwise, returns the first free name in the
    /// sequence `wanted#2`, `wanted#3`, and so on. The same calls in the same order return the same
    /// names.
    pub fn take(&mut self, wanted: &str) -> String {
        let Some(&taken) = self.0.get(wanted) else {
            self.0.insert(wanted.to_owned(), 1);
            return wanted.to_owned();
        };
        let mut number = taken;
        loop {
            number += 1;
            let name = format!("{wanted}#{number}");
            if !self.0.contains_key(&name) {
                self.0.insert(wanted.to_owned(), number);
                self.0.insert(name.clone(), 1);
                return name;
            }
        }
    }

    /// Works like [`take`](Self::take), and also reports a loss if the returned name differs from
    /// the wanted name.
    ///
    /// # Errors
    /// Returns an error if the catalog does not accept the loss.
    pub fn take_for(&mut self, catalog: &mut dyn CatalogSink, wanted: String) -> Result<String> {
        let name = self.take(&wanted);
        if name != wanted {
            let why = format!("another tensor has this name, so it is renamed to {name:?}");
            catalog.loss(Loss::new(LossKind::Name, wanted, why))?;
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_is_numbered() {
        let mut names = UniqueNames::default();
        let given = ["a", "a#2", "a", "a", "a#2"].map(|wanted| names.take(wanted));
        assert_eq!(given, ["a", "a#2", "a#3", "a#4", "a#2#2"]);
    }
}
