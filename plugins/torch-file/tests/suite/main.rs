//! What `torch.save` writes, read from bytes made by hand and from fixtures.
#![expect(clippy::unwrap_used, reason = "tests")]

mod extents;
mod pickle;
#[path = "../common/python.rs"]
#[allow(dead_code, reason = "other crates' tests use the rest")]
mod python;
