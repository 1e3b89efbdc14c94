//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_torch::Torch;
use tensorferry_tests::zip;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let members: [(&str, &[u8]); 5] = [
        ("m/archive_format", b"pt2"),
        ("m/models/model.json", b"{}"),
        ("m/data/weights/model_weights_config.json", bytes),
        ("m/data/weights/weight_0", &[1; 64]),
        ("m/.data/version", b"6\n"),
    ];
    let _ = tensorferry_tests::fuzz::read(&Torch, "model.pt2", &zip::stored(&members));
});
