//! A described tensor is a tensor whose dtype and shape are not in a pickle. Instead, they are in a
//! member of a tar archive, or in the JSON of an exported program. This module adds such a tensor
//! to a graph in the form of the call that current versions of torch write. Later stages then need
//! to handle only one form.

use crate::dtype::TorchDtype;
use crate::pickle::{Call, CallKind, Global, Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

/// The storage of a described tensor.
#[derive(Debug, Clone, Copy)]
pub struct DescribedStorage<'a> {
    pub dtype: &'static TorchDtype,
    pub key: &'a str,
    /// Name of the device on which the storage was located.
    pub location: &'a str,
    /// Length of the storage in elements. The numbers in `view` also count elements.
    pub len: u64,
    /// If the storage is a view of a part of another storage, the start and length of that part.
    pub view: Option<(u64, u64)>,
}

/// A tensor whose dtype and shape are not in a pickle.
#[derive(Debug, Clone, Copy)]
pub struct DescribedTensor<'a> {
    /// Storage of which the tensor is a view.
    pub storage: DescribedStorage<'a>,
    pub offset: u64,
    /// Shape of the tensor in torch's elements.
    pub size: &'a [u64],
    pub stride: &'a [u64],
    pub requires_grad: bool,
}

impl DescribedStorage<'_> {
    /// Appends the persistent ID of the storage to the graph.
    pub(crate) fn push(self, graph: &mut Graph) -> Result<ValueId> {
        // A tensor whose dtype has no storage class uses an untyped storage, whose length is in
        // bytes.
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
    /// Appends the call that rebuilds the tensor to the graph.
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
    Error::malformed("a number in a tensor's description does not fit in 63 bits")
}
