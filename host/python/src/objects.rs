//! Converts documents, values and trees to Python objects.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyDict, PyList, PySet, PyTuple};
use serde_json::Value as Json;
use tensorferry::Value;
use tensorferry_sdk::{Node, NodeId, NodeKind};

/// Converts a JSON document.
pub(crate) fn of_json<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match json {
        Json::Null => py.None().into_bound(py),
        Json::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Json::String(text) => text.into_pyobject(py)?.into_any(),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (_, Some(number)) => number.into_pyobject(py)?.into_any(),
            _ => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Json::Array(items) => {
            let list = PyList::empty(py);
            items.iter().try_for_each(|item| list.append(of_json(py, item)?))?;
            list.into_any()
        }
        Json::Object(entries) => {
            let dict = PyDict::new(py);
            entries.iter().try_for_each(|(key, value)| dict.set_item(key, of_json(py, value)?))?;
            dict.into_any()
        }
    })
}

/// Converts a value of the metadata or of an attribute.
pub(crate) fn of_value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let none = |_: &Node| Ok(py.None().into_bound(py));
    of_nodes(py, value.nodes(), &none)
}

/// Converts a list of nodes, in which children precede their parents, and returns the object of the
/// last node. A node with several parents becomes one shared object. `tensor` converts tensors.
/// Attributes that are set on a value are left out.
pub(crate) fn of_nodes<'py>(
    py: Python<'py>,
    nodes: &[Node],
    tensor: &dyn Fn(&Node) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut made: Vec<Bound<'py, PyAny>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let child = |id: &NodeId| made[id.0 as usize].clone();
        let children = || node.children.iter().map(child);
        let object = match node.kind {
            NodeKind::NONE => py.None().into_bound(py),
            NodeKind::BOOL => node.as_bool().into_pyobject(py)?.into_any(),
            NodeKind::INT => integer(py, node)?,
            NodeKind::FLOAT => node.as_float().into_pyobject(py)?.into_any(),
            NodeKind::COMPLEX => complex(py, &node.bytes),
            NodeKind::TEXT => String::from_utf8_lossy(&node.bytes).into_pyobject(py)?.into_any(),
            NodeKind::BYTES => PyBytes::new(py, &node.bytes).into_any(),
            NodeKind::LIST => PyList::new(py, children().collect::<Vec<_>>())?.into_any(),
            NodeKind::TUPLE => PyTuple::new(py, children().collect::<Vec<_>>())?.into_any(),
            NodeKind::SET => set(py, children())?,
            NodeKind::MAP => {
                let dict = PyDict::new(py);
                for (key, value) in node.entries() {
                    put(&dict, &child(&key), &child(&value))?;
                }
                dict.into_any()
            }
            NodeKind::TENSOR => tensor(node)?,
            NodeKind::ATTRIBUTED if !node.children.is_empty() => child(&node.children[0]),
            NodeKind::NUMBERS => numbers(py, node)?,
            _ => {
                let make = py.import("tensorferry._results")?.getattr("StateObject")?;
                make.call1((&*node.class, PyTuple::new(py, children().collect::<Vec<_>>())?))?
            }
        };
        made.push(object);
    }
    Ok(made.pop().unwrap_or_else(|| py.None().into_bound(py)))
}

fn integer<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyAny>> {
    if let Some(number) = node.as_wide_int() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    let signed = PyDict::new(py);
    signed.set_item("signed", true)?;
    let bytes = PyBytes::new(py, &node.bytes);
    py.get_type::<pyo3::types::PyInt>().call_method("from_bytes", (bytes, "little"), Some(&signed))
}

fn complex<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    let half = |at: usize| {
        bytes.get(at..at + 8).and_then(|half| half.try_into().ok()).map_or(0.0, f64::from_le_bytes)
    };
    PyComplex::from_doubles(py, half(0), half(8)).into_any()
}

fn numbers<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyAny>> {
    let json = Value::of(node.clone(), []).map(|value| value.json()).unwrap_or_default();
    of_json(py, &serde_json::from_str(&json).unwrap_or(Json::Null))
}

/// Creates a set, or a list if an item is not hashable.
fn set<'py>(py: Python<'py>, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let items: Vec<_> = items.collect();
    match PySet::new(py, &items) {
        Ok(set) => Ok(set.into_any()),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(PyList::new(py, items)?.into_any()),
        Err(error) => Err(error),
    }
}

/// Sets an entry. A key that is not hashable, such as a list, is replaced by its string
/// representation.
fn put(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match dict.set_item(key, value) {
        Err(error) if error.is_instance_of::<PyTypeError>(dict.py()) => dict.set_item(key.str()?, value),
        set => set,
    }
}
