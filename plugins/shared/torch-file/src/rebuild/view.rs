//! A view is a dtype, an offset, a shape and strides over a storage: what most tensors are.

use super::{wrong_count, wrong_kind};
use crate::dtype::TorchDtype;
use crate::pickle::{Graph, Value, ValueId};
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
}

/// Which of the functions that make views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
    V3,
}

impl View {
    /// What a rebuild function makes of its arguments; or why it is lost.
    pub(super) fn of(
        graph: &Graph,
        version: Version,
        arguments: &[ValueId],
    ) -> Result<std::result::Result<Self, String>> {
        let (name, counts) = match version {
            Version::V1 => ("_rebuild_tensor", 4..=4),
            Version::V2 => ("_rebuild_tensor_v2", 6..=7),
            Version::V3 => ("_rebuild_tensor_v3", 7..=8),
        };
        let (Some((place, rest)), true) =
            (arguments.split_first_chunk::<4>(), counts.contains(&arguments.len()))
        else {
            return Err(wrong_count(name, arguments));
        };
        let mut view = Self::at(graph, name, place)?;
        if let Some(&flag) = rest.first() {
            view.requires_grad =
                graph.bool(flag).ok_or_else(|| wrong_kind(name, "a bool for requires_grad"))?;
        }
        let mut more = rest.iter().skip(2);
        if version == Version::V3 {
            let dtype = more.next().and_then(|&dtype| graph.global(dtype));
            let dtype = dtype
                .filter(|global| &*global.module == "torch")
                .ok_or_else(|| wrong_kind(name, "a dtype"))?;
            match TorchDtype::named(&dtype.name) {
                Some(row) => view.dtype = Some(row),
                None => return Ok(Err(format!("its dtype {} is not known", dtype.path()))),
            }
        }
        if let Some(&metadata) = more.next() {
            let entries = graph.entries(metadata).ok_or_else(|| wrong_kind(name, "a dict of metadata"))?;
            for (key, value) in entries {
                match (graph.text(key), graph.bool(value)) {
                    (Some("conj"), Some(set)) => view.conjugate = set,
                    (Some("neg"), Some(set)) => view.negative = set,
                    _ => return Ok(Err("it has metadata other than conj and neg".to_owned())),
                }
            }
        }
        Ok(Ok(view))
    }

    /// The view that a storage, an offset, a size and a stride describe.
    pub(super) fn at(
        graph: &Graph,
        name: &str,
        &[storage, offset, size, stride]: &[ValueId; 4],
    ) -> Result<Self> {
        let &Value::Persistent(storage) = graph.value(storage) else {
            return Err(wrong_kind(name, "a storage"));
        };
        let offset = graph.count(offset).ok_or_else(|| wrong_kind(name, "an offset that is not negative"))?;
        let size = super::counts(graph, size)
            .ok_or_else(|| wrong_kind(name, "a tuple of sizes that are not negative"))?;
        let stride = super::counts(graph, stride)
            .ok_or_else(|| wrong_kind(name, "a tuple of strides that are not negative"))?;
        if size.len() != stride.len() {
            return Err(Error::malformed("a tensor's size and stride differ in length")
                .expected(format!("{} strides", size.len()))
                .found(stride.len()));
        }
        Ok(Self {
            storage,
            dtype: None,
            offset,
            size,
            stride,
            requires_grad: false,
            conjugate: false,
            negative: false,
        })
    }
}
