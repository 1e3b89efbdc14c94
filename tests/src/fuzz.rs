//! A fuzz target reads hostile bytes with one reader and must come back: with an error or a
//! catalog, never with a panic, and never with more memory than its limits allow.
//!
//! The functions here are shared by the libFuzzer targets in `tests/fuzz` and by [`drive`], which
//! runs them for a bounded time on the stable toolchain.

use crate::mutate::mutate;
use crate::random::Random;
use crate::workspace::workspace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Format, Limits, MemoryContext, MemorySource};

/// Reads `bytes` as a file called `name`, and what tensors it holds if they are small. Whether it
/// could be read.
pub fn read(format: &dyn Format, name: &str, bytes: &[u8]) -> bool {
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    limits.tensors = 4096;
    limits.entries = 16384;
    limits.nodes = 16384;
    limits.nesting = 64;
    limits.name_bytes = 4096;
    limits.expanded_bytes = 1 << 20;
    let context = MemoryContext::new(limits);
    let source = MemorySource::file(name, bytes);
    // What data cannot decide is asked of the plugin before it reads.
    let _ = format.probe(&source, &context);
    let Ok(view) = MemoryView::read(format, &[], &source, &context) else { return false };
    let tensors = view.catalog().tensors();
    for tensor in tensors.iter().filter(|tensor| tensor.bytes <= 64 << 10).take(16) {
        let _ = view.tensor_named(&tensor.name);
    }
    true
}

/// Reads `pickle` as the object of a torch archive that has eight storages of 64 bytes. Whether it
/// could be read.
pub fn read_pickle(format: &dyn Format, pickle: &[u8]) -> bool {
    let storage = [1; 64];
    let names: Vec<String> = (0..8).map(|key| format!("model/data/{key}")).collect();
    let mut members: Vec<(&str, &[u8])> =
        vec![("model/data.pkl", pickle), ("model/byteorder", b"little"), ("model/version", b"3\n")];
    members.extend(names.iter().map(|name| (name.as_str(), storage.as_slice())));
    read(format, "model.pt", &crate::zip::stored(&members))
}

/// Runs `target` over mutations of `seeds` for `FERRY_FUZZ_SECONDS` (10 by default), in the order
/// that `FERRY_FUZZ_SEED` gives.
///
/// # Panics
/// If the target does, once the input is in the target folder's `fuzz-failures`.
pub fn drive(name: &str, seeds: &[Vec<u8>], target: impl Fn(&[u8]) -> bool) {
    assert!(!seeds.is_empty(), "{name}: nothing to mutate");
    let number = |variable: &str, default: u64| match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
        Err(_) => default,
    };
    let seed = number("FERRY_FUZZ_SEED", 0x7e45_0f3a);
    let end = Instant::now() + Duration::from_secs(number("FERRY_FUZZ_SECONDS", 10));
    let mut random = Random::new(seed);
    let (mut runs, mut read): (u64, u64) = (0, 0);
    for bytes in seeds {
        check(name, seed, bytes, &target);
    }
    while Instant::now() < end {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut random, &mut bytes, other);
        read += u64::from(check(name, seed, &bytes, &target));
        runs += 1;
    }
    println!("{name}: {runs} inputs from {} seeds, {read} were read, FERRY_FUZZ_SEED={seed}", seeds.len());
}

fn check(name: &str, seed: u64, bytes: &[u8], target: &impl Fn(&[u8]) -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).unwrap_or_else(|_| {
        let path = keep(name, bytes);
        panic!("{name} panics on the {} bytes in {} (FERRY_FUZZ_SEED={seed})", bytes.len(), path.display());
    })
}

fn keep(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = workspace().target.join("fuzz-failures");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
