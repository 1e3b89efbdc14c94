//! `tensorferry._native`: the parts of the Python package that must be fast or safe, or that
//! already exist in Rust.
//!
//! The public API of the package is in `python/tensorferry`. This module provides the engine,
//! models and their tensors as bytes, scans as Arrow C streams, and the engine's commands, whose
//! results are plain objects. No thread of the engine waits for the GIL, because calls release the
//! GIL while they work (`work.rs`).

#![expect(clippy::needless_pass_by_value, reason = "pyo3 passes Python arguments by value")]
#![expect(clippy::too_many_arguments, reason = "as many as the command has; the Python functions name them")]

mod arguments;
mod errors;
mod objects;
mod work;

mod dlpack;
mod memory;

mod arrow;
mod commands;
mod engine;
mod mapping;
mod model;
mod program;
mod run;
mod save;
mod scan;

use pyo3::prelude::*;

/// The extension module.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<engine::Engine>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Tensor>()?;
    module.add_class::<mapping::Mapping>()?;
    module.add_class::<scan::Scan>()?;
    module.add("version", env!("CARGO_PKG_VERSION"))
}
