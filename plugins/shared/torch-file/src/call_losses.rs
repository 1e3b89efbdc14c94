//! Reports the calls of several files as losses, each call once with the first file that has it.

use crate::calls::texts;
use crate::object_file::ObjectFile;
use crate::pickle::Graph;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogSink, Loss, LossKind, Result};

/// The calls in the files of a reader that takes what it needs of an object, and leaves the rest.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<String, CallPlaces>);

/// The first file with a call, and how many more there are.
#[derive(Debug)]
struct CallPlaces {
    first: String,
    more: u64,
}

impl Calls {
    /// Adds those of a file of `torch.save`.
    pub fn add(&mut self, file: &str, object: &ObjectFile) {
        self.add_texts(file, texts(object.graph()).iter().chain(object.calls_beside()));
    }

    /// Adds those of another pickle.
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

    /// Without those of this function or class, whose result the reader knows.
    pub fn forget(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Lists each as a loss.
    ///
    /// # Errors
    /// A limit.
    pub fn report(&self, catalog: &mut dyn CatalogSink) -> Result<()> {
        for (text, CallPlaces { first, more }) in &self.0 {
            let others = if *more > 0 { format!(", nor in {more} more files") } else { String::new() };
            let why = format!("calls {text}: it was not called{others}");
            catalog.loss(Loss::new(LossKind::State, first, why))?;
        }
        Ok(())
    }
}
