//! Tests reads from and writes to real servers on this machine: moto (S3), nginx, and Azurite. In
//! another test, `huggingface_hub` reads from this crate's test Hub.

#![allow(clippy::unwrap_used, reason = "tests")]

mod servers {
    pub(crate) mod azurite;
    pub(crate) mod hub;
    pub(crate) mod install;
    pub(crate) mod moto;
    pub(crate) mod nginx;
    pub(crate) mod writing;
}
mod support;
