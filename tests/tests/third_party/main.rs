//! Tests of crates outside the workspace, which are built in the same way as by their authors. They
//! include formats that convert to and from the built-in formats, and plugins that violate their
//! contract.
#![expect(clippy::unwrap_used, reason = "tests")]

mod aarch64;
mod boundary;
mod bridge;
mod bundled;
mod c;
mod copies;
mod crashes;
mod exceptions;
mod formats;
mod golden;
mod guide;
mod kit;
mod lies;
mod other_arrow;
mod outside;
mod programs;
mod published;
