//! A worker is a process that does jobs for a run, one after the other: `ferry job`, which is not for people.
//!
//! The runner holds a [`WorkerProcess`]; the process itself runs [`serve`]. They speak the `protocol`: one
//! JSON document a line, over the process's standard input and output.

mod idle;
mod perform;
mod pipe;
mod process;
mod protocol;
mod serve;
mod standing;

pub(crate) use idle::IdleWorkers;
pub(crate) use process::{JobOutcome, Supervision, WorkerProcess};
pub(crate) use protocol::WorkerTask;

pub use process::WorkerCommand;
pub(crate) use serve::end_with;
pub use serve::serve;
