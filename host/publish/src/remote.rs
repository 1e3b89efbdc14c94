//! An output beyond a network: objects that are sent as they are written, and become visible one by one, whole.
//!
//! There are no folders and no renames there, so that nothing is staged beside the output. An object that is written is
//! an upload, of which the store shows nothing until it is completed. Of a set the data comes first and what it is found
//! by last; where an older set of the same names is replaced, its index goes before.

pub mod folder;
pub mod stage;
