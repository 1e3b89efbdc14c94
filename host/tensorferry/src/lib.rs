//! Converts tensors and records between file formats. This library is the engine of `ferry`.
//!
//! A [`Registry`] contains the formats that a program can use: formats linked into the program, and
//! formats from the plugin libraries that it loads. All other operations start from the registry.
//!
//! ```
//! use tensorferry::{Dtype, NewTensor, Registry};
//!
//! # fn main() -> tensorferry::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = |name: &str| folder.path().join(name);
//! // Link formats as crates with `.with_all(tensorferry_safetensors::formats())`, or load plugins with
//! // `Registry::load(["plugins"])`.
//! let registry = Registry::new().with_all(tensorferry_sdk::memory::formats());
//!
//! // Write tensors.
//! let numbers: Vec<u8> = (0..6_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
//! registry.save(path("a.mem"), [NewTensor::new("w", Dtype::F32, [3, 2], numbers)])?;
//!
//! // Open a file and read two rows of a tensor.
//! let model = registry.open(path("a.mem"))?;
//! let w = model.tensor("w")?;
//! assert_eq!((w.dtype(), w.shape()), (Dtype::F32, &[3, 2][..]));
//! assert_eq!(w.read_rows(1..2)?, [2_f32, 3.0].map(f32::to_le_bytes).concat());
//!
//! // Convert in bounded memory. The output is complete or absent.
//! let report = registry.convert(path("a.mem"), path("b.mem")).step("cast:bf16").run()?;
//! assert_eq!((report.tensors, report.losses.len()), (1, 0));
//! assert_eq!(registry.open(path("b.mem"))?.tensor("w")?.dtype(), Dtype::BF16);
//! # Ok(())
//! # }
//! ```
//!
//! # Global state
//!
//! The library searches for and loads plugins only if the program requests it. It does not change
//! the process's signal handlers, limits, allocator or global thread pool. A [`Session`] owns the
//! threads, the memory budget, the limits for hostile input and the cancel token. The library reads
//! only two kinds of environment variables: the system's folder for temporary files and, if a URL
//! is opened, the [settings for URLs](remote). Open inputs are owned values: `Send`, `Sync` and
//! `'static`.
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `dynamic` (default) | `Registry::load`: plugin libraries |
//! | `records` (default) | `Registry::scan`, and conversions of records; adds the Arrow crates |
//! | `arrow-60` | batches of `arrow-array` 60, in addition to the C data stream |
//! | `mmap` | `Tensor::map`, `Tensor::map_private` |
//! | `remote` (default) | inputs and outputs that are URLs: `hf://`, `s3://`, `gs://`, `az://`, `https://` |
//!
//! # Stability
//!
//! This crate follows semantic versioning. The crates below it (`tensorferry-core` and so on) may
//! change in any version.
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

/// Support for records. Without the feature `records`, the library rejects inputs that contain
/// records.
#[cfg(feature = "records")]
const RECORDS: &dyn tensorferry_convert::record_support::RecordSupport =
    &tensorferry_records::conversion::Records;
#[cfg(not(feature = "records"))]
const RECORDS: &dyn tensorferry_convert::record_support::RecordSupport =
    &tensorferry_convert::record_support::NoRecords;

/// Checks at compile time that public values own their data and can be sent to any thread.
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
