//! Finds the calls of a pickle whose result is not known. Each is reported, wherever in a file it stands, since
//! a loader of pickles would make it.

use crate::known;
use crate::pickle::{Call, CallKind, GlobalId, Graph, Value};
use std::collections::{BTreeSet, HashSet};

/// What is called, where the result is not written in the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnknownCall {
    /// A function, or a class.
    Global(GlobalId),
    /// What another call returns: of this function, if it is one.
    Result(Option<GlobalId>),
}

impl UnknownCall {
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
    let called: HashSet<UnknownCall> =
        graph.calls().filter_map(|(_, call)| UnknownCall::of(graph, call)).collect();
    called.into_iter().map(|call| call.text(graph)).collect()
}
