//! Environment variables that control the size of tests. `FERRY_TEST_GIB` sets the size of files,
//! and `FERRY_TEST_KILLS` the number of kills. `FERRY_FUZZ_SECONDS`, `FERRY_FUZZ_SEED` and
//! `FERRY_FUZZ_CORPUS` control fuzzing.

/// Returns the number in an environment variable, or `None` if the variable is not set.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// Returns the size of a large file in bytes: the value of `FERRY_TEST_GIB` in GiB, or `bytes` if
/// the variable is not set.
pub fn large(bytes: u64) -> u64 {
    number("FERRY_TEST_GIB").map_or(bytes, |gib| gib << 30)
}

/// Returns the number of kills in a test: the value of `FERRY_TEST_KILLS`, or `default` if the
/// variable is not set.
pub fn kills(default: u64) -> u64 {
    number("FERRY_TEST_KILLS").unwrap_or(default)
}
