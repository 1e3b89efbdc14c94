//! The program `ferry`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tensorferry_cli::run_program())
}
