//! Reading from and writing to real servers on this machine: moto's S3, nginx, and Azurite. In the
//! other direction, `huggingface_hub` reads from the Hub of this crate's own tests.

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
