//! What the engine asks of places that are not folders of this machine: object stores, servers, the Hub. It knows no
//! protocol and no URL; who embeds it says what opens them ([`Session::remote`](crate::context::session::Session::remote)).

mod read;
mod stamp;
mod write;

pub use read::{Remote, RemoteEntry, RemoteFile, RemotePlace};
pub use stamp::RemoteStamp;
pub use write::{Condition, NewObject, RemoteUpload};
