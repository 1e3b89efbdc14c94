//! A view is what torch's rebuild functions make of their arguments: a dtype, an offset, a shape and
//! strides over a storage. A call of another rebuild function is a tensor too, but not one that a
//! view describes.
//!
//! Source of the facts: `torch/_utils.py`, `torch/_tensor.py`.

use crate::dtype::TorchDtype;
use crate::pickle::{CallKind, Global, Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

/// A tensor over a storage. Offset and strides count torch's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The persistent id of the storage: its container knows what that means.
    pub storage: ValueId,
    /// The dtype, where the call names it; else it is the storage's.
    pub dtype: Option<&'static TorchDtype>,
    /// Where it begins in the storage.
    pub offset: u64,
    /// As torch has it: packed dtypes show half of the last dimension.
    pub size: Vec<u64>,
    /// From one index to the next.
    pub stride: Vec<u64>,
    /// Whether gradients are asked for.
    pub requires_grad: bool,
    /// The values are the conjugates of the stored ones.
    pub conjugate: bool,
    /// The values are the negatives of the stored ones.
    pub negative: bool,
    /// The class that wraps the tensor, where it is not torch's own.
    pub class: Option<String>,
}

/// What a rebuild function's call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebuilt {
    /// A tensor over a storage.
    View(View),
    /// A tensor that cannot be described; why.
    Lost(String),
}

/// The tensor, if the value is a call that rebuilds one.
///
/// # Errors
/// Malformed: arguments that torch refuses as well.
pub fn tensor(graph: &Graph, id: ValueId) -> Result<Option<Rebuilt>> {
    let Some((global, call)) = graph.called(id) else { return Ok(None) };
    let (function, arguments) = (kind_of(global), graph.tuple(call.arguments).unwrap_or_default());
    let Some(function) = function.filter(|_| call.keywords.is_none()) else { return Ok(None) };
    if call.state.is_some() || !call.items.is_empty() || !call.appended.is_empty() {
        return Ok(Some(Rebuilt::Lost("the pickle changes it after it is built".to_owned())));
    }
    match function {
        Function::OldClass => {
            Ok((call.kind == CallKind::New).then(|| Rebuilt::Lost("a tensor of torch 0.1".to_owned())))
        }
        Function::FromType => from_type(graph, arguments).map(Some),
        function => rebuild(graph, function, arguments).map(Some),
    }
}

