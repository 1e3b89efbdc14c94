//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_torch::Torch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz::read(&Torch, "model.pt", bytes);
});
