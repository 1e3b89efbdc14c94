//! A constant is a node with the operation "Const". The attribute `value` contains its tensor. This
//! module finds the constants of a graph and of the functions in the graph's library.
//!
//! ```text
//! GraphDef             node = 1, library = 2
//! FunctionDefLibrary   function = 1
//! FunctionDef          signature = 1 { name = 1 }, node_def = 3
//! NodeDef              name = 1, op = 2, attr = 5 { key = 1, value = 2 { tensor = 8 } }
//! ```
//!
//! If a field or a map entry occurs twice, the last occurrence is used.
//!
//! Sources: `graph.proto`, `function.proto`, `node_def.proto` and `attr_value.proto` in
//! `tensorflow/core/framework`.

use std::ops::Range;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{Context, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constant {
    /// The name of the node. If the node is in a function, the function's name precedes it.
    pub(crate) name: String,
    /// The range of the constant's `TensorProto`.
    pub(crate) tensor: Range<u64>,
}

/// The number of nodes and the number of constants in a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of nodes in the graph and in its functions.
    pub(crate) nodes: u64,
    /// Number of nodes that are constants.
    pub(crate) constants: u64,
    pub(crate) functions: u64,
}

/// Visits every constant of the graph in `wire`, in file order.
pub(crate) fn each_constant(
    wire: &mut Wire<'_>,
    context: &dyn Context,
    visit: &mut dyn FnMut(&mut Wire<'_>, Constant) -> Result<()>,
) -> Result<Counts> {
    let mut walk = ConstantWalk { context, visit, counts: Counts::default() };
    let mut rest = wire.whole();
    while let Some(field) = wire.next(&mut rest)? {
        match (field.number, field.value) {
            (1, Value::Bytes(node)) => walk.node(wire, node, None)?,
            (2, Value::Bytes(library)) => walk.library(wire, library)?,
            _ => {}
        }
    }
    Ok(walk.counts)
}

struct ConstantWalk<'a> {
    context: &'a dyn Context,
    visit: &'a mut dyn FnMut(&mut Wire<'_>, Constant) -> Result<()>,
    counts: Counts,
}

impl ConstantWalk<'_> {
    fn library(&mut self, wire: &mut Wire<'_>, mut rest: Range<u64>) -> Result<()> {
        while let Some(function) = wire.next_of(&mut rest, 1)? {
            self.function(wire, &function)?;
        }
        Ok(())
    }

    fn function(&mut self, wire: &mut Wire<'_>, function: &Range<u64>) -> Result<()> {
        self.counts.functions += 1;
        let mut name = String::new();
        if let Some(signature) = wire.last(function, 1)?
            && let Some(range) = wire.last(&signature, 1)?
        {
            name = wire.text(&range, self.context.limits().name_bytes)?;
        }
        let mut rest = function.clone();
        while let Some(node) = wire.next_of(&mut rest, 3)? {
            self.node(wire, node, Some(&name))?;
        }
        Ok(())
    }

    fn node(&mut self, wire: &mut Wire<'_>, node: Range<u64>, function: Option<&str>) -> Result<()> {
        self.counts.nodes += 1;
        if self.counts.nodes.is_multiple_of(4096) {
            self.context.check_cancelled()?;
        }
        let Some(op) = wire.last(&node, 2)? else { return Ok(()) };
        if !equals(wire, &op, b"Const")? {
            return Ok(());
        }
        self.counts.constants += 1;
        let name = match wire.last(&node, 1)? {
            Some(range) => wire.text(&range, self.context.limits().name_bytes)?,
            None => String::new(),
        };
        let name = function.map_or_else(|| name.clone(), |function| format!("{function}/{name}"));
        let Some(tensor) = value(wire, &node)? else {
            return Err(wire.malformed(node.start, "a constant has no value").tensor(name));
        };
        (self.visit)(wire, Constant { name, tensor })
    }
}

/// Returns the range of the tensor in the attribute `value` of a node.
fn value(wire: &mut Wire<'_>, node: &Range<u64>) -> Result<Option<Range<u64>>> {
    let mut found = None;
    let mut rest = node.clone();
    while let Some(entry) = wire.next_of(&mut rest, 5)? {
        let Some(key) = wire.last(&entry, 1)? else { continue };
        if equals(wire, &key, b"value")? {
            found = match wire.last(&entry, 2)? {
                Some(attribute) => wire.last(&attribute, 8)?,
                None => None,
            };
        }
    }
    Ok(found)
}

fn equals(wire: &mut Wire<'_>, range: &Range<u64>, text: &[u8]) -> Result<bool> {
    let max = text.len() as u64;
    Ok(range.end - range.start == max && wire.bytes(range, max)? == text)
}
