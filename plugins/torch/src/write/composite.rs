//! A composite tensor is a tensor that torch assembles from other tensors. It is quantized
//! (integers and scales), sparse (indices and values) or nested (a buffer and the shapes of its
//! tensors). In a catalog's tree, the node of a composite tensor contains the tensor with the
//! elements. The other tensors are among the attributes of that node.
//!
//! Source: `_rebuild_qtensor` and `_rebuild_sparse_tensor` in `torch/_utils.py`.

use super::tree::StateTree;
use std::collections::HashSet;
use tensorferry_sdk::{CatalogView, Node, NodeId, NodeKind, Result, TensorId};
use tensorferry_torch_file::TorchDtype;

/// The parts of a composite tensor, except for its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompositeTensor {
    /// A quantized tensor with one scale and one zero point. Each of the two is a tensor that
    /// contains one number.
    PerTensor { scale: NodeId, zero_point: NodeId },
    /// A quantized tensor with a scale and a zero point for each index of a dimension. `axis` is a
    /// tensor that contains the number of that dimension.
    PerChannel { scales: NodeId, zero_points: NodeId, axis: NodeId },
    /// A sparse tensor. `indices` contains one or two tensors, depending on the layout. `shape` is
    /// a tensor with the same values as the size. `is_coalesced` specifies whether all indices are
    /// distinct.
    Sparse {
        layout: NodeId,
        indices: Vec<NodeId>,
        size: NodeId,
        shape: Option<NodeId>,
        is_coalesced: Option<bool>,
    },
    /// A nested tensor, with the map of its attributes. torch's `weights_only` loading rejects
    /// nested tensors.
    Nested { attributes: NodeId },
}

/// torch's names for the index tensors of a sparse tensor, by layout.
const INDICES: [&[&str]; 3] =
    [&["indices"], &["crow_indices", "col_indices"], &["ccol_indices", "row_indices"]];

impl CompositeTensor {
    /// Returns the parts of a tensor, or `None` if its attributes are not those of a composite
    /// tensor.
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

    /// Returns the parts that are tensors, except for the tensor with the elements.
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

/// Tensors of the catalog that the pickle combines into quantized and sparse tensors.
#[derive(Debug, Default)]
pub(super) struct CompositeParts {
    /// The integers of quantized tensors. torch loads them together with their scales.
    pub(super) integers: HashSet<TensorId>,
    /// The scales, zero points and axes of quantized tensors.
    pub(super) scales: HashSet<TensorId>,
    /// The shapes of sparse tensors.
    pub(super) shapes: HashSet<TensorId>,
}

impl CompositeParts {
    /// Finds the tensors that are parts of composite tensors in a catalog's tree.
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
