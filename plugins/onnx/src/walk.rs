//! Finds and names every tensor in a model.
//!
//! ```text
//! ModelProto          graph = 7, metadata_props = 14, training_info = 20, functions = 25
//! GraphProto          node = 1, initializer = 5, sparse_initializer = 15
//! NodeProto           output = 2, name = 3, op_type = 4, attribute = 5, domain = 7
//! AttributeProto      name = 1, t = 5, g = 6, tensors = 10, graphs = 11, sparse_tensor = 22, sparse_tensors = 23
//! FunctionProto       name = 1, node = 7, attribute_proto = 11
//! TrainingInfoProto   initialization = 1, algorithm = 2
//! SparseTensorProto   values = 1
//! ```
//!
//! | Location | Name |
//! |---|---|
//! | initializer of the main graph | its own |
//! | `value` of a Constant node | the node's output; in a function `function/output` |
//! | `value_ints` and the like of a Constant node | the node's output; not a tensor, but part of the graph |
//! | attribute of a different node | `node/attribute`, of several `node/attribute/0` |
//! | initializer of a graph in an attribute | `node/attribute/name` |
//! | `training_info` | `training_info.0.initialization/name`, `training_info.0.algorithm/name` |
//! | sparse | `name.values`, `name.indices`, `name.shape` (`sparse.rs`) |
//!
//! If a node has no name, the name of its operation is used. If a name is repeated, a number is
//! appended.

use crate::message::{Message, content};
use std::collections::HashSet;
use tensorferry_proto_file::{Names, Wire};
use tensorferry_sdk::{Context, Error, Result};

/// Maximum depth of nested graphs. Each level nests three messages, and protobuf's own readers
/// allow a depth of a hundred messages.
const MAX_GRAPHS: usize = 32;
/// Maximum number of path bytes per byte of the model. The path of a tensor contains the names of
/// all enclosing graphs.
const PATH_BYTES: u64 = 64;
const PATH_BYTES_ALLOWANCE: u64 = 1 << 20;
/// Attributes of a Constant node that contain numbers or strings instead of a tensor.
const PLAIN_ATTRIBUTES: [&str; 6] =
    ["value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"];

/// Operations that use quantized codes, and the indices of their inputs that are codes.
const QUANTIZED_INPUTS: [(&str, &[usize]); 10] = [
    ("DequantizeLinear", &[0]),
    ("QLinearConv", &[0, 3]),
    ("QLinearMatMul", &[0, 3]),
    ("ConvInteger", &[0, 1]),
    ("MatMulInteger", &[0, 1]),
    ("MatMulIntegerToFloat", &[0, 1]),
    ("DynamicQuantizeMatMul", &[1]),
    ("MatMulNBits", &[1]),
    ("QGemm", &[0, 3]),
    ("GatherBlockQuantized", &[0]),
];

/// A tensor in a model.
#[derive(Debug, Clone)]
pub(crate) struct FoundTensor {
    /// The tensor's path, which is used as its name.
    pub(crate) name: String,
    /// The tensor's `TensorProto`.
    pub(crate) message: Message,
}

/// An item that the walk finds.
#[derive(Debug, Clone)]
pub(crate) enum WalkItem {
    Dense(FoundTensor),
    /// A sparse tensor, with its path and its `SparseTensorProto`.
    Sparse {
        name: String,
        message: Message,
    },
    /// An attribute of a Constant node that is not a tensor, with the path and the name of the
    /// attribute.
    Plain {
        name: String,
        attribute: String,
    },
    /// An operation that uses the tensor or value with this name as quantized codes.
    Codes {
        name: String,
        operation: &'static str,
    },
}

/// Numbers of nodes and functions in a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) nodes: u64,
    pub(crate) functions: u64,
}

