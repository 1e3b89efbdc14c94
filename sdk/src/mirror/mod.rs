//! Implements both sides of each object that crosses the boundary.
//!
//! A type named `Lent…` wraps an implementation of an SDK trait and is called from the other side.
//! A type named `Remote…` wraps an object of the other side and implements the trait again. A
//! plugin lends formats and receives remote sources. The host lends sources and receives remote
//! formats.

mod byte_sink;
mod catalog_sink;
mod catalog_view;
mod collector;
mod context;
mod description;
mod dtypes;
mod failure;
mod faults;
mod format;
mod layout_sink;
mod loss;
mod nodes;
mod numbers;
mod plan;
mod reader;
#[cfg(feature = "arrow-60")]
mod records;
mod region;
mod seal;
mod source;
mod values;
mod writer;

pub use faults::PluginFaults;
pub use format::RemoteFormat;
pub(crate) use format::lend_formats;
pub use numbers::level;
/// Returns the contents of `ferry_plugin.h`, for plugins in C.
pub use tensorferry_abi::header as c_header;
