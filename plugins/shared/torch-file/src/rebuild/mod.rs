//! Describes the tensors that the rebuild functions in torch's pickles would create from their
//! arguments. No function is called.
//!
//! | File | Contents |
//! |---|---|
//! | `view.rs` | [`View`]: a tensor that is a view of a storage |
//! | `quantized.rs` | [`Quantized`]: integers with scales |
//! | `sparse.rs` | [`Sparse`]: values and their positions |
//! | `wrapper.rs` | [`Wrapper`]: classes whose tensors consist of other tensors |
//!
//! Sources: `torch/_utils.py` and `torch/_tensor.py`. For files written before torch 1.0, the
//! sources are the same Python files in releases 0.1 to 0.4.

mod quantized;
mod sparse;
mod view;
mod wrapper;

pub use quantized::{ChannelNumbers, Quantized, Scheme};
pub use sparse::{Layout, Sparse};
pub use view::View;
pub use wrapper::{Blocked, Content, Wrapper};

use crate::pickle::{CallKind, Global, Graph, ValueId};
use tensorferry_sdk::{Error, Result};
use view::Version;

/// The tensor that a call of a rebuild function would create.
#[derive(Debug, Clone, PartialEq)]
pub enum RebuiltTensor {
    /// A tensor that is a view of a storage.
    View(View),
    /// A quantized tensor, which consists of integers with scales.
    Quantized(Quantized),
    /// A sparse tensor, which consists of values and their positions.
    Sparse(Sparse),
    /// A nested tensor, which consists of tensors of different shapes in one buffer. The variant
    /// contains the names and values of its parts.
    Nested([(&'static str, ValueId); 4]),
    /// A tensor that contains the elements of a numpy array.
    Array(ValueId),
    /// A tensor of a `torch.Tensor` subclass.
    Subclass(Box<Subclass>),
    /// A tensor of a wrapper subclass, which has no storage and consists of other tensors.
    Wrapper(Box<Wrapper>),
    /// A tensor that cannot be described, with the reason.
    Lost(String),
}

impl RebuiltTensor {
    /// Returns the view, without the class of a subclass. If the tensor is not a view, returns the
    /// reason for the user.
    pub fn into_view(self) -> std::result::Result<View, String> {
        match self {
            Self::View(view) => Ok(view),
            Self::Subclass(subclass) => subclass.tensor.into_view(),
            Self::Wrapper(wrapper) => wrapper.into_view(),
            Self::Quantized(_) => Err("a quantized tensor".to_owned()),
            Self::Sparse(_) => Err("a sparse tensor".to_owned()),
            Self::Nested(_) => Err("a nested tensor".to_owned()),
            Self::Array(_) => Err("a numpy array".to_owned()),
            Self::Lost(why) => Err(why),
        }
    }
}

/// A tensor of a `torch.Tensor` subclass.
#[derive(Debug, Clone, PartialEq)]
pub struct Subclass {
    pub class: String,
    /// The tensor without the subclass.
    pub tensor: RebuiltTensor,
    /// The attributes: a dict, or a pair of a dict and a dict of slots. Either dict may be `None`.
    pub state: ValueId,
}

/// If the value is a call that rebuilds a tensor, returns the tensor. Fails if torch would also
/// reject the arguments.
pub fn tensor(graph: &Graph, id: ValueId) -> Result<Option<RebuiltTensor>> {
    let Some((global, call)) = graph.called(id) else { return Ok(None) };
    let (function, arguments) = (Function::of(global), graph.tuple(call.arguments).unwrap_or_default());
    let Some(function) = function.filter(|_| call.keywords.is_none()) else { return Ok(None) };
    let is_changed = !call.items.is_empty() || !call.appended.is_empty();
    match (function, call.state) {
        (Function::OldClass, None) if call.kind == CallKind::Function => return Ok(None),
        (Function::OldClass, Some(state)) if !is_changed => return old_class(graph, state),
        (_, None) if !is_changed => {}
        _ => return Ok(Some(RebuiltTensor::Lost("the pickle changes it after creating it".to_owned()))),
    }
    let rebuilt = match function {
        Function::FromType => from_type(graph, arguments)?,
        Function::OnDevice => on_device(graph, arguments)?,
        function => plain(graph, function, arguments)?,
    };
    Ok(Some(rebuilt))
}

/// If the value is a parameter, returns the tensor inside it.
#[must_use]
pub fn data_of_parameter(graph: &Graph, id: ValueId) -> Option<ValueId> {
    let (global, call) = graph.called(id)?;
    let data = is_parameter(global).then(|| graph.tuple(call.arguments)?.first().copied());
    data.flatten().or_else(|| data_of_old_parameter(graph, id))
}

/// Returns the innermost tensor of nested parameters. If the value is not a parameter, returns the
/// value itself.
pub(crate) fn data_of(graph: &Graph, mut id: ValueId) -> ValueId {
    // The loop terminates, because the arguments of a call have lower indices than the call.
    while let Some(inner) = data_of_parameter(graph, id) {
        id = inner;
    }
    id
}

/// If the value is a parameter that torch 0.1 to 0.3 wrote, returns the tensor inside it. These
/// versions pickled a parameter as a call to its class.
#[must_use]
pub(crate) fn data_of_old_parameter(graph: &Graph, id: ValueId) -> Option<ValueId> {
    let (global, call) = graph.called(id)?;
    is_old_parameter(global).then(|| graph.tuple(call.arguments)?.first().copied()).flatten()
}

/// Returns whether the function wraps its first argument, a tensor, as a parameter.
#[must_use]
pub fn is_parameter(global: &Global) -> bool {
    global.is("torch._utils", "_rebuild_parameter")
        || global.is("torch._utils", "_rebuild_parameter_with_state")
}

/// Returns whether the function or class creates a tensor or a parameter from its arguments.
pub(crate) fn is_rebuild(global: &Global) -> bool {
    Function::of(global).is_some() || is_parameter(global) || is_old_parameter(global)
}

fn is_old_parameter(global: &Global) -> bool {
    global.is("torch.nn.parameter", "Parameter") || global.is("torch.autograd.variable", "Variable")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    View(Version),
    Quantized,
    Sparse,
    Nested,
    FromType,
    Wrapper,
    OnDevice,
    OldClass,
    Lost(&'static str),
}

impl Function {
    fn of(global: &Global) -> Option<Self> {
        Some(match (&*global.module, &*global.name) {
            ("torch._utils", "_rebuild_tensor") => Self::View(Version::V1),
            ("torch._utils", "_rebuild_tensor_v2") => Self::View(Version::V2),
            ("torch._utils", "_rebuild_tensor_v3") => Self::View(Version::V3),
            ("torch._tensor", "_rebuild_from_type_v2") => Self::FromType,
            ("torch._utils", "_rebuild_qtensor") => Self::Quantized,
            ("torch._utils", "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor") => Self::Sparse,
            ("torch._utils", "_rebuild_nested_tensor") => Self::Nested,
            ("torch._utils", "_rebuild_meta_tensor_no_storage") => {
                Self::Lost("it is a meta tensor, which has no data")
            }
            ("torch._utils", "_rebuild_wrapper_subclass") => Self::Wrapper,
            (
                "torch._utils",
                "_rebuild_device_tensor_from_numpy"
                | "_rebuild_device_tensor_from_cpu_tensor"
                | "_rebuild_xla_tensor",
            ) => Self::OnDevice,
            ("torch.nn.parameter", "UninitializedParameter" | "UninitializedBuffer") => {
                Self::Lost("it is an uninitialized parameter, which has no data")
            }
            ("torch" | "torch.cuda", name) if is_old_class(name) => Self::OldClass,
            ("torch._tensor", "Tensor") => Self::OldClass,
            _ => return None,
        })
    }
}

/// Returns whether this is a class whose objects torch 0.1 pickled by their state: `Tensor`,
/// `FloatTensor` and similar classes.
fn is_old_class(name: &str) -> bool {
    name.strip_suffix("Tensor").is_some_and(|kind| kind.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Parses an object of an old class, whose state (the argument of BUILD) is `(storage, offset,
/// size, stride)`.
fn old_class(graph: &Graph, state: ValueId) -> Result<Option<RebuiltTensor>> {
    let name = "a tensor of torch 0.1";
    let place = graph.tuple(state).and_then(|state| <&[ValueId; 4]>::try_from(state).ok());
    let place = place.ok_or_else(|| wrong_kind(name, "a storage, an offset, a size and a stride"))?;
    View::at(graph, name, place).map(|view| Some(RebuiltTensor::View(view)))
}

/// Parses `_rebuild_from_type_v2(function, type, arguments, state)`, which creates a tensor of a
/// subclass.
fn from_type(graph: &Graph, arguments: &[ValueId]) -> Result<RebuiltTensor> {
    let &[function, class, inner, state] = arguments else {
        return Err(wrong_count("_rebuild_from_type_v2", arguments));
    };
    let (Some(function), Some(class), Some(inner)) =
        (graph.global(function), graph.global(class), graph.tuple(inner))
    else {
        return Err(wrong_kind("_rebuild_from_type_v2", "a function, a class and a tuple"));
    };
    let tensor = match Function::of(function) {
        Some(Function::Wrapper) => {
            let wrapper = Wrapper::of(graph, class, inner, state)?;
            return Ok(RebuiltTensor::Wrapper(Box::new(wrapper)));
        }
        Some(kind) if !matches!(kind, Function::FromType | Function::OldClass | Function::OnDevice) => {
            plain(graph, kind, inner)?
        }
        _ => RebuiltTensor::Lost(format!(
            "ferry cannot read a {}, which {} rebuilds",
            class.path(),
            function.path()
        )),
    };
    // The function is also called for plain tensors that have attributes.
    let is_plain = class.is("torch._tensor", "Tensor") || class.is("torch", "Tensor");
    let class = if is_plain { String::new() } else { class.path() };
    Ok(RebuiltTensor::Subclass(Box::new(Subclass { class, tensor, state })))
}

/// Parses `_rebuild_device_tensor_from_*(data, dtype, device, requires_grad)`, which creates a
/// tensor on a device that has no storages. The result has the dtype of `data`, even if `dtype` is
/// different.
fn on_device(graph: &Graph, arguments: &[ValueId]) -> Result<RebuiltTensor> {
    let name = "a tensor of a device without storages";
    let &[data, _dtype, _device, requires_grad] = arguments else { return Err(wrong_count(name, arguments)) };
    let requires_grad =
        graph.bool(requires_grad).ok_or_else(|| wrong_kind(name, "a bool for requires_grad"))?;
    let inner = match graph.called(data) {
        Some((global, call)) => match Function::of(global) {
            Some(kind @ Function::View(_)) => {
                plain(graph, kind, graph.tuple(call.arguments).unwrap_or_default())?
            }
            _ => RebuiltTensor::Array(data),
        },
        None => return Err(wrong_kind(name, "a tensor or an array")),
    };
    Ok(match inner {
        RebuiltTensor::View(view) => RebuiltTensor::View(View { requires_grad, ..view }),
        other => other,
    })
}

/// Parses a call of a function whose arguments do not include the result of another rebuild
/// function.
fn plain(graph: &Graph, function: Function, arguments: &[ValueId]) -> Result<RebuiltTensor> {
    let or_lost = |why| Ok(RebuiltTensor::Lost(why));
    match function {
        Function::View(version) => {
            View::of(graph, version, arguments)?.map_or_else(or_lost, |view| Ok(RebuiltTensor::View(view)))
        }
        Function::Quantized => Quantized::of(graph, arguments)?
            .map_or_else(or_lost, |quantized| Ok(RebuiltTensor::Quantized(quantized))),
        Function::Sparse => {
            Sparse::of(graph, arguments)?.map_or_else(or_lost, |sparse| Ok(RebuiltTensor::Sparse(sparse)))
        }
        Function::Nested => match *arguments {
            [values, sizes, strides, offsets] => Ok(RebuiltTensor::Nested([
                ("values", values),
                ("sizes", sizes),
                ("strides", strides),
                ("offsets", offsets),
            ])),
            _ => Err(wrong_count("_rebuild_nested_tensor", arguments)),
        },
        Function::Lost(why) => or_lost(why.to_owned()),
        Function::OldClass => or_lost("it is a torch 0.1 tensor without its storage".to_owned()),
        Function::FromType | Function::OnDevice => or_lost("it is a tensor inside another tensor".to_owned()),
        Function::Wrapper => or_lost("it is a wrapper subclass, but its class is missing".to_owned()),
    }
}

/// Returns the non-negative integers in a tuple. The tuple may be wrapped in `torch.Size`.
#[must_use]
pub fn counts(graph: &Graph, id: ValueId) -> Option<Vec<u64>> {
    let items = match graph.plain_call(id, "torch", "Size") {
        Some(&[inner]) => graph.tuple(inner)?,
        _ => graph.tuple(id)?,
    };
    items.iter().map(|&item| graph.count(item)).collect()
}

fn wrong_count(name: &str, arguments: &[ValueId]) -> Error {
    Error::malformed(format!("{name}: wrong number of arguments")).found(arguments.len())
}

fn wrong_kind(name: &str, expected: &str) -> Error {
    Error::malformed(format!("{name}: argument of the wrong type")).expected(expected)
}