/// Passes every tensor and related item in the model to `visit`.
pub(crate) fn each_tensor(
    wire: &mut Wire<'_>,
    context: &dyn Context,
    visit: &mut dyn FnMut(&mut Wire<'_>, WalkItem) -> Result<()>,
) -> Result<Counts> {
    let model = Message::of_range(wire.whole());
    let graph = model.message(wire, 7)?;
    if !graph.exists() {
        return Err(wire.malformed(0, "not an ONNX model: the graph is missing"));
    }
    let mut walk = Walk { context, visit, counts: Counts::default(), path_bytes: 0 };
    walk.graph(wire, &graph, "", 0)?;
    let mut number = 0_u64;
    model.each(wire, 20, &mut |wire, training| {
        let training = Message::of_range(training);
        for (field, part) in [(1, "initialization"), (2, "algorithm")] {
            let graph = training.message(wire, field)?;
            walk.graph(wire, &graph, &format!("training_info.{number}.{part}/"), 0)?;
        }
        number += 1;
        Ok(())
    })?;
    let mut names = Names::default();
    model.each(wire, 25, &mut |wire, function| {
        walk.function(wire, &Message::of_range(function), &mut names)
    })?;
    Ok(walk.counts)
}

struct Walk<'a> {
    context: &'a dyn Context,
    visit: &'a mut dyn FnMut(&mut Wire<'_>, WalkItem) -> Result<()>,
    counts: Counts,
    /// Total length in bytes of the paths found so far. This length is limited.
    path_bytes: u64,
}

