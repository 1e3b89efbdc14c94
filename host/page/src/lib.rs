//! A page shows a model, a data set or a difference in a browser: one HTML file that holds its data, its style and its
//! script, and asks nothing of any network. A server gives such a page to a browser on this machine.
//!
//! | File | What it yields |
//! |---|---|
//! | `html.rs` | the page: a document of JSON put into `assets/` so that no text in it is markup or script |
//! | `names.rs` | names that share their beginnings, as the page takes them |
//! | `request.rs` | what a browser asks for, or why it is not answered |
//! | `server.rs` | the server: this machine alone, a token in the address, bounded in every direction |
//!
//! Nothing here knows a model, a terminal or the engine: the document comes from `ferry`, and the script in `assets/js`
//! draws it.

#![forbid(unsafe_code)]

mod html;
mod names;
mod request;
mod server;

pub use html::{Reach, html};
pub use names::shared_beginnings;
pub use request::Request;
pub use server::{Answer, Server};
