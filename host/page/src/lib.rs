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
//!
//! # Guarantees
//!
//! - Text from a file is never markup. The document is JSON in an element that no browser executes,
//!   with `<`, `>` and `&` escaped. The script only sets `textContent`, and spells out control
//!   characters and marks of direction. A Content Security Policy allows the script and the style
//!   by SHA-256 and forbids all loading.
//! - A page is an output. It is staged and renamed like others. `--force` replaces a page and no
//!   other file.
//! - Values are bounded. A heat map has at most 64 by 64 values, and a file has 128 heat maps.
//!   Pictures are few and short, and state a small size before a browser decodes them.
//! - `ferry view` serves one page and the values of its tensors on 127.0.0.1, under a path of 128
//!   random bits. It refuses a foreign `Host` (DNS rebinding) or `Origin`, other methods, bodies,
//!   and long or slow headers. It reads one tensor at a time. It waits outside of the session's
//!   threads, which its reads need.
//!
//! `assets/js` is plain ES2022, one file per idea, without a build tool. The document stores
//! tensors by columns and omits the part of a name that equals the previous one: 100,000 tensors
//! take 4 MB. Only visible rows of a list become elements.

#![forbid(unsafe_code)]

mod html;
mod names;
mod request;
mod server;

pub use html::{Reach, html};
pub use names::shared_beginnings;
pub use request::Request;
pub use server::{Answer, Server};
