//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_torch::Torch;
use tensorferry_tests::zip;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let members: [(&str, &[u8]); 5] = [
        ("m/data.pkl", bytes),
        ("m/constants.pkl", b"\x80\x02)."),
        ("m/data/0", &[1; 64]),
        ("m/version", b"3\n"),
        ("m/extra/note.txt", b"note"),
    ];
    let _ = tensorferry_tests::fuzz::read(&Torch, "model.pt", &zip::stored(&members));
});
