//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_tf_bundle::{SavedModel, TfGraph};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz::read(&TfGraph, "graph.pb", bytes);
    let _ = tensorferry_tests::fuzz::read(&SavedModel, "saved_model.pb", bytes);
});
