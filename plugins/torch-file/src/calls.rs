//! Calls that nobody knows the result of: each is told, wherever in a file it stands, since a loader
//! of pickles makes it.

use crate::pickle::{Call, CallKind, GlobalId, Graph, Value};
use crate::{ObjectFile, known};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tensorferry_sdk::{CatalogSink, Loss, LossKind, Result};

/// What is called, where the result is not written in the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unknown {
    /// A function, or a class.
    Global(GlobalId),
    /// What another call returns: of this function, if it is one.
    Result(Option<GlobalId>),
}

impl Unknown {
    /// What the call calls, if it is not known to hold data only.
    pub(crate) fn of(graph: &Graph, call: &Call) -> Option<Self> {
        let id = |value| match graph.value(value) {
            Value::Global(id) => Some(*id),
            _ => None,
        };
        let Some(global) = graph.global(call.function) else {
            return Some(Self::Result(graph.call(call.function).and_then(|maker| id(maker.function))));
        };
        // An object of a class is an object: what its class does with it is not part of it.
        if call.kind == CallKind::New || known::holds_data(global) {
            return None;
        }
        match known::passes_on(graph, global, call) {
            Some(function) => id(function).map(Self::Global),
            None if known::rebuilds(global) => None,
            None => id(call.function).map(Self::Global),
        }
    }

    /// What is called.
    pub(crate) fn text(self, graph: &Graph) -> String {
        let path = |id| graph.named(id).map_or_else(String::new, crate::pickle::Global::path);
        match self {
            Self::Global(id) => path(id),
            Self::Result(Some(id)) => format!("what {} returns", path(id)),
            Self::Result(None) => "what another call returns".to_owned(),
        }
    }
}

/// All that is called in a graph, each once.
pub(crate) fn texts(graph: &Graph) -> BTreeSet<String> {
    let called: HashSet<Unknown> = graph.calls().filter_map(|(_, call)| Unknown::of(graph, call)).collect();
    called.into_iter().map(|call| call.text(graph)).collect()
}

/// The calls in the files of a reader that takes what it needs of an object, and leaves the rest.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<String, Places>);

/// The first file with a call, and how many more there are.
#[derive(Debug)]
struct Places {
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
                None => drop(self.0.insert(text.clone(), Places { first: file.to_owned(), more: 0 })),
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
        for (text, Places { first, more }) in &self.0 {
            let others = if *more > 0 { format!(", nor in {more} more files") } else { String::new() };
            let why = format!("calls {text}: it was not called{others}");
            catalog.loss(Loss::new(LossKind::State, first, why))?;
        }
        Ok(())
    }
}
