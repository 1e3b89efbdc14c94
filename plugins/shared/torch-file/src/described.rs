//! A described tensor is one whose dtype and shape stand somewhere else than in a pickle: in a member
//! of a tar archive, in the JSON of an exported program. It enters a graph as the call that torch of
//! today would write, so that everything after it knows one form.

use crate::dtype::TorchDtype;
use crate::pickle::{Call, CallKind, Global, Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

/// The storage of a described tensor.
#[derive(Debug, Clone, Copy)]
pub struct DescribedStorage<'a> {
    /// What its elements are.
    pub dtype: &'static TorchDtype,
    /// Its key.
    pub key: &'a str,
    /// The device that it was on.
    pub location: &'a str,
    /// How many elements it has; all of the following counts them too.
    pub len: u64,
    /// The part of the storage that is meant, as its start and length; `None` for all.
    pub view: Option<(u64, u64)>,
}

/// A tensor over it.
#[derive(Debug, Clone, Copy)]
pub struct DescribedTensor<'a> {
    /// What it is a view of.
    pub storage: DescribedStorage<'a>,
    /// Where it begins.
    pub offset: u64,
    /// Its shape, as torch has it.
    pub size: &'a [u64],
    /// From one index to the next.
    pub stride: &'a [u64],
    /// Whether gradients are asked for.
    pub requires_grad: bool,
}

impl DescribedStorage<'_> {
    /// Appends the persistent id.
    pub(crate) fn push(self, graph: &mut Graph) -> Result<ValueId> {
        // A dtype without a class of its own has a storage of bytes.
        let (module, class, len) = match self.dtype.storage_class {
            Some(class) => ("torch", class, Some(self.len)),
            None => {
                ("torch.storage", "UntypedStorage", self.len.checked_mul(self.dtype.element_bytes.into()))
            }
        };
        let len = len.ok_or_else(too_long)?;
        let view = match self.view {
            Some((start, len)) => {
                let items = [push_text(graph, ""), push_count(graph, start)?, push_count(graph, len)?];
                push_tuple(graph, &items)?
            }
            None => graph.push(Value::None),
        };
        let items = [
            push_text(graph, "storage"),
            push_global(graph, module, class),
            push_text(graph, self.key),
            push_text(graph, self.location),
            push_count(graph, len)?,
            view,
        ];
        let id = push_tuple(graph, &items)?;
        Ok(graph.push(Value::Persistent(id)))
    }
}

impl DescribedTensor<'_> {
    /// Appends the call that rebuilds it.
    pub(crate) fn push(self, graph: &mut Graph) -> Result<ValueId> {
        let typed = self.storage.dtype.storage_class.is_some();
        let function = if typed { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" };
        let function = push_global(graph, "torch._utils", function);
        let mut arguments = vec![
            self.storage.push(graph)?,
            push_count(graph, self.offset)?,
            push_counts(graph, self.size)?,
            push_counts(graph, self.stride)?,
            graph.push(Value::Bool(self.requires_grad)),
            graph.push(Value::None),
        ];
        if !typed {
            arguments.push(push_global(graph, "torch", self.storage.dtype.name));
        }
        let arguments = push_tuple(graph, &arguments)?;
        Ok(graph.push(Value::Call(Box::new(Call {
            kind: CallKind::Function,
            function,
            arguments,
            keywords: None,
            state: None,
            items: Vec::new(),
            appended: Vec::new(),
        }))))
    }
}

/// Appends a string.
pub(crate) fn push_text(graph: &mut Graph, text: &str) -> ValueId {
    graph.push(Value::Text(text.into()))
}

fn push_count(graph: &mut Graph, count: u64) -> Result<ValueId> {
    let count = i64::try_from(count).map_err(|_| too_long())?;
    Ok(graph.push(Value::Int(count)))
}

fn push_counts(graph: &mut Graph, counts: &[u64]) -> Result<ValueId> {
    let items = counts.iter().map(|&count| push_count(graph, count)).collect::<Result<Vec<_>>>()?;
    push_tuple(graph, &items)
}

fn push_tuple(graph: &mut Graph, items: &[ValueId]) -> Result<ValueId> {
    let tuple = graph.tuple_of(items).ok_or_else(|| Error::limit("too many values in tuples"))?;
    Ok(graph.push(tuple))
}

fn push_global(graph: &mut Graph, module: &str, name: &str) -> ValueId {
    let global = graph.intern(Global { module: module.into(), name: name.into() });
    graph.push(Value::Global(global))
}

fn too_long() -> Error {
    Error::malformed("a number of a tensor's description does not fit 63 bits")
}
