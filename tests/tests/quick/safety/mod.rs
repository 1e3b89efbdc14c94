//! Tests of the safety of the built program. No pickle is ever executed, no PyTorch file takes more
//! time or memory than its length justifies, and no folder causes files to be written elsewhere.
//!
//! | File | Contents |
//! |---|---|
//! | `bombs.rs` | pickles that expand to much more than their length |
//! | `tables.rs` | the same, in place of tables that a reader needs |
//! | `zips.rs` | archives whose parts disagree |
//! | `containers.rs` | the files around a pickle |
//! | `folders.rs` | folders with files that look like ferry's own |
//! | `links.rs` | folders with links to files elsewhere |
//! | `pipes.rs` | pipes, sockets and devices in place of files |
//! | `sharing.rs` | bytes that are named many times, trees of many nodes |

mod bombs;
mod containers;
mod folders;
mod links;
mod pipes;
mod sharing;
mod tables;
mod zips;
