//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_tf_bundle::TfBundle;

libfuzzer_sys::fuzz_target!(|contents: &[u8]| {
    let _ = tensorferry_tests::fuzz::read_block(&TfBundle, contents);
});
