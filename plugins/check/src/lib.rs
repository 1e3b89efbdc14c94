//! `check.py`, a Python program that checks converted files with the readers of their own
//! frameworks. The program does not use any of ferry's code.
//!
//! `ferry run` writes this program next to each report. The program contains names of formats,
//! which are not allowed in code under `host/`. If you add a format that a Python framework can
//! read, add it to `check.py` too.

#![forbid(unsafe_code)]

/// The source text of `check.py`.
pub const SCRIPT: &str = include_str!("check.py");
