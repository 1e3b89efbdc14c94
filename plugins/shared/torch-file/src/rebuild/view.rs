//! A view consists of a storage, a dtype, an offset, a shape and strides. Most tensors are views.

use super::{wrong_count, wrong_kind};
use crate::dtype::TorchDtype;
use crate::pickle::{Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

/// A tensor that is a view of a storage. The offset and the strides count torch elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Persistent ID of the storage. The container determines the location of this storage.
    pub storage: ValueId,
    /// The dtype, if the call contains it. Otherwise, the dtype is that of the storage.
    pub dtype: Option<&'static TorchDtype>,
    /// Offset of the first element in the storage.
    pub offset: u64,
    /// Shape in torch elements. For packed dtypes, the last dimension is half as long as in the
    /// catalog.
    pub size: Vec<u64>,
    pub stride: Vec<u64>,
    pub requires_grad: bool,
    /// Whether the values are the conjugates of the stored values.
    pub conjugate: bool,
    /// Whether the values are the negatives of the stored values.
    pub negative: bool,
}

/// The version of the function that rebuilds a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
    V3,
}

impl View {
    /// Parses the arguments of a rebuild function. If the tensor is lost, returns the reason.
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
                None => return Ok(Err(format!("its dtype {} is unknown", dtype.path()))),
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

    /// Builds a view from a storage, an offset, a size and strides.
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
            return Err(Error::malformed("the size and stride of a tensor differ in length")
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
