//! See `tests/src/fuzz_records.rs`.
#![no_main]

use tensorferry_tfrecord::TfRecord;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tensorferry_tests::fuzz_records::read_file(&TfRecord, bytes);
});
