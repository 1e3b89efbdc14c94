//! The program `ferry`, for the wheel's launcher (`launcher.rs`), which opens this module without Python.
#![expect(unsafe_code, reason = "a symbol that the launcher looks up")]

use std::ffi::c_int;

/// The exit code of a Rust program that has panicked.
const PANICKED: c_int = 101;

/// Runs the program with this process's arguments; gives its exit code.
// SAFETY: nothing else in the process has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ferry_program() -> c_int {
    std::panic::catch_unwind(tensorferry_cli::run_program).map_or(PANICKED, c_int::from)
}
