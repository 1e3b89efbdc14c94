//! The id of a tensor: its place in the catalog.

/// A tensor of a catalog, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);
