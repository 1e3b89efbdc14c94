//! An output in an object store: objects are sent as they are written, and each becomes visible
//! whole.
//!
//! A store has no folders and no renames, so nothing is staged next to the output. An object being
//! written is an upload, which the store does not show until it is completed. In a set, the data is
//! completed first and the index and receipt last. If an older set of the same names is replaced,
//! its index is removed first.

pub mod folder;
pub mod stage;
