//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_tf_bundle::{SavedModel, TfBundle, TfGraph};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = tensorferry_tests::fuzz::read(&TfGraph, "graph.pbtxt", text);
    let _ = tensorferry_tests::fuzz::read(&SavedModel, "saved_model.pbtxt", text);
    let _ = tensorferry_tests::fuzz::read_state_file(&TfBundle, text);
});
