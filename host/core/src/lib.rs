//! The bottom layer of `tensorferry`. Its API has no stability promise.
//!
//! All other layers build on this layer. It contains sessions, the registry of formats and their
//! libraries, and inputs: their files, and the catalogs that readers make from them.
#![deny(unsafe_code)]

pub mod context;
pub mod formats;
pub mod read;
