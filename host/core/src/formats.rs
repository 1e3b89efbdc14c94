//! The formats that are available, the libraries that contain them, and the detection of an input's
//! format.

#[cfg(feature = "dynamic")]
mod cache;
pub mod data_names;
pub mod document;
#[cfg(feature = "dynamic")]
mod lazy;
#[cfg(feature = "dynamic")]
pub mod library;
#[cfg(feature = "dynamic")]
pub mod load;
pub mod options;
pub mod placeholder;
pub mod plugin;
pub mod probe;
pub mod refusal;
pub mod registry;
#[cfg(feature = "dynamic")]
mod saved;
#[cfg(feature = "dynamic")]
pub mod scan;
#[cfg(feature = "dynamic")]
pub mod search;
#[cfg(feature = "dynamic")]
mod trust;
pub mod used;
