//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_parquet::Parquet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz::read_records(&Parquet, "in.parquet", bytes);
});
