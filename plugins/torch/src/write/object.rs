//! Selects the objects that the writer can write as calls. An object in a tree is a class or
//! function with its arguments. The class or function must be one that
//! `torch.load(weights_only=True)` accepts by default (`_get_allowed_globals` in
//! `torch/_weights_only_unpickler.py`). The arguments must be valid, so that the call cannot fail.
//! Other calls from an input's pickle are never written.

use super::tree::StateTree;
use tensorferry_sdk::{Node, NodeId, NodeKind};
use tensorferry_torch_file::TorchDtype;

/// An object that torch accepts with `weights_only=True`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// A dtype such as `torch.float32`, given by its name.
    Dtype(&'static str),
    /// A `torch.Size`, given by its dimensions.
    Size(Vec<i64>),
    /// A `torch.device`, given by its type and index.
    Device { kind: String, index: Option<i64> },
    /// A call of `torch.serialization._get_layout`, given by the name of the layout.
    Layout(&'static str),
    /// A `bytearray`, given by the node that contains its bytes as bytes or as a Latin-1 string.
    /// `None` if the `bytearray` is empty.
    ByteArray(Option<NodeId>),
    /// A `frozenset`, given by the node of its members. It is written as a set, because torch does
    /// not accept frozensets.
    FrozenSet(NodeId),
    /// A `torch.nn.Parameter`. `attributes` describes the values of the parameter that are not
    /// written: its hooks or its attributes.
    Parameter { tensor: NodeId, requires_grad: bool, attributes: Option<&'static str> },
}

/// Dtypes that exist in torch but that no tensor in a catalog can have.
const SHELL_DTYPES: [&str; 14] = [
    "int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4", "uint5",
    "uint6", "uint7",
];

/// Device types that `torch.device` accepts (`c10/core/DeviceType.cpp`).
const DEVICES: [&str; 20] = [
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
];

/// Layouts that `torch.serialization._get_layout` accepts.
const LAYOUTS: [&str; 8] = [
    "torch.strided",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "torch.sparse_csc",
    "torch.sparse_bsr",
    "torch.sparse_bsc",
    "torch._mkldnn",
    "torch.jagged",
];

impl Object {
    /// Returns the object that a node describes, if torch accepts it.
    pub(super) fn of(tree: &StateTree<'_>, id: NodeId) -> Option<Self> {
        let node = tree.node(id)?;
        if node.kind != NodeKind::OBJECT {
            return None;
        }
        let Some((&first, rest)) = node.children.split_first() else {
            return dtype(node.class.strip_prefix("torch.")?).map(Self::Dtype);
        };
        let (class, first) = (&*node.class, tree.node(first)?);
        if class == "builtins.frozenset" && first.kind == NodeKind::LIST && rest.is_empty() {
            return Some(Self::FrozenSet(node.children[0]));
        }
        if first.kind != NodeKind::TUPLE {
            return None;
        }
        let arguments = &*first.children;
        // An object that has state or items in addition to its arguments is not accepted, because
        // they would change the result.
        match class {
            _ if !rest.is_empty() => None,
            "torch.Size" => size(tree, arguments),
            "torch.device" => device(tree, arguments),
            "torch.serialization._get_layout" => layout(tree, arguments),
            "builtins.bytearray" => byte_array(tree, arguments),
            "torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state" => {
                parameter(tree, arguments)
            }
            _ => None,
        }
    }
}

fn dtype(name: &str) -> Option<&'static str> {
    let shell = || SHELL_DTYPES.into_iter().find(|shell| *shell == name);
    TorchDtype::named(name).map(|row| row.name).or_else(shell)
}

/// Parses the arguments of `torch.Size`: the dimensions, or one sequence that contains them.
fn size(tree: &StateTree<'_>, arguments: &[NodeId]) -> Option<Object> {
    let dimensions = match arguments {
        [one] if matches!(tree.node(*one)?.kind, NodeKind::TUPLE | NodeKind::LIST) => {
            &*tree.node(*one)?.children
        }
        all => all,
    };
    dimensions.iter().map(|&id| tree.node(id)?.as_int()).collect::<Option<_>>().map(Object::Size)
}

fn device(tree: &StateTree<'_>, arguments: &[NodeId]) -> Option<Object> {
    let (&kind, rest) = arguments.split_first()?;
    let kind = tree.node(kind)?.as_text()?;
    let (bare, index_in_kind) =
        kind.split_once(':').map_or((kind, None), |(bare, index)| (bare, Some(index)));
    let in_range = |index: i64| (0..128).contains(&index);
    if !DEVICES.contains(&bare) || index_in_kind.is_some_and(|text| !text.parse().is_ok_and(in_range)) {
        return None;
    }
    let index = match rest {
        [] => None,
        [index] if index_in_kind.is_none() => {
            Some(tree.node(*index)?.as_int().filter(|&index| in_range(index))?)
        }
        _ => return None,
    };
    Some(Object::Device { kind: kind.to_owned(), index })
}

fn layout(tree: &StateTree<'_>, arguments: &[NodeId]) -> Option<Object> {
    let [name] = arguments else { return None };
    let name = tree.node(*name)?.as_text()?;
    LAYOUTS.into_iter().find(|layout| *layout == name).map(Object::Layout)
}

/// Parses the arguments of `bytearray`. Protocol 2 stores the bytes as a Latin-1 string. The writer
/// checks the string later, because a check in this function would be repeated for each object that
/// shares the string.
fn byte_array(tree: &StateTree<'_>, arguments: &[NodeId]) -> Option<Object> {
    let content = match *arguments {
        [] => None,
        [bytes] if tree.node(bytes)?.kind == NodeKind::BYTES => Some(bytes),
        [text, codec] if matches!(tree.node(codec)?.as_text()?, "latin-1" | "latin1") => Some(text),
        _ => return None,
    };
    Some(Object::ByteArray(content))
}

/// Returns the content of a `bytearray` as bytes, or `None` if it is a string that is not Latin-1.
pub(super) fn latin1_bytes(node: &Node) -> Option<Vec<u8>> {
    match node.as_text() {
        Some(text) => text.chars().map(|letter| u8::try_from(letter).ok()).collect(),
        None => (node.kind == NodeKind::BYTES).then(|| node.bytes.to_vec()),
    }
}

fn parameter(tree: &StateTree<'_>, arguments: &[NodeId]) -> Option<Object> {
    let [tensor, requires_grad, rest @ ..] = arguments else { return None };
    let kept = tree.node(*tensor)?;
    let data = if kept.kind == NodeKind::ATTRIBUTED { tree.node(*kept.children.first()?)? } else { kept };
    if data.kind != NodeKind::TENSOR {
        return None;
    }
    let requires_grad = tree.node(*requires_grad)?.as_bool()?;
    let empty = |id: &NodeId| tree.node(*id).is_some_and(|node| node.children.is_empty());
    let attributes = match rest {
        [] => None,
        [hooks] if empty(hooks) => None,
        [hooks, state] if empty(hooks) && empty(state) => None,
        [_] => Some("hooks"),
        _ => Some("attributes"),
    };
    Some(Object::Parameter { tensor: *tensor, requires_grad, attributes })
}
