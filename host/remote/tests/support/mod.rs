//! Local servers that tests start.

#![allow(dead_code, reason = "each test uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub(crate) mod bucket;
pub(crate) mod hub;
pub(crate) mod server;
pub(crate) mod store;
