//! Reads and writes files in object stores, on HTTP servers and on the Hugging Face Hub.
//! [`Remotes`] opens their URLs.
//!
//! One tokio thread per process handles all transfers. The thread fetches data before it is read,
//! within a memory budget. Every response is checked against the version of the file that was
//! opened. Temporary failures are retried within the limits of the [`Settings`]. Messages never
//! contain keys, tokens or signed queries.
//!
//! ```no_run
//! use tensorferry_core::context::remote::{Remote, RemoteFile, RemotePlace};
//! use tensorferry_remote::{Remotes, Settings};
//! # fn main() -> tensorferry_sdk::Result<()> {
//! let remotes = Remotes::new(Settings::new(&["parallel=4"])?, 256 << 20);
//! let (place, path) = remotes.place("https://example.org/models/model.safetensors")?.unwrap();
//! let file = place.open(&path)?;
//! let mut start = vec![0; 8];
//! file.read_at(0, &mut start)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! - A place (`http.rs`, `hub.rs`, `object.rs`) finds files by name. An `Origin` (`cache.rs`)
//!   returns ranges of one file. The origin checks that every response is for the version that was
//!   opened. A `CachedFile` (`file.rs`) reads an origin through the cache.
//! - `runtime.rs` runs one tokio thread per process. A forked process starts its own thread,
//!   connections and cache. Calls that wait check ten times per second whether the run was
//!   canceled.
//! - `secret.rs` has a type for secrets that is never displayed. All secrets that were sent to a
//!   server (in settings, headers and the query) are removed from its error messages.
//!
//! The crate is an optional feature of `tensorferry`, because it adds about eighty crates.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod address;
mod body;
mod budget;
mod cache;
mod client;
mod counted_body;
mod credentials;
mod fault;
mod file;
mod http;
mod hub;
mod notes;
mod object;
mod opened_files;
mod pages;
mod remotes;
mod renewal;
mod runtime;
mod secret;
mod settings;
mod spool;
mod version;

#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;
#[cfg(test)]
mod tests;

pub use remotes::Remotes;
pub use secret::{Secret, shown};
pub use settings::{Scope, SettingDescription, Settings};
