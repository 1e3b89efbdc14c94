//! `tensorferry._native`: what Python's package is made of that has to be fast, or safe, or is there already.
//!
//! Everything that Python's users see stands in `python/tensorferry`; this module gives it the engine, models and their
//! tensors as bytes, scans as Arrow's C streams, and the engine's commands with their answers as plain objects. No thread
//! of the engine ever waits for Python's lock: calls give it back while they work (`work.rs`).
//!
//! - A call gives the lock back. A long call runs on another thread, while the calling thread
//!   checks for signals every 50 ms and reports progress. A stream of records has threads of its
//!   own, so a consumer may hold the lock while it pulls.
//! - Frameworks allocate. An array is created by its framework and then filled. Only `__dlpack__`
//!   exports memory of this crate (`dlpack.rs`). Saved arrays are written from their own memory if
//!   it is contiguous (`memory.rs`).
//! - Each call has its own session, so it can be canceled separately. So do reads of more than 16
//!   MiB. Data that was being decoded when a call was canceled is decoded again by the next call.
//! - The wheel contains the program and the formats in `_bin`. The module loads the same library of
//!   formats (`plugins/all`) and starts the same `ferry`, to examine new libraries and to run jobs.
//! - `_bin/ferry` is a launcher (`launcher.rs`) that opens this module and calls `program.rs`. A
//!   separate program would contain the engine again, about 8 MB of the wheel. The module opens
//!   without Python because `build-wheel` makes the Python symbols weak.

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
