//! Parses numpy arrays and scalars in pickles. Both consist of a dtype and bytes.
//!
//! ```text
//! numpy.core.multiarray.scalar(dtype, bytes)
//! numpy.core.multiarray._reconstruct(class, (0,), b"b")    BUILD (1, shape, dtype, is Fortran, bytes)
//! numpy.core.numeric._frombuffer(bytes, dtype, shape, "C" | "F")               protocol 5
//! numpy.dtype("f4", False, True)                           BUILD (3, "<" | ">" | "|", None, ...)
//! ```
//! Numpy 2 uses `numpy._core` instead of `numpy.core`.
//!
//! Sources: `numpy/_core/src/multiarray/{methods,descriptor}.c` in numpy 2.4, and pickles that this
//! version wrote.

use crate::pickle::{Global, Graph, ValueId};
use std::borrow::Cow;
use tensorferry_sdk::{ByteOrder, Dtype, DtypeInfo, Error, Node, NodeKind, Result, element_count};

/// An array whose elements a tensor can contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array<'g> {
    pub(crate) dtype: Dtype,
    pub(crate) byte_order: ByteOrder,
    pub(crate) shape: Vec<u64>,
    /// Whether the first index varies fastest.
    pub(crate) is_fortran: bool,
    pub(crate) bytes: Cow<'g, [u8]>,
}

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Number(Dtype),
    /// A UTF-32 string, padded with zeros.
    Text,
    /// A byte string, padded with zeros.
    Bytes,
}

/// The dtype, numpy's type code, and numpy's scalar class of each number type.
const DTYPES: [(Dtype, &str, &str); 14] = [
    (Dtype::BOOL, "b1", "numpy.bool"),
    (Dtype::I8, "i1", "numpy.int8"),
    (Dtype::I16, "i2", "numpy.int16"),
    (Dtype::I32, "i4", "numpy.int32"),
    (Dtype::I64, "i8", "numpy.int64"),
    (Dtype::U8, "u1", "numpy.uint8"),
    (Dtype::U16, "u2", "numpy.uint16"),
    (Dtype::U32, "u4", "numpy.uint32"),
    (Dtype::U64, "u8", "numpy.uint64"),
    (Dtype::F16, "f2", "numpy.float16"),
    (Dtype::F32, "f4", "numpy.float32"),
    (Dtype::F64, "f8", "numpy.float64"),
    (Dtype::C64, "c8", "numpy.complex64"),
    (Dtype::C128, "c16", "numpy.complex128"),
];

/// Returns whether a function creates a numpy array.
pub(crate) fn makes_array(global: &Global) -> bool {
    is_core(global, "multiarray", "_reconstruct") || is_core(global, "numeric", "_frombuffer")
}

fn is_core(global: &Global, module: &str, name: &str) -> bool {
    let parent = ["numpy.core.", "numpy._core."].iter().find_map(|parent| global.module.strip_prefix(parent));
    parent == Some(module) && &*global.name == name
}

/// Returns the array if the value is a numpy array. If a tensor cannot contain its elements, the
/// inner result is an error that describes the elements.
pub(crate) fn array(graph: &Graph, id: ValueId) -> Result<Option<std::result::Result<Array<'_>, String>>> {
    let Some((global, call)) = graph.called(id).filter(|(global, _)| makes_array(global)) else {
        return Ok(None);
    };
    let state = call.state.and_then(|state| graph.tuple(state));
    let parts = match (state, graph.tuple(call.arguments)) {
        // The state of an array from numpy 1.0 does not start with a version.
        (Some(&[_, shape, dtype, order, data] | &[shape, dtype, order, data]), _) => {
            graph.bool(order).map(|is_fortran| (shape, dtype, is_fortran, data))
        }
        (None, Some(&[data, dtype, shape, order])) if is_core(global, "numeric", "_frombuffer") => {
            graph.text(order).map(|order| (shape, dtype, order == "F", data))
        }
        _ => None,
    };
    let unknown = || Ok(Some(Err("an unknown form".to_owned())));
    let Some((shape, dtype, is_fortran, data)) = parts else { return unknown() };
    let Some(shape) = graph
        .tuple(shape)
        .and_then(|dims| dims.iter().map(|&dim| graph.count(dim)).collect::<Option<Vec<_>>>())
    else {
        return unknown();
    };
    let (element, byte_order) = match dtype_of(graph, dtype) {
        Ok(known) => known,
        Err(name) => return Ok(Some(Err(name))),
    };
    let Element::Number(dtype) = element else { return Ok(Some(Err("text".to_owned()))) };
    let Some(bytes) = graph.bytes(data).or_else(|| byte_array(graph, data)) else { return unknown() };
    let width = dtype.info().and_then(DtypeInfo::element_bytes).map_or(1, u64::from);
    let expected = element_count(&shape)?.checked_mul(width);
    if expected != Some(bytes.len() as u64) {
        return Err(Error::malformed("the length of a numpy array does not match its shape")
            .expected(format!("{shape:?} of {width} bytes each"))
            .found(format!("{} bytes", bytes.len())));
    }
    Ok(Some(Ok(Array { dtype, byte_order, shape, is_fortran, bytes })))
}

/// If the value is a numpy number or string, returns it as a node with numpy's class.
pub(crate) fn scalar(graph: &Graph, id: ValueId) -> Option<Node> {
    let (global, call) = graph.called(id)?;
    if !is_core(global, "multiarray", "scalar") {
        return None;
    }
    let &[dtype, bytes] = graph.tuple(call.arguments)? else { return None };
    let (element, byte_order) = dtype_of(graph, dtype).ok()?;
    let bytes = graph.bytes(bytes)?;
    let (node, class) = match element {
        Element::Number(dtype) => {
            let (_, _, class) = DTYPES.iter().find(|(known, ..)| *known == dtype)?;
            (number(dtype, byte_order, &bytes)?, *class)
        }
        Element::Text => (Node::text(&utf32(byte_order, &bytes)?), "numpy.str_"),
        Element::Bytes => {
            let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            (Node::scalar(NodeKind::BYTES, &bytes[..len]), "numpy.bytes_")
        }
    };
    Some(Node { class: class.into(), ..node })
}

