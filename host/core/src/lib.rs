//! The bottom layer of `tensorferry`. Its API has no stability promise.
//!
//! All other layers build on this layer. The layer contains sessions, the registry of formats and
//! their libraries, and inputs. An input consists of files and of the catalogs that readers create
//! from the files.
#![deny(unsafe_code)]

pub mod context;
pub mod formats;
pub mod platform;
pub mod read;
