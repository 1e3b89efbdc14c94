//! An output beyond a network: objects that are sent as they are written, and become visible one by one, whole.
//!
//! There are no folders and no renames there, so that nothing is staged beside the output. An object that is written is
//! an upload, of which the store shows nothing until it is completed. Of a set the data comes first and what it is found
//! by last; where an older set of the same names is replaced, its index goes before.
//!
//! - Data objects are completed first, then the index, then the receipt. Each completion has a
//!   condition on the object that currently has the name.
//! - If no new data object takes the name of an older object, the older set stays complete until one
//!   conditional put replaces its index. The older index is kept, and restored if the run fails.
//! - If names are fixed, the older index is removed first.
//! - `--verify` and receipts read an object after its completion, since no store returns bytes of
//!   an unfinished upload. If the check fails, the visible object is removed.
//!
//! An upload under a temporary name, with a copy to the final name, could be verified before it is
//! visible. It needs a second upload by ranges for every large object, and S3's copy in parts,
//! which `object_store` does not support.

pub mod folder;
pub mod stage;
