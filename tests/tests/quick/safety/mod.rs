//! No pickle is ever executed, no file of PyTorch takes more time or memory than its length is worth, and no
//! folder has files written elsewhere: seen from outside, with the built program.
//!
//! | File | What it has |
//! |---|---|
//! | `bombs.rs` | pickles that unfold into much more than they are |
//! | `tables.rs` | the same, where a reader takes a pickle for a table of its own |
//! | `zips.rs` | archives whose parts disagree |
//! | `containers.rs` | the files around a pickle |
//! | `folders.rs` | folders with what looks like ferry's own |
//! | `links.rs` | folders with links to files elsewhere |
//! | `pipes.rs` | pipes, sockets and devices in the place of files |
//! | `sharing.rs` | bytes that are named many times, trees of many nodes |

mod bombs;
mod containers;
mod folders;
mod links;
mod pipes;
mod sharing;
mod tables;
mod zips;
