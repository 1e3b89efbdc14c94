//! `check.py` checks converted files with their frameworks' own readers, and with none of ferry's code.
//!
//! `ferry run` writes it beside each report. It knows formats by name, which nothing under `host/` does;
//! a new format that a Python framework reads is added there.

#![forbid(unsafe_code)]

/// The program's text.
pub const SCRIPT: &str = include_str!("check.py");
