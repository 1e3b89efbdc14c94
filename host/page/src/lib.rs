//! Shows a model, a dataset or a difference in a browser, as one HTML file. The file contains its
//! data, style and script, and sends no network requests. A local server can serve such a page.
//!
//! | File | Content |
//! |---|---|
//! | `html.rs` | the page: a JSON document in `assets/`, escaped so that none of its text is markup or script |
//! | `names.rs` | compression of names that share prefixes |
//! | `request.rs` | parsing and rejection of HTTP requests |
//! | `server.rs` | the local server, with a token in the URL and limits for all resources |
//!
//! This crate does not depend on the engine, and has no code for models or terminals. `ferry`
//! provides the document, and the script in `assets/js` draws it.

#![forbid(unsafe_code)]

mod html;
mod names;
mod request;
mod server;

pub use html::{Reach, html};
pub use names::shared_beginnings;
pub use request::PageRequest;
pub use server::{PageResponse, Server};
