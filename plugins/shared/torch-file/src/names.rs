//! Names tensors. The name of a tensor is its path in nested containers: keys, indices and
//! attributes, joined with dots.

use crate::pickle::{Graph, Value, ValueId};
use std::collections::HashMap;
use std::fmt::Write;
use tensorferry_sdk::{CatalogSink, Result, UniqueNames};

/// The names of the tensors that have been read, and the names of tensors that must not be read.
#[derive(Debug, Default)]
pub struct Names {
    given: UniqueNames,
    /// The names of tensors that must not be read, and whether the file contains each of these
    /// tensors.
    excluded: HashMap<String, bool>,
}

impl Names {
    /// Creates a set of names that excludes the given tensors from reading, because they are read
    /// from a different file of the model.
    #[must_use]
    pub fn excluding(excluded: impl IntoIterator<Item = String>) -> Self {
        Self { excluded: excluded.into_iter().map(|name| (name, false)).collect(), ..Self::default() }
    }

    /// Returns whether the tensor with this name must not be read. If so, records that the file
    /// contains it.
    pub(crate) fn excludes(&mut self, name: &str) -> bool {
        self.excluded.get_mut(name).map(|met| *met = true).is_some()
    }

    /// Iterates over the names of tensors that the file contains but that were not read.
    pub fn excluded(&self) -> impl Iterator<Item = &str> {
        self.excluded.iter().filter(|(_, met)| **met).map(|(name, _)| name.as_str())
    }

    /// Returns an unused name, like [`UniqueNames::take`].
    pub fn take(&mut self, wanted: &str) -> String {
        self.given.take(wanted)
    }

    /// Returns an unused name, like [`UniqueNames::take_for`].
    pub(crate) fn take_for(&mut self, catalog: &mut dyn CatalogSink, wanted: String) -> Result<String> {
        self.given.take_for(catalog, wanted)
    }
}

/// The path of the value that a walk is currently visiting.
#[derive(Debug, Default)]
pub(crate) struct Path {
    text: String,
    parts: usize,
}

/// A position in a path. The path can be truncated to this position.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathMark {
    len: usize,
    parts: usize,
}

impl Path {
    /// Creates a path whose initial text is `place`. An empty path refers to the root.
    pub(crate) fn at(place: &str) -> Self {
        Self { text: place.to_owned(), parts: usize::from(!place.is_empty()) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn mark(&self) -> PathMark {
        PathMark { len: self.text.len(), parts: self.parts }
    }

    pub(crate) fn truncate(&mut self, mark: PathMark) {
        self.text.truncate(mark.len);
        self.parts = mark.parts;
    }

    pub(crate) fn push_index(&mut self, index: usize) {
        self.begin_part();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{index}");
    }

    /// Appends a key as a part of the path. Truncates the key after `max` bytes, because a tuple
    /// may refer to one long string a million times.
    pub(crate) fn push_key(&mut self, graph: &Graph, key: ValueId, max: u64) {
        self.begin_part();
        push_key(&mut self.text, graph, key, max);
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        self.begin_part();
        self.text.push_str(text);
    }

    /// Starts a part of the path. A dot precedes each part except the first, even if the first part
    /// is empty.
    fn begin_part(&mut self) {
        if self.parts > 0 {
            self.text.push('.');
        }
        self.parts += 1;
    }
}

/// Appends a key to a name. A string is appended unchanged. Any other value is appended in a form
/// similar to Python's `repr`.
fn push_key(name: &mut String, graph: &Graph, key: ValueId, max: u64) {
    match graph.value(key) {
        Value::Text(text) => name.push_str(&text.escaped()),
        Value::Tuple(_) => {
            let items = graph.tuple(key).unwrap_or_default();
            name.push('(');
            for (index, &item) in items.iter().enumerate() {
                if name.len() as u64 > max {
                    break;
                }
                name.push_str(if index > 0 { ", " } else { "" });
                match graph.value(item) {
                    Value::Text(text) => push_quoted(name, &text.escaped()),
                    // Nested tuples are not formatted, because a hostile file may nest them to any
                    // depth.
                    Value::Tuple(_) => name.push_str("(...)"),
                    _ => push_key(name, graph, item, max),
                }
            }
            name.push_str(if items.len() == 1 { ",)" } else { ")" });
        }
        value => push_scalar(name, graph, key, value),
    }
}

fn push_scalar(name: &mut String, graph: &Graph, key: ValueId, value: &Value) {
    // Writing to a string does not fail.
    let _ = match value {
        Value::None => write!(name, "None"),
        Value::Bool(true) => write!(name, "True"),
        Value::Bool(false) => write!(name, "False"),
        Value::Int(value) => write!(name, "{value}"),
        Value::Float(value) => write!(name, "{value:?}"),
        Value::Long(bytes) => bytes.iter().rev().try_fold((), |(), byte| write!(name, "{byte:02x}")),
        Value::Bytes(bytes) => write!(name, "b'{}'", bytes.escape_ascii()),
        Value::Global(_) => graph.global(key).map_or(Ok(()), |global| write!(name, "{}", global.path())),
        Value::Call(_) => match graph.bytes(key) {
            // Protocol 2 encodes a bytes object as a call.
            Some(bytes) => write!(name, "b'{}'", bytes.escape_ascii()),
            None => graph.called(key).map_or(Ok(()), |(global, _)| write!(name, "{}(...)", global.path())),
        },
        _ => write!(name, "(...)"),
    };
}

fn push_quoted(name: &mut String, text: &str) {
    name.push('\'');
    name.push_str(text);
    name.push('\'');
}
