//! Reports the calls in the pickles of several files as losses. Each call is reported once, for the
//! first file that contains it.

use crate::calls::texts;
use crate::object_file::ObjectFile;
use crate::pickle::Graph;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogSink, Loss, LossKind, Result};

/// The calls in files from which a reader uses only some of the values.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<String, CallPlaces>);

/// The first file that contains a call, and the number of additional files.
#[derive(Debug)]
struct CallPlaces {
    first: String,
    more: u64,
}

impl Calls {
    /// Adds the calls in a file that `torch.save` wrote.
    pub fn add(&mut self, file: &str, object: &ObjectFile) {
        self.add_texts(file, texts(object.graph()).iter().chain(object.side_calls()));
    }

    /// Adds the calls in the pickle whose graph is `graph`.
    pub fn add_graph(&mut self, file: &str, graph: &Graph) {
        self.add_texts(file, &texts(graph));
    }

    fn add_texts<'t>(&mut self, file: &str, texts: impl IntoIterator<Item = &'t String>) {
        for text in texts {
            match self.0.get_mut(text) {
                Some(places) if places.first == file => {}
                Some(places) => places.more += 1,
                None => drop(self.0.insert(text.clone(), CallPlaces { first: file.to_owned(), more: 0 })),
            }
        }
    }

    /// Removes the calls of the function or class with this path, because the reader can determine
    /// their results.
    pub fn forget(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Reports each call as a loss.
    pub fn report(&self, catalog: &mut dyn CatalogSink) -> Result<()> {
        for (text, CallPlaces { first, more }) in &self.0 {
            let others = if *more > 0 { format!(", nor in {more} other files") } else { String::new() };
            let why = format!("calls {text}: it was not called{others}");
            catalog.loss(Loss::new(LossKind::State, first, why))?;
        }
        Ok(())
    }
}