/// Whether the function wraps a tensor, its first argument, as a parameter.
#[must_use]
pub fn is_parameter(global: &Global) -> bool {
    global.is("torch._utils", "_rebuild_parameter")
        || global.is("torch._utils", "_rebuild_parameter_with_state")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    V1,
    V2,
    V3,
    FromType,
    OldClass,
    Lost(&'static str),
}

fn kind_of(global: &Global) -> Option<Function> {
    Some(match (&*global.module, &*global.name) {
        ("torch._utils", "_rebuild_tensor") => Function::V1,
        ("torch._utils", "_rebuild_tensor_v2") => Function::V2,
        ("torch._utils", "_rebuild_tensor_v3") => Function::V3,
        ("torch._tensor", "_rebuild_from_type_v2") => Function::FromType,
        ("torch._utils", "_rebuild_qtensor") => Function::Lost("a quantized tensor"),
        ("torch._utils", "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor") => {
            Function::Lost("a sparse tensor")
        }
        ("torch._utils", "_rebuild_nested_tensor") => Function::Lost("a nested tensor"),
        ("torch._utils", "_rebuild_meta_tensor_no_storage") => {
            Function::Lost("a meta tensor, which has no data")
        }
        ("torch._utils", "_rebuild_wrapper_subclass") => {
            Function::Lost("a wrapper subclass, which has no data of its own")
        }
        (
            "torch._utils",
            "_rebuild_device_tensor_from_numpy"
            | "_rebuild_device_tensor_from_cpu_tensor"
            | "_rebuild_xla_tensor",
        ) => Function::Lost("a tensor of a device of its own"),
        ("torch" | "torch.cuda", name) if is_old_class(name) => Function::OldClass,
        ("torch._tensor", "Tensor") => Function::OldClass,
        _ => return None,
    })
}

/// `Tensor`, `FloatTensor` and its kin: classes that torch 0.1 pickled by their state.
fn is_old_class(name: &str) -> bool {
    name.strip_suffix("Tensor").is_some_and(|kind| kind.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// `_rebuild_from_type_v2(function, type, arguments, state)`: the tensor of a subclass.
fn from_type(graph: &Graph, arguments: &[ValueId]) -> Result<Rebuilt> {
    let &[function, class, inner, _state] = arguments else {
        return Err(wrong_count("_rebuild_from_type_v2", arguments));
    };
    let (Some(function), Some(class), Some(inner)) =
        (graph.global(function), graph.global(class), graph.tuple(inner))
    else {
        return Err(wrong_kind("_rebuild_from_type_v2", "a function, a class and a tuple"));
    };
    let named = |rebuilt| match rebuilt {
        Rebuilt::View(view) => Rebuilt::View(View { class: Some(class.path()), ..view }),
        lost @ Rebuilt::Lost(_) => lost,
    };
    match kind_of(function) {
        Some(kind) if !matches!(kind, Function::FromType | Function::OldClass) => {
            rebuild(graph, kind, inner).map(named)
        }
        _ => Ok(Rebuilt::Lost(format!("a {} that {} would rebuild", class.path(), function.path()))),
    }
}

fn rebuild(graph: &Graph, function: Function, arguments: &[ValueId]) -> Result<Rebuilt> {
    let (name, required, most) = match function {
        Function::V1 => ("_rebuild_tensor", 4, 4),
        Function::V2 => ("_rebuild_tensor_v2", 6, 7),
        Function::V3 => ("_rebuild_tensor_v3", 7, 8),
        Function::Lost(why) => return Ok(Rebuilt::Lost(why.to_owned())),
        Function::FromType | Function::OldClass => {
            return Ok(Rebuilt::Lost("a tensor inside another one".to_owned()));
        }
    };
    let (&[storage, offset, size, stride, ref rest @ ..], true) =
        (arguments, (required..=most).contains(&arguments.len()))
    else {
        return Err(wrong_count(name, arguments));
    };
    let &Value::Persistent(storage) = graph.value(storage) else {
        return Err(wrong_kind(name, "a storage"));
    };
    let offset = graph.count(offset).ok_or_else(|| wrong_kind(name, "an offset that is not negative"))?;
    let size =
        counts(graph, size).ok_or_else(|| wrong_kind(name, "a tuple of sizes that are not negative"))?;
    let stride =
        counts(graph, stride).ok_or_else(|| wrong_kind(name, "a tuple of strides that are not negative"))?;
    if size.len() != stride.len() {
        return Err(Error::malformed("a tensor's size and stride differ in length")
            .expected(format!("{} strides", size.len()))
            .found(stride.len()));
    }
    let requires_grad = match rest.first() {
        Some(&flag) => graph.bool(flag).ok_or_else(|| wrong_kind(name, "a bool for requires_grad"))?,
        None => false,
    };
    let mut view = View {
        storage,
        dtype: None,
        offset,
        size,
        stride,
        requires_grad,
        conjugate: false,
        negative: false,
        class: None,
    };
    let mut more = rest.iter().skip(2);
    if function == Function::V3 {
        let dtype = more.next().and_then(|&dtype| graph.global(dtype));
        let dtype =
            dtype.filter(|global| &*global.module == "torch").ok_or_else(|| wrong_kind(name, "a dtype"))?;
        match TorchDtype::named(&dtype.name) {
            Some(row) => view.dtype = Some(row),
            None => return Ok(Rebuilt::Lost(format!("its dtype {} is not known", dtype.path()))),
        }
    }
    if let Some(&metadata) = more.next() {
        let entries = graph.entries(metadata).ok_or_else(|| wrong_kind(name, "a dict of metadata"))?;
        for (key, value) in entries {
            match (graph.text(key), graph.bool(value)) {
                (Some("conj"), Some(set)) => view.conjugate = set,
                (Some("neg"), Some(set)) => view.negative = set,
                _ => return Ok(Rebuilt::Lost("it has metadata other than conj and neg".to_owned())),
            }
        }
    }
    Ok(Rebuilt::View(view))
}

/// A tuple of numbers, also one that `torch.Size` wraps.
#[must_use]
pub fn counts(graph: &Graph, id: ValueId) -> Option<Vec<u64>> {
    let items = match graph.plain_call(id, "torch", "Size") {
        Some(&[inner]) => graph.tuple(inner)?,
        _ => graph.tuple(id)?,
    };
    items.iter().map(|&item| graph.count(item)).collect()
}

fn wrong_count(name: &str, arguments: &[ValueId]) -> Error {
    Error::malformed(format!("{name} with another number of arguments than torch gives it"))
        .found(arguments.len())
}

fn wrong_kind(name: &str, expected: &str) -> Error {
    Error::malformed(format!("{name} with an argument of the wrong kind")).expected(expected)
}
