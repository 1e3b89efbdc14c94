//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_torch::Torch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The reader knows a stream by its first pickle.
    let stream = [&b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."[..], bytes].concat();
    let _ = tensorferry_tests::fuzz::read(&Torch, "model.pt", &stream);
});
