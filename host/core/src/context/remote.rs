//! The engine's interface to places that are not local folders: object stores, servers, and the
//! Hub. The engine does not depend on any protocol or URL scheme. The embedding program sets the
//! [`Session::remote`](crate::context::session::Session::remote) that opens URLs.
//!
//! Every response for an open remote file is checked against the state of the file when it was
//! opened. All bytes that ferry reads are therefore from one version of the file.

mod read;
mod stamp;
mod write;

pub use read::{Remote, RemoteEntry, RemoteFile, RemotePlace};
pub use stamp::RemoteStamp;
pub use write::{Condition, NewObject, RemoteUpload};
