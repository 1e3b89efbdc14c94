//! Reading from and writing to servers that others wrote, on this machine: moto's S3, nginx, Azurite; and `huggingface_hub` reading from
//! the Hub that this crate's own tests read from.

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
