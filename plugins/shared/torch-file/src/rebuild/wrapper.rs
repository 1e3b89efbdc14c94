//! A tensor of a wrapper subclass has no storage. Its elements are computed from tensors among its
//! attributes, and only the code of the class defines the computation. ferry supports the following
//! classes:
//!
//! | Class | Attributes | Elements |
//! |---|---|---|
//! | `DTensor` | `_local_tensor`, `_spec` | the local tensor, if it has the shape of the whole tensor |
//! | `ShardedTensor` | a list of shards | the only shard, if it has the shape of the whole tensor |
//! | torchao's `Int8Tensor`, `IntxUnpackedToInt8Tensor` | `qdata`, `scale`, `zero_point`, `block_size` | `(qdata - zero_point) * scale` |
//! | torchao's `Float8Tensor` | `qdata`, `scale`, `block_size` | `qdata * scale` |
//!
//! Sources: `torch/distributed/tensor/_api.py`, `torch/distributed/_shard/sharded_tensor/api.py`,
//! and `quantization/quantize_/workflows` in torchao 0.18.

use super::view::{Version, View};
use super::{Function, counts, data_of, wrong_count, wrong_kind};
use crate::pickle::{Global, Graph, Value, ValueId};
use tensorferry_sdk::Result;

/// A tensor of a wrapper subclass.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrapper {
    pub class: String,
    pub content: Content,
    /// The attributes: a dict, a pair of a dict and a dict of slots, or a form that only the class
    /// defines.
    pub state: ValueId,
}

/// The elements of a wrapper, as far as ferry can determine them.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// The elements of the wrapper are those of a plain tensor.
    Whole(View),
    /// The file contains only the part of one rank. The string describes the part.
    Piece(String),
    /// The elements are represented by codes with a scale for each block.
    Blocked(Blocked),
    /// ferry does not support the class.
    Unknown,
}

/// Quantized codes that represent numbers, with a scale for each block.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// The codes. Their dtype is I8 or an 8-bit float.
    pub codes: ValueId,
    /// One scale for each block, in block order.
    pub scales: ValueId,
    /// One zero point for each block; `None` if all zero points are zero.
    pub zero_points: Option<ValueId>,
    /// Shape of a block; `None` if the shape of the scales determines it.
    pub block: Option<Vec<u64>>,
    /// Shape of the whole tensor.
    pub size: Vec<u64>,
}

/// Placement classes for which a rank's local tensor contains a part of the tensor, or the whole
/// tensor.
const PLACEMENTS: [&str; 3] = ["Replicate", "Shard", "_StridedShard"];

impl Wrapper {
    /// Parses the arguments of `_rebuild_wrapper_subclass(class, dtype, size, stride, offset,
    /// layout, device, requires_grad)`.
    pub(super) fn of(graph: &Graph, class: &Global, arguments: &[ValueId], state: ValueId) -> Result<Self> {
        let name = "_rebuild_wrapper_subclass";
        let &[_class, _dtype, size, ..] = arguments else { return Err(wrong_count(name, arguments)) };
        let size =
            counts(graph, size).ok_or_else(|| wrong_kind(name, "a tuple of sizes that are not negative"))?;
        let content = match (&*class.module, &*class.name) {
            (module, "DTensor") if module.starts_with("torch.distributed.") => d_tensor(graph, state, &size)?,
            (module, "ShardedTensor") if module.starts_with("torch.distributed.") => {
                sharded(graph, state, &size)?
            }
            (module, name) if module.starts_with("torchao.") => blocked(graph, name, state, size),
            _ => None,
        };
        Ok(Self { class: class.path(), content: content.unwrap_or(Content::Unknown), state })
    }

    /// Returns the view that contains the elements. If the elements are not those of a view,
    /// returns the reason.
    pub(super) fn into_view(self) -> std::result::Result<View, String> {
        match self.content {
            Content::Whole(view) => Ok(view),
            Content::Piece(which) => Err(format!("{which} of a {}", self.class)),
            Content::Blocked(_) => Err(format!("codes of a {}", self.class)),
            Content::Unknown => Err(format!("a {}, whose elements are unknown", self.class)),
        }
    }
}

