//! The entry point of the program `ferry`. The wheel's launcher (`launcher.rs`) loads this module
//! without Python and calls this entry point.
#![expect(unsafe_code, reason = "the launcher looks up the symbol")]

use std::ffi::c_int;

/// Exit code of a Rust program that has panicked.
const PANICKED: c_int = 101;

/// Runs the program with the arguments of this process and returns its exit code.
// SAFETY: no other symbol in the process has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ferry_program() -> c_int {
    std::panic::catch_unwind(tensorferry_cli::run_program).map_or(PANICKED, c_int::from)
}
