//! Runs the conversions of a manifest, each in a separate process, under one budget and with a
//! journal.
//!
//! ```text
//! manifest --load--> jobs --file groups scanned: schemas--> jobs --decide--> those that must run
//!          --pool--> a worker process each --output staged--> journal --commit--> Summary --> report
//! ```
//!
//! A worker process stages its output and then asks for permission to commit. The runner first
//! records in the journal what is about to become visible, syncs the journal, and then allows the
//! commit. A later run compares that record with the disk to find out whether the commit happened.
//! As a result, no work is repeated, even if any of the processes is killed at any time. The `done`
//! record only makes this comparison faster.
//!
//! A manifest of a million jobs can be split into a [`Plan`]. Many workers run the plan's pieces,
//! each with its own journal. If several workers run the same job, its output becomes visible only
//! once.
//!
//! The modules are listed here in order. Each module uses only the modules before it: [`exit`],
//! [`hint`], [`human`], [`losses`] and [`template`] (strings for people), `job`, [`report`],
//! [`manifest`], `budget`, `plan_folder`, `journal`, `events`, `plan`, `worker`, `pool`, `run`,
//! `work`.

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
mod plan;
mod plan_folder;
mod platform;
mod pool;
mod run;
mod work;
mod worker;

pub use budget::Budget;
pub use events::{Event, EventListener, PieceFailure};
pub use job::Job;
pub use plan::{Plan, PlanHeader};
pub use platform::available_memory;
pub use run::{
    JobPlan, MadePlan, Only, PlanOptions, RunOptions, RunOutcome, RunPlan, Shard, dry_run, make_plan, run,
    run_plan,
};
pub use work::{WorkSource, work};
pub use worker::{WorkerCommand, serve};
