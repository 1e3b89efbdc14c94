//! A layer of `tensorferry`, which uses it; its API promises nothing.
//!
//! Everything else builds on it: sessions, the registry of formats and the libraries that they come from, and inputs: their
//! files and what a reader makes of them.
#![deny(unsafe_code)]

pub mod context;
pub mod formats;
pub mod read;
