//! An output in an object store. Objects are uploaded while they are written, and each object
//! becomes visible only when it is complete.
//!
//! A store has no folders and no renames, so no files are staged next to the output. An object that
//! is being written is an upload, which is not visible in the store until it is completed. In a
//! set, the data is completed first, and the index and receipt last. If an older set with the same
//! names is replaced, the older index is removed first.

pub mod folder;
pub mod stage;
