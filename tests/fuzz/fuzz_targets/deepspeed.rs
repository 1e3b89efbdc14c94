//! See `tests/src/fuzz.rs`.
#![no_main]

use tensorferry_deepspeed::DeepSpeed;
use std::sync::LazyLock;
use tensorferry_tests::{fuzz, zip};

type Files = Vec<(String, Vec<u8>)>;
static FILES: LazyLock<Files> = LazyLock::new(|| fuzz::files_of("deepspeed/zero3_fp32/ckpt"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // One of the rank files, by the first byte; the rest is its pickle.
    let Some((&index, pickle)) = bytes.split_first() else { return };
    let names: Vec<&str> = FILES.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with(".pt")).collect();
    let storages: Vec<String> = (0..8).map(|key| format!("m/data/{key}")).collect();
    let mut members: Vec<(&str, &[u8])> = vec![("m/data.pkl", pickle), ("m/version", b"3\n")];
    members.extend(storages.iter().map(|name| (name.as_str(), &[1; 64][..])));
    let _ = fuzz::read_among(&DeepSpeed, &FILES, names[usize::from(index) % names.len()], &zip::stored(&members));
});
