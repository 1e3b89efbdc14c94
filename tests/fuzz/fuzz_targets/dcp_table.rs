//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_torch_dcp::TorchDcp;
use std::sync::LazyLock;
use tensorferry_tests::fuzz;

type Files = Vec<(String, Vec<u8>)>;
static FILES: LazyLock<Files> = LazyLock::new(|| fuzz::files_of("torch/dcp_single/dcp"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = fuzz::read_among(&TorchDcp, &FILES, ".metadata", bytes);
});
