//! Creates nodes for scalars, which are values that contain no other values. A scalar becomes a
//! single node, even if the walk reaches it several times.

use super::Walk;
use crate::numpy;
use crate::pickle::{Global, Value, ValueId};
use tensorferry_sdk::{LossKind, Node, NodeId, NodeKind, Result};

const SURROGATES: &str = "the string has lone surrogates, which are written as \\udcff";

impl Walk<'_, '_, '_, '_> {
    /// Returns the node of a scalar, which is created on first use.
    pub(super) fn scalar(&mut self, id: ValueId) -> Result<Option<NodeId>> {
        let graph = self.graph;
        let node = match graph.value(id) {
            Value::None => Node::none(),
            Value::Bool(value) => Node::bool(*value),
            Value::Int(value) => Node::int(*value),
            Value::Long(bytes) => Node::scalar(NodeKind::INT, bytes),
            Value::Float(value) => Node::float(*value),
            Value::Text(text) => {
                if text.as_str().is_none() {
                    self.lose(LossKind::State, SURROGATES)?;
                }
                Node::text(&text.escaped())
            }
            Value::Bytes(bytes) => Node::scalar(NodeKind::BYTES, bytes),
            Value::Global(_) => {
                let class = graph.global(id).map_or_else(String::new, Global::path);
                Node::container(NodeKind::OBJECT, &class, [])
            }
            Value::Call(_) => match self.called_scalar(id) {
                Some(node) => node,
                None => return Ok(None),
            },
            Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) | Value::Persistent(_) => {
                return Ok(None);
            }
        };
        let node = self.to.catalog.node(node)?;
        self.nodes[id.index()] = Some(node);
        Ok(Some(node))
    }

    /// Returns the node of a call that represents a scalar. The scalar may be encoded as in an
    /// older protocol, or may be a number or string from another library.
    fn called_scalar(&self, id: ValueId) -> Option<Node> {
        let graph = self.graph;
        if let Some(&[real, imaginary]) = graph.plain_call(id, "builtins", "complex") {
            let (real, imaginary) = graph.float(real).zip(graph.float(imaginary))?;
            let parts = [real.to_le_bytes(), imaginary.to_le_bytes()];
            return Some(Node::scalar(NodeKind::COMPLEX, &parts.concat()));
        }
        if let Some(bytes) = graph.bytes(id) {
            return Some(Node::scalar(NodeKind::BYTES, &bytes));
        }
        self.path_text(id).or_else(|| numpy::scalar(graph, id))
    }

    /// Returns the node of a `pathlib` path. The node is a string with the class of the path.
    fn path_text(&self, id: ValueId) -> Option<Node> {
        let (global, _) = self.graph.called(id)?;
        let is_path =
            matches!(&*global.module, "pathlib" | "pathlib._local") && global.name.ends_with("Path");
        let parts = self.graph.plain_call(id, &global.module, &global.name).filter(|_| is_path)?;
        let parts: Option<Vec<&str>> = parts.iter().map(|&part| self.graph.text(part)).collect();
        let text = match &*parts? {
            [] => ".".to_owned(),
            // In the arguments of a path, the root `/` is a separate part.
            ["/", rest @ ..] => format!("/{}", rest.join("/")),
            parts => parts.join("/"),
        };
        Some(Node { class: global.path().into(), ..Node::text(&text) })
    }
}
