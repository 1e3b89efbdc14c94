//! Reads files of `torch.save`, from bytes made by hand and from fixtures.
#![expect(clippy::unwrap_used, reason = "tests")]

mod extents;
mod pickle;
