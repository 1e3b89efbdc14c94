//! Values of tensors: decoded elements, slices and digests.

pub use tensorferry_tensors::content::{Algorithm, ContentDigest, catalog as catalog_digest, digests};
pub use tensorferry_tensors::elements::{Elements, Precision, bits, decode, has_values, unpacked};
pub use tensorferry_tensors::logical::Logical;
pub use tensorferry_tensors::slice::{AxisSlice, read_slice};
pub use tensorferry_tensors::stored::Stored;
