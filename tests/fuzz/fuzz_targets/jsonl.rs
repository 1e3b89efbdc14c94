//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_jsonl::JsonLines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz::read_records(&JsonLines, "in.jsonl", bytes);
});
