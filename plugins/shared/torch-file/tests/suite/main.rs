//! Tests reading files in the format of `torch.save`, both handmade files and fixtures.
#![expect(clippy::unwrap_used, reason = "tests")]

mod extents;
mod pickle;
