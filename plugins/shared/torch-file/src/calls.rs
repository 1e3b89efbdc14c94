//! Finds the calls in a pickle whose results are unknown. All of these calls are reported
//! regardless of their position in a file, because a pickle loader would execute them.

use crate::data_calls;
use crate::pickle::{Call, CallKind, GlobalId, Graph, Value};
use std::collections::{BTreeSet, HashSet};

/// The target of a call whose result is unknown, because the arguments do not contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnknownCall {
    /// A function or a class.
    Global(GlobalId),
    /// The result of another call. The ID refers to the function of that call, if it is known.
    Result(Option<GlobalId>),
}

impl UnknownCall {
    /// Returns the target of a call, or `None` if the call only represents data.
    pub(crate) fn of(graph: &Graph, call: &Call) -> Option<Self> {
        let id = |value| match graph.value(value) {
            Value::Global(id) => Some(*id),
            _ => None,
        };
        let Some(global) = graph.global(call.function) else {
            return Some(Self::Result(graph.call(call.function).and_then(|maker| id(maker.function))));
        };
        // Creating an object without calling its constructor yields only data.
        if call.kind == CallKind::New || data_calls::holds_data(global) {
            return None;
        }
        match data_calls::forwarded_function(graph, global, call) {
            Some(function) => id(function).map(Self::Global),
            None if data_calls::rebuilds(global) => None,
            None => id(call.function).map(Self::Global),
        }
    }

    /// Describes the target of the call for messages.
    pub(crate) fn text(self, graph: &Graph) -> String {
        let path = |id| graph.named(id).map_or_else(String::new, crate::pickle::Global::path);
        match self {
            Self::Global(id) => path(id),
            Self::Result(Some(id)) => format!("the result of {}", path(id)),
            Self::Result(None) => "the result of a different call".to_owned(),
        }
    }
}

/// Returns descriptions of all unknown calls in a graph, without duplicates.
pub(crate) fn texts(graph: &Graph) -> BTreeSet<String> {
    let called: HashSet<UnknownCall> =
        graph.calls().filter_map(|(_, call)| UnknownCall::of(graph, call)).collect();
    called.into_iter().map(|call| call.text(graph)).collect()
}