impl Walk<'_> {
    /// Counts the bytes of a new path. The file contains the name of a graph only once, but the
    /// path of every tensor in the graph repeats it.
    fn count_path(&mut self, wire: &Wire<'_>, at: u64, path: &str) -> Result<()> {
        let paid = wire.whole().end.saturating_mul(PATH_BYTES).saturating_add(PATH_BYTES_ALLOWANCE);
        let max = self.context.limits().header_bytes.min(paid);
        self.path_bytes = self.path_bytes.saturating_add(path.len() as u64);
        if self.path_bytes <= max {
            return Ok(());
        }
        let error = wire.located(Error::limit("the names of nested graphs expand to too many bytes"), at);
        Err(error.expected(format!("at most {max} bytes")).found(self.path_bytes))
    }

    fn text(&self, wire: &mut Wire<'_>, message: &Message, number: u32) -> Result<String> {
        message.text(wire, number, self.context.limits().name_bytes)
    }

    /// Visits the tensors in a graph. Their paths start with `prefix`.
    fn graph(&mut self, wire: &mut Wire<'_>, graph: &Message, prefix: &str, depth: usize) -> Result<()> {
        if depth > MAX_GRAPHS {
            let error = wire.malformed(graph.start(), "graphs are nested too deeply");
            return Err(error.expected(format!("at most {MAX_GRAPHS} levels")));
        }
        self.count_path(wire, graph.start(), prefix)?;
        let mut seen = HashSet::new();
        let mut rest = graph.clone();
        while let Some(field) = rest.next(wire)? {
            let is_sparse = field.number == 15;
            if field.number != 5 && !is_sparse {
                continue;
            }
            let message = Message::of_range(content(wire, &field)?);
            let name = self.initializer_name(wire, &message, is_sparse)?;
            if name.is_empty() || !seen.insert(name.clone()) {
                let fault = if name.is_empty() {
                    "an initializer has no name"
                } else {
                    "two initializers have the same name"
                };
                return Err(wire.malformed(field.at, fault).tensor(name));
            }
            self.visit_tensor(wire, format!("{prefix}{name}"), message, is_sparse)?;
        }
        let mut names = Names::default();
        graph.each(wire, 1, &mut |wire, node| {
            self.node(wire, &Message::of_range(node), prefix, &mut names, depth)
        })
    }

    /// Returns the name of an initializer. The name of a sparse initializer is the name of its
    /// values.
    fn initializer_name(&self, wire: &mut Wire<'_>, message: &Message, is_sparse: bool) -> Result<String> {
        if is_sparse {
            let values = message.message(wire, 1)?;
            return self.text(wire, &values, 8);
        }
        self.text(wire, message, 8)
    }

    fn function(&mut self, wire: &mut Wire<'_>, function: &Message, functions: &mut Names) -> Result<()> {
        self.counts.functions += 1;
        let name = self.text(wire, function, 1)?;
        let prefix = format!("{}/", functions.unique(&name));
        function.each(wire, 11, &mut |wire, attribute| {
            self.attribute(wire, &Message::of_range(attribute), &mut |name| format!("{prefix}{name}"), 0)
        })?;
        let mut names = Names::default();
        function.each(wire, 7, &mut |wire, node| {
            self.node(wire, &Message::of_range(node), &prefix, &mut names, 0)
        })
    }

    fn node(
        &mut self,
        wire: &mut Wire<'_>,
        node: &Message,
        prefix: &str,
        names: &mut Names,
        depth: usize,
    ) -> Result<()> {
        self.counts.nodes += 1;
        if self.counts.nodes.is_multiple_of(4096) {
            self.context.check_cancelled()?;
        }
        let operation = self.text(wire, node, 4)?;
        if let Some(&(operation, inputs)) = QUANTIZED_INPUTS.iter().find(|(known, _)| *known == operation) {
            let mut number = 0;
            node.each(wire, 1, &mut |wire, input| {
                if inputs.contains(&number) {
                    let name = format!("{prefix}{}", wire.text(&input, self.context.limits().name_bytes)?);
                    self.count_path(wire, input.start, &name)?;
                    (self.visit)(wire, WalkItem::Codes { name, operation })?;
                }
                number += 1;
                Ok(())
            })?;
        }
        let attributes = node.message(wire, 5)?;
        if !attributes.exists() {
            return Ok(());
        }
        let domain = self.text(wire, node, 7)?;
        let is_constant = operation == "Constant" && matches!(&*domain, "" | "ai.onnx");
        let output = if is_constant { self.first_text(wire, node, 2)? } else { None };
        let own = self.text(wire, node, 3)?;
        let called = if own.is_empty() { operation } else { own };
        // The node's name is made unique only if a path needs it.
        let mut path = None;
        node.each(wire, 5, &mut |wire, attribute| {
            let attribute = Message::of_range(attribute);
            if let Some(output) = &output {
                let word = self.text(wire, &attribute, 1)?;
                if PLAIN_ATTRIBUTES.contains(&&*word) {
                    let name = format!("{prefix}{output}");
                    self.count_path(wire, attribute.start(), &name)?;
                    return (self.visit)(wire, WalkItem::Plain { name, attribute: word });
                }
            }
            let mut name_of = |attribute: &str| match &output {
                Some(output) if matches!(attribute, "value" | "sparse_value") => format!("{prefix}{output}"),
                _ => {
                    let node = path.get_or_insert_with(|| names.unique(&called));
                    format!("{prefix}{node}/{attribute}")
                }
            };
            self.attribute(wire, &attribute, &mut name_of, depth)
        })
    }

    fn first_text(&self, wire: &mut Wire<'_>, message: &Message, number: u32) -> Result<Option<String>> {
        let mut first = None;
        message.each(wire, number, &mut |_, range| {
            first.get_or_insert(range);
            Ok(())
        })?;
        first.map(|range| wire.text(&range, self.context.limits().name_bytes)).transpose()
    }

    /// Visits the tensors and graphs in an attribute. `name_of` converts the attribute's name to a
    /// path.
    fn attribute(
        &mut self,
        wire: &mut Wire<'_>,
        attribute: &Message,
        name_of: &mut dyn FnMut(&str) -> String,
        depth: usize,
    ) -> Result<()> {
        let mut fields = attribute.clone();
        let mut holds = false;
        while let Some(field) = fields.next(wire)? {
            holds |= matches!(field.number, 5 | 6 | 10 | 11 | 22 | 23);
        }
        if !holds {
            return Ok(());
        }
        let name = self.text(wire, attribute, 1)?;
        let path = name_of(&name);
        for (field, is_sparse) in [(5, false), (22, true)] {
            let tensor = attribute.message(wire, field)?;
            if tensor.exists() {
                self.visit_tensor(wire, path.clone(), tensor, is_sparse)?;
            }
        }
        for (field, is_sparse) in [(10, false), (23, true)] {
            let mut number = 0_u64;
            attribute.each(wire, field, &mut |wire, tensor| {
                number += 1;
                self.visit_tensor(
                    wire,
                    format!("{path}/{}", number - 1),
                    Message::of_range(tensor),
                    is_sparse,
                )
            })?;
        }
        let graph = attribute.message(wire, 6)?;
        self.graph(wire, &graph, &format!("{path}/"), depth + 1)?;
        let mut number = 0_u64;
        attribute.each(wire, 11, &mut |wire, graph| {
            number += 1;
            self.graph(wire, &Message::of_range(graph), &format!("{path}/{}/", number - 1), depth + 1)
        })
    }

    fn visit_tensor(
        &mut self,
        wire: &mut Wire<'_>,
        name: String,
        message: Message,
        is_sparse: bool,
    ) -> Result<()> {
        self.count_path(wire, message.start(), &name)?;
        let item = match is_sparse {
            true => WalkItem::Sparse { name, message },
            false => WalkItem::Dense(FoundTensor { name, message }),
        };
        (self.visit)(wire, item)
    }
}
