//! See `tests/src/fuzz.rs`.
#![no_main]

use std::sync::Once;
use tensorferry_parquet::Parquet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The reader takes the parquet library's panics for errors, which is one hook fewer than libFuzzer's: that one
    // ends the process before they are caught. What is not caught still does.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let _ = tensorferry_tests::fuzz::read_records(&Parquet, "in.parquet", bytes);
});
