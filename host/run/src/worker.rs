//! A worker is a process that runs one job at a time. It is started with the internal command
//! `ferry job`.
//!
//! The runner uses a [`WorkerProcess`], and the process itself runs [`serve`]. They exchange the
//! messages in `protocol` over the process's standard input and output, one JSON document per line.

mod existing_output;
mod idle;
mod perform;
mod pipe;
mod process;
mod protocol;
mod serve;

pub(crate) use idle::IdleWorkers;
pub(crate) use process::{JobOutcome, Supervision, WorkerProcess};
pub(crate) use protocol::WorkerTask;

pub use process::WorkerCommand;
pub(crate) use serve::end_with;
pub use serve::serve;
