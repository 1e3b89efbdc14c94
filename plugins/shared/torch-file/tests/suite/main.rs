//! What `torch.save` writes, read from bytes made by hand and from fixtures.
#![expect(clippy::unwrap_used, reason = "tests")]

mod extents;
mod pickle;