fn number(dtype: Dtype, byte_order: ByteOrder, bytes: &[u8]) -> Option<Node> {
    let info = dtype.info()?;
    if info.element_bytes()? as usize != bytes.len() {
        return None;
    }
    let mut bytes = bytes.to_vec();
    if byte_order == ByteOrder::Big {
        bytes.chunks_exact_mut(info.swap_unit().max(1) as usize).for_each(<[u8]>::reverse);
    }
    let double = |bytes: &[u8]| bytes.try_into().ok().map(f64::from_le_bytes);
    let single = |bytes: &[u8]| bytes.try_into().ok().map(|bytes| f64::from(f32::from_le_bytes(bytes)));
    let half = |bytes: &[u8]| bytes.try_into().ok().map(|bytes| half::f16::from_le_bytes(bytes).to_f64());
    let complex = |part: &dyn Fn(&[u8]) -> Option<f64>| {
        let (real, imaginary) = bytes.split_at(bytes.len() / 2);
        let parts = [part(real)?.to_le_bytes(), part(imaginary)?.to_le_bytes()];
        Some(Node::scalar(NodeKind::COMPLEX, &parts.concat()))
    };
    match dtype {
        Dtype::BOOL => Some(Node::bool(bytes != [0])),
        Dtype::F16 => half(&bytes).map(Node::float),
        Dtype::F32 => single(&bytes).map(Node::float),
        Dtype::F64 => double(&bytes).map(Node::float),
        Dtype::C64 => complex(&single),
        Dtype::C128 => complex(&double),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide[..bytes.len()].copy_from_slice(&bytes);
            Some(Node::int(i64::from_le_bytes(wide)))
        }
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(&bytes);
            // The length includes an additional byte for the sign.
            let value = u64::from_le_bytes(wide);
            let long = [&wide[..], &[0]].concat();
            Some(i64::try_from(value).map_or_else(|_| Node::scalar(NodeKind::INT, &long), Node::int))
        }
        _ => None,
    }
}

fn utf32(byte_order: ByteOrder, bytes: &[u8]) -> Option<String> {
    let (units, rest) = bytes.as_chunks();
    let unit = |&unit: &[u8; 4]| match byte_order {
        ByteOrder::Little => u32::from_le_bytes(unit),
        ByteOrder::Big => u32::from_be_bytes(unit),
    };
    let text: Option<String> = units.iter().map(|bytes| char::from_u32(unit(bytes))).collect();
    rest.is_empty().then_some(text?).map(|text| text.trim_end_matches('\0').to_owned())
}

/// Parses a `numpy.dtype`. If the dtype is unknown, the error is its name.
fn dtype_of(graph: &Graph, id: ValueId) -> std::result::Result<(Element, ByteOrder), String> {
    let unknown = || "an unknown dtype".to_owned();
    let (global, call) = graph.called(id).ok_or_else(unknown)?;
    let &[first, ..] = graph.tuple(call.arguments).unwrap_or_default() else { return Err(unknown()) };
    if !global.is("numpy", "dtype") {
        return Err(unknown());
    }
    if let Some(class) = graph.global(first) {
        let number = (&*class.module == "ml_dtypes").then(|| ml_dtype(&class.name)).flatten();
        let number = number.ok_or_else(|| format!("dtype {:.80}", class.path()))?;
        return Ok((Element::Number(number), ByteOrder::Little));
    }
    let text = graph.text(first).ok_or_else(unknown)?;
    let order = match call.state.and_then(|state| graph.tuple(state)) {
        Some(&[_version, order, _subarray, names, ..])
            if *graph.value(names) == crate::pickle::Value::None =>
        {
            graph.text(order).ok_or_else(unknown)?
        }
        Some(_) => return Err("a structured dtype".to_owned()),
        None => "=",
    };
    let (order, code) = match text.split_at_checked(1) {
        Some((prefix @ ("<" | ">" | "|" | "="), code)) => (prefix, code),
        _ => (order, text),
    };
    let byte_order = if order == ">" { ByteOrder::Big } else { ByteOrder::Little };
    let known = DTYPES.iter().find(|(_, known, _)| *known == code);
    let element = match known {
        Some(&(dtype, ..)) => Element::Number(dtype),
        None if code == "?" => Element::Number(Dtype::BOOL),
        None if code.starts_with('U') => Element::Text,
        None if code.starts_with('S') => Element::Bytes,
        None => return Err(format!("dtype {code:.40}")),
    };
    Ok((element, byte_order))
}

/// Returns a dtype that the package `ml_dtypes` adds to numpy.
fn ml_dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "bfloat16" => Dtype::BF16,
        "float8_e4m3fn" => Dtype::F8_E4M3,
        "float8_e5m2" => Dtype::F8_E5M2,
        "float8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
        "float8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
        "float8_e4m3b11fnuz" => Dtype::F8_E4M3B11FNUZ,
        "float8_e8m0fnu" => Dtype::F8_E8M0,
        _ => return None,
    })
}

/// Returns the bytes of a `bytearray`, which contains the data of an array in protocol 5.
fn byte_array(graph: &Graph, id: ValueId) -> Option<Cow<'_, [u8]>> {
    match *graph.plain_call(id, "builtins", "bytearray")? {
        [] => Some(Cow::Borrowed(&[])),
        [bytes] => graph.bytes(bytes),
        _ => None,
    }
}
