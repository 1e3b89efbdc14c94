//! Selects the tensors of a catalog that a bundle can store.

use crate::bundle::OBJECT_GRAPH_KEY;
use crate::dtype;
use crate::side_entry::SIDE_ENTRY_KEY;
use tensorferry_sdk::{CatalogView, Dtype, LayoutSink, Result, TensorId, TensorView};

/// Maximum number of dimensions in a TensorFlow shape.
const MAX_DIMENSIONS: usize = 254;

/// A tensor that a bundle can store, and TensorFlow's number for the tensor's dtype.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WritableTensor {
    pub(crate) tensor: TensorId,
    pub(crate) dtype: i32,
}

/// Returns the tensors that a bundle can store. All other tensors are reported as omitted, with a
/// reason.
pub(crate) fn writable_tensors(
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<Vec<WritableTensor>> {
    let mut kept = Vec::new();
    for tensor in catalog.tensor_ids() {
        let view = catalog.tensor(tensor);
        match (dtype::number(view.dtype), unsupported_reason(view)) {
            (Some(dtype), None) => kept.push(WritableTensor { tensor, dtype }),
            (Some(_), Some(why)) => layout.omit(tensor, why)?,
            (None, _) => {
                let info = catalog.dtype_info(view.dtype)?;
                let why = format!("TensorFlow has no dtype {}: {}", info.name(), remedy(view.dtype));
                layout.omit(tensor, &why)?;
            }
        }
    }
    Ok(kept)
}

fn unsupported_reason(view: TensorView<'_>) -> Option<&'static str> {
    if let Some(why) = reserved(view.name) {
        return Some(why);
    }
    let elements = |count: i64, &dim: &u64| count.checked_mul(i64::try_from(dim).ok()?);
    if view.shape.len() > MAX_DIMENSIONS {
        Some("TensorFlow shapes have at most 254 dimensions")
    } else if view.shape.iter().try_fold(1, elements).is_none() {
        Some("TensorFlow rejects shapes whose product overflows before a zero")
    } else {
        None
    }
}

/// Returns the reason why a tensor cannot have this name, or `None` if the name is allowed.
fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("the empty key is reserved for the bundle header; give the tensor a name"),
        OBJECT_GRAPH_KEY => Some("this key is reserved for the object graph; rename the tensor"),
        SIDE_ENTRY_KEY => Some("this key is reserved for ferry's metadata; rename the tensor"),
        _ if name.starts_with('\0') => {
            Some("keys that begin with NUL are reserved for slices; rename the tensor")
        }
        _ => None,
    }
}

/// Returns advice on how to keep tensors of this dtype.
fn remedy(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F8_E8M0 => "cast it to F32",
        _ => "write the original format instead",
    }
}
