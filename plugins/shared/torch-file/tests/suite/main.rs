//! Reads files in the format of `torch.save`, from handmade bytes and from fixtures.
#![expect(clippy::unwrap_used, reason = "tests")]

mod extents;
mod pickle;
