//! `tensorferry._native`: what Python's package is made of that has to be fast, or safe, or is there already.
//!
//! Everything that Python's users see stands in `python/tensorferry`; this module gives it the engine, models and their
//! tensors as bytes, scans as Arrow's C streams, and the engine's commands with their answers as plain objects. No thread
//! of the engine ever waits for Python's lock: calls give it back while they work (`work.rs`).

#![expect(
    clippy::needless_pass_by_value,
    reason = "Python's arguments are made for the call, and are its own"
)]
#![expect(
    clippy::too_many_arguments,
    reason = "as many as the command has; Python's functions give them names"
)]

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
