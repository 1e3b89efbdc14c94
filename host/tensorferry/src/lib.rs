//! Conversion of tensors and records between file formats: the engine of `ferry`, as a library.
//!
//! A [`Registry`] holds the formats that a program can use: those that it links, and those of the plugin
//! libraries that it loads. Everything else starts from it.
//!
//! ```
//! use tensorferry::{Dtype, NewTensor, Registry};
//!
//! # fn main() -> tensorferry::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = |name: &str| folder.path().join(name);
//! // Formats are crates: `.with_all(tensorferry_safetensors::formats())`; or loaded: `Registry::load(["plugins"])`.
//! let registry = Registry::new().with_all(tensorferry_sdk::memory::formats());
//!
//! // Write tensors.
//! let numbers: Vec<u8> = (0..6_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
//! registry.save(path("a.mem"), [NewTensor::new("w", Dtype::F32, [3, 2], numbers)])?;
//!
//! // Look into a file; only what is asked for is read.
//! let model = registry.open(path("a.mem"))?;
//! let w = model.tensor("w")?;
//! assert_eq!((w.dtype(), w.shape()), (Dtype::F32, &[3, 2][..]));
//! assert_eq!(w.read_rows(1..2)?, [2_f32, 3.0].map(f32::to_le_bytes).concat());
//!
//! // Convert: in bounded memory, whole or not at all.
//! let report = registry.convert(path("a.mem"), path("b.mem")).step("cast:bf16").run()?;
//! assert_eq!((report.tensors, report.losses.len()), (1, 0));
//! assert_eq!(registry.open(path("b.mem"))?.tensor("w")?.dtype(), Dtype::BF16);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! Nothing is searched for or loaded unless the program says so. The library reads no environment variable
//! but where the system keeps temporary files (and, when a URL is opened, those of
//! [its place](remote)), and changes no signal, limit, allocator or global thread pool
//! of the process: a [`Session`] owns the threads, the memory budget, the limits for hostile input and the
//! cancel token of what is done through a registry. What is opened is owned, `Send`, `Sync` and `'static`.
//!
//! # Features
//!
//! | Feature | What it adds |
//! |---|---|
//! | `dynamic` (default) | `Registry::load`: plugin libraries |
//! | `records` (default) | `Registry::scan`, and conversions of records; without it no Arrow crate is built |
//! | `arrow-60` | batches of `arrow-array` 60, beside the C data stream |
//! | `mmap` | `Tensor::map`, `Tensor::map_private` |
//! | `remote` (default) | inputs and outputs that are URLs: `hf://`, `s3://`, `gs://`, `az://`, `https://` |
//!
//! # Stability
//!
//! This crate follows semantic versioning. The crates that it is made of (`tensorferry-core` and so on) change in any
//! version.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod compare;
pub mod describe;
pub mod formats;
pub mod inspect;
pub mod places;
pub mod receipts;
pub mod remote;
pub mod request;
#[cfg(feature = "records")]
pub mod rows;
pub mod statistics;
pub mod steps;
pub mod values;

mod conversion;
#[cfg(feature = "mmap")]
mod mapped;
mod model;
mod registry;
mod save;
#[cfg(feature = "records")]
mod scan;

pub use conversion::Conversion;
#[cfg(feature = "mmap")]
pub use mapped::{Mapped, MappedPrivate};
pub use model::{Model, OpenOptions, Tensor};
pub use registry::Registry;
pub use save::{NewTensor, SaveOptions};
#[cfg(feature = "records")]
pub use scan::{ArrowArrayStream, Scan};
pub use tensorferry_convert::report::Report;
pub use tensorferry_core::context::loss::LossRecord;
pub use tensorferry_core::context::session::{LinkRules, Session};
pub use tensorferry_core::context::suggest::{or_which, suggest};
#[cfg(feature = "dynamic")]
pub use tensorferry_core::formats::load::PluginSearch;
pub use tensorferry_core::formats::plugin::{PluginIdentity, PluginLibrary};
pub use tensorferry_core::formats::refusal::Refusal;
pub use tensorferry_core::formats::registry::RegisteredFormat;
#[cfg(feature = "dynamic")]
pub use tensorferry_core::formats::scan::scan_plugins;
#[cfg(feature = "dynamic")]
pub use tensorferry_core::formats::search::PluginFolder;
pub use tensorferry_core::formats::used::UsedFormat;
pub use tensorferry_sdk::{
    Description, Dtype, Error, ErrorKind, Format, Limits, Loss, LossKind, Result, Severity, SharedBytes,
    Side, Value,
};

/// What carries records; without the feature, what refuses them.
#[cfg(feature = "records")]
const RECORDS: &dyn tensorferry_convert::record_support::RecordSupport =
    &tensorferry_records::conversion::Records;
#[cfg(not(feature = "records"))]
const RECORDS: &dyn tensorferry_convert::record_support::RecordSupport =
    &tensorferry_convert::record_support::NoRecords;

/// What a program holds on to can go to any thread, and outlive whatever it was made of.
const _: () = {
    const fn is_owned<T: Send + Sync + 'static>() {}
    const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_owned::<Registry>();
    is_owned::<RegisteredFormat>();
    is_owned::<Session>();
    is_owned::<Model>();
    is_owned::<Tensor>();
    is_owned::<Report>();
    #[cfg(feature = "mmap")]
    is_owned::<Mapped>();
    #[cfg(feature = "mmap")]
    is_owned::<MappedPrivate>();
    is_error::<Error>();
};
