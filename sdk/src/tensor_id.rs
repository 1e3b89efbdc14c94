//! The id of a tensor: its index in the catalog.

/// A tensor of a catalog, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);
