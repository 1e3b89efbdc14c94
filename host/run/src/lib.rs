//! Runs the conversions of a manifest: each in a process of its own, under one budget, with a journal.
//!
//! ```text
//! manifest --load--> jobs --file groups scanned: schemas--> jobs --decide--> those that must run
//!          --pool--> a worker process each --output staged--> journal --commit--> Summary --> report
//! ```
//!
//! A worker process stages its output and then asks for permission to commit. The runner first writes to
//! the journal what is about to become visible, syncs it, and then allows the commit. So a later run can
//! compare that record with the disk and knows whether the commit happened: nothing is done twice, whatever
//! process was killed at whatever time. The record "done" is only a shortcut for that comparison.
//!
//! The modules, each using only those before it: [`exit`], [`hint`], [`human`], [`losses`] and [`template`] (words for people), `job`,
//! [`report`], [`manifest`], `budget`, `journal`, `events`, `worker`, `pool`, `run`.

#![forbid(unsafe_code)]

pub mod exit;
pub mod hint;
pub mod human;
pub mod losses;
pub mod manifest;
pub mod remote;
pub mod report;
pub mod template;

mod budget;
mod events;
mod job;
mod journal;
mod pool;
mod run;
mod worker;

pub use budget::Budget;
pub use events::{Event, EventListener};
pub use job::Job;
pub use run::{JobPlan, RunOptions, RunOutcome, RunPlan, Shard, plan, run};
pub use worker::{WorkerCommand, serve};
