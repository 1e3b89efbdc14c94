//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_safetensors::Safetensors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz::read(&Safetensors, "model.safetensors", bytes);
});
