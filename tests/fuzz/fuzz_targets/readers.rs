//! The libFuzzer target named by `FERRY_FUZZ_TARGET`. `tests/soak` builds and runs it.
#![no_main]

#[path = "../targets.rs"]
mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<targets::Target> = LazyLock::new(|| {
    let name = std::env::var("FERRY_FUZZ_TARGET").expect("FERRY_FUZZ_TARGET names a target");
    // Readers catch the panics of their libraries and return errors. libFuzzer's panic hook would
    // end the process before a reader catches the panic, so it is removed. Panics that no reader
    // catches still end the process.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    targets::named(&name)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    TARGET(bytes);
});
