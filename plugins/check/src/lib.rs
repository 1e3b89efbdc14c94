//! `check.py` checks converted files with their frameworks' own readers, without using any of
//! ferry's code.
//!
//! `ferry run` writes it next to each report. It knows formats by name, which nothing under `host/`
//! does. Add new formats that a Python framework can read to `check.py`.

#![forbid(unsafe_code)]

/// The source text of `check.py`.
pub const SCRIPT: &str = include_str!("check.py");
