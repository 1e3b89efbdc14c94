//! Environment variables that make a test larger: `FERRY_TEST_GIB` for the size of its files,
//! `FERRY_TEST_KILLS` for the number of kills, `FERRY_FUZZ_SECONDS`, `FERRY_FUZZ_SEED` and
//! `FERRY_FUZZ_CORPUS`.

/// Returns the number in a variable, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// Returns the size of a large file: `FERRY_TEST_GIB`, or `bytes` by default.
pub fn large(bytes: u64) -> u64 {
    number("FERRY_TEST_GIB").map_or(bytes, |gib| gib << 30)
}

/// Returns how often a test kills: `FERRY_TEST_KILLS`, or `default`.
pub fn kills(default: u64) -> u64 {
    number("FERRY_TEST_KILLS").unwrap_or(default)
}
