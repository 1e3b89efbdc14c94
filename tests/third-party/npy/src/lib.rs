//! numpy's two formats, as their users write a plugin: with the SDK alone.
//!
//! `.npy` is one array, `.npz` a zip archive of them. Both are described in
//! `numpy/lib/_format_impl.py`; what numpy cannot hold (bfloat16, 8-bit floats, metadata, ties) is
//! reported as a loss.
#![forbid(unsafe_code)]

mod npy;
mod npz;

mod array;
mod dtype;
mod header;
mod literal;
mod zip;

pub use npy::Npy;
pub use npz::Npz;

tensorferry_sdk::export_plugin!(Npy, Npz);
