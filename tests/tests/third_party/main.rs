//! Crates outside the workspace, built as their authors build them: formats that convert to and
//! from the built-in formats, and plugins that break their contract.
#![expect(clippy::unwrap_used, reason = "tests")]

mod boundary;
mod bridge;
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