/// Returns an attribute from a state that is a dict, or a pair of a dict and a dict of slots.
fn attribute(graph: &Graph, state: ValueId, name: &str) -> Option<ValueId> {
    match graph.tuple(state) {
        Some(pair) => pair.iter().find_map(|&state| graph.entry(state, name)),
        None => graph.entry(state, name),
    }
}

/// Parses a `DTensor`. The parts of ranks do not overlap. Therefore, a local tensor that has the
/// shape of the whole tensor contains the whole tensor, regardless of the placement. `Partial`
/// placements are an exception, because their local tensors would have to be summed.
fn d_tensor(graph: &Graph, state: ValueId, size: &[u64]) -> Result<Option<Content>> {
    let Some(local) = attribute(graph, state, "_local_tensor") else { return Ok(None) };
    let spec = attribute(graph, state, "_spec").and_then(|spec| graph.call(spec)?.state);
    let placements = spec.and_then(|spec| graph.sequence(graph.entry(spec, "placements")?));
    let Some(placements) = placements else { return Ok(None) };
    let names = placements.iter().map(|&placement| graph.called(placement).map(|(class, _)| &*class.name));
    let Some(names) = names.collect::<Option<Vec<&str>>>() else { return Ok(None) };
    let Some(local) = plain_view(graph, local)? else { return Ok(None) };
    let placed = names.join(", ");
    Ok(Some(match names.iter().all(|name| PLACEMENTS.contains(name)) {
        true if local.size == size => Content::Whole(local),
        true => Content::Piece(format!("one rank's part {:?} of {size:?} ({placed})", local.size)),
        false => Content::Piece(format!("one rank's terms ({placed})")),
    }))
}

/// Parses a `ShardedTensor`. Its state starts with the list of the rank's shards.
fn sharded(graph: &Graph, state: ValueId, size: &[u64]) -> Result<Option<Content>> {
    let shards = graph.tuple(state).and_then(|state| graph.sequence(*state.first()?));
    let Some(shards) = shards else { return Ok(None) };
    if let &[shard] = shards
        && let Some(tensor) = graph.call(shard).and_then(|call| attribute(graph, call.state?, "tensor"))
        && let Some(view) = plain_view(graph, tensor)?
        && view.size == size
    {
        return Ok(Some(Content::Whole(view)));
    }
    Ok(Some(Content::Piece(format!("{} of the shards of {size:?}", shards.len()))))
}

fn blocked(graph: &Graph, class: &str, state: ValueId, size: Vec<u64>) -> Option<Content> {
    let has_zero_points = match class {
        "Int8Tensor" | "IntxUnpackedToInt8Tensor" => true,
        "Float8Tensor" => false,
        _ => return None,
    };
    let part = |name| attribute(graph, state, name).filter(|&value| *graph.value(value) != Value::None);
    let block = part("block_size").map(|block| {
        graph.sequence(block)?.iter().map(|&dim| graph.count(dim)).collect::<Option<Vec<u64>>>()
    });
    Some(Content::Blocked(Blocked {
        codes: part("qdata")?,
        scales: part("scale")?,
        zero_points: part("zero_point").filter(|_| has_zero_points),
        block: match block {
            Some(block) => Some(block?),
            None => None,
        },
        size,
    }))
}

/// Returns the view of a plain tensor, with or without attributes, or the view inside a parameter.
/// Rejects other wrappers, so that wrappers cannot be nested.
fn plain_view(graph: &Graph, id: ValueId) -> Result<Option<View>> {
    let Some((global, call)) = graph.called(data_of(graph, id)) else { return Ok(None) };
    let arguments = graph.tuple(call.arguments).unwrap_or_default();
    let (version, arguments): (Version, &[ValueId]) = match (Function::of(global), arguments) {
        (Some(Function::View(version)), arguments) => (version, arguments),
        (Some(Function::FromType), &[function, _, inner, _]) => {
            let function = graph.global(function).and_then(Function::of);
            match (function, graph.tuple(inner)) {
                (Some(Function::View(version)), Some(inner)) => (version, inner),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    Ok(View::of(graph, version, arguments)?.ok())
}
