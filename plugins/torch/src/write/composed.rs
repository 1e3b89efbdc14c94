//! A composed tensor is one that torch puts together from others: quantized, of integers and their
//! scales; sparse, of indices and values; nested, of a buffer and the shapes in it. In a tree it is
//! the tensor of its elements, with the others among its attributes.
//!
//! Source: `_rebuild_qtensor` and `_rebuild_sparse_tensor` in `torch/_utils.py`.

use super::tree::StateTree;
use std::collections::HashSet;
use tensorferry_sdk::{CatalogView, Node, NodeId, NodeKind, Result, TensorId};
use tensorferry_torch_file::TorchDtype;

/// What a tensor is put together from, beside its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Composed {
    /// A scale and a zero point, each a tensor of one number.
    PerTensor { scale: NodeId, zero_point: NodeId },
    /// Tensors of scales and zero points, and the dimension that they are for: a tensor of one number.
    PerChannel { scales: NodeId, zero_points: NodeId, axis: NodeId },
    /// A layout, one tensor of indices or two, the shape, the tensor that says it too, and whether no place is
    /// named twice.
    Sparse {
        layout: NodeId,
        indices: Vec<NodeId>,
        size: NodeId,
        shape: Option<NodeId>,
        is_coalesced: Option<bool>,
    },
    /// The map of attributes: torch refuses to load such a tensor.
    Nested { attributes: NodeId },
}

/// The names that torch gives to the indices of sparse tensors, by layout.
const INDICES: [&[&str]; 3] =
    [&["indices"], &["crow_indices", "col_indices"], &["ccol_indices", "row_indices"]];

impl Composed {
    /// What a tensor with these attributes is put together from, if it is composed.
    pub(super) fn of(tree: &StateTree<'_>, attributed: &Node) -> Option<Self> {
        let &[_, attributes] = &*attributed.children else { return None };
        let attribute = |name: &str| {
            let is_it = |&(key, _): &(NodeId, NodeId)| tree.node(key).and_then(Node::as_text) == Some(name);
            tree.node(attributes)?.entries().find(is_it).map(|(_, value)| value)
        };
        let tensor = |name| {
            attribute(name).filter(|&id| tree.node(id).is_some_and(|node| node.kind == NodeKind::TENSOR))
        };
        if attribute("qscheme").is_some() {
            let per_tensor = tensor("scale").zip(tensor("zero_point"));
            return per_tensor.map(|(scale, zero_point)| Self::PerTensor { scale, zero_point }).or_else(
                || {
                    let (scales, zero_points) = tensor("scales").zip(tensor("zero_points"))?;
                    Some(Self::PerChannel { scales, zero_points, axis: tensor("axis")? })
                },
            );
        }
        let layout = attribute("layout")?;
        if let Some(size) = attribute("size") {
            let of_layout =
                |names: &&[&'static str]| names.iter().map(|name| tensor(name)).collect::<Option<_>>();
            let indices = INDICES.iter().find_map(of_layout)?;
            let flag = attribute("is_coalesced").and_then(|id| tree.node(id)?.as_bool());
            return Some(Self::Sparse { layout, indices, size, shape: tensor("shape"), is_coalesced: flag });
        }
        tensor("sizes").and(tensor("strides")).and(tensor("offsets"))?;
        Some(Self::Nested { attributes })
    }

    /// The tensors that it is put together from.
    pub(super) fn parts(&self, tree: &StateTree<'_>) -> Vec<NodeId> {
        match self {
            Self::PerTensor { scale, zero_point } => vec![*scale, *zero_point],
            Self::PerChannel { scales, zero_points, axis } => vec![*scales, *zero_points, *axis],
            Self::Sparse { indices, shape, .. } => indices.iter().chain(shape).copied().collect(),
            Self::Nested { attributes } => {
                let entries = tree.node(*attributes).into_iter().flat_map(Node::entries);
                entries.map(|(_, value)| value).collect()
            }
        }
    }
}

/// The tensors of a tree whose numbers stand in the pickle too.
#[derive(Debug, Default)]
pub(super) struct InThePickle {
    /// Quantized tensors, of integers: with their scales, torch loads them.
    pub(super) integers: HashSet<TensorId>,
    /// The tensors of their scales, zero points and axes.
    pub(super) scales: HashSet<TensorId>,
    /// The tensors of sparse tensors' shapes.
    pub(super) shapes: HashSet<TensorId>,
}

impl InThePickle {
    /// Those of a catalog's tree.
    pub(super) fn of(catalog: &dyn CatalogView) -> Result<Self> {
        let mut found = Self::default();
        let is_quantized = |id| TorchDtype::of(catalog.tensor(id).dtype).is_some_and(|row| row.quantized);
        let is_shape = |id| catalog.tensor(id).name.ends_with(".shape");
        let is_said = |id| is_quantized(id) || is_shape(id);
        let Some(root) = catalog.root().filter(|_| catalog.tensor_ids().any(is_said)) else {
            return Ok(found);
        };
        for id in (0..=root.0).map(NodeId) {
            let node = catalog.node(id)?;
            let (NodeKind::ATTRIBUTED, &[value, attributes]) = (node.kind, &*node.children) else { continue };
            let quantized = catalog.node(value)?.as_tensor().filter(|&id| is_quantized(id));
            found.integers.extend(quantized);
            for (key, part) in catalog.node(attributes)?.entries() {
                let part = catalog.node(part)?.as_tensor();
                if quantized.is_some() {
                    found.scales.extend(part);
                } else if part.is_some() && catalog.node(key)?.as_text() == Some("shape") {
                    found.shapes.extend(part);
                }
            }
        }
        Ok(found)
    }
}
