//! The `ferry` program.
fn main() {}
