//! The engine's interface to places that are not local folders: object stores, servers, and the
//! Hub. The engine knows no protocol and no URL scheme; the embedding program sets what opens URLs
//! ([`Session::remote`](crate::context::session::Session::remote)).
//!
//! Every answer for an open remote file is checked against its state when it was opened, so all
//! bytes belong to one version.

mod read;
mod stamp;
mod write;

pub use read::{Remote, RemoteEntry, RemoteFile, RemotePlace};
pub use stamp::RemoteStamp;
pub use write::{Condition, NewObject, RemoteUpload};
