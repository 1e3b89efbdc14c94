//! The formats that there are, where they come from, and which of them an input is.

#[cfg(feature = "dynamic")]
pub mod library;
pub mod options;
pub(crate) mod placeholder;
pub mod probe;
pub mod refusal;
pub mod registry;
#[cfg(feature = "dynamic")]
pub mod search;
pub mod used;
