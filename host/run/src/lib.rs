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
//! A manifest of a million jobs is cut once into a [`Plan`], whose pieces many workers do, each with a journal of its own: what several of
//! them do twice is visible once.
//!
//! The modules, each using only those before it: [`exit`], [`hint`], [`human`], [`losses`] and [`template`] (words for people), `job`,
//! [`report`], [`manifest`], `budget`, `place`, `journal`, `events`, `plan`, `worker`, `pool`, `run`, `work`.
//!
//! The worker processes inherit the lock of the journal, so none commits after another run has
//! taken over. An output that no journal knows is checked against its receipt.

#![forbid(unsafe_code)]

pub mod exit;
pub mod hint;
pub mod human;
pub mod losses;
pub mod manifest;
pub mod report;
pub mod template;

mod budget;
mod events;
mod job;
mod journal;
mod place;
mod plan;
mod pool;
mod run;
mod work;
mod worker;

pub use budget::Budget;
pub use events::{Event, EventListener, PieceFailure};
pub use job::Job;
pub use plan::{Plan, PlanHeader};
pub use run::{
    JobPlan, MadePlan, Only, PlanOptions, RunOptions, RunOutcome, RunPlan, Shard, dry_run, make_plan, run,
    run_plan,
};
pub use work::{WorkSource, work};
pub use worker::{WorkerCommand, serve};
