//! The `ferry` program as a library: everything but the command line.
//!
//! [`convert`](convert::convert) is the way of the data, one call for each step.
#![deny(unsafe_code)]

pub mod allocator;
pub mod attributes;
pub mod bridge;
pub mod cast;
pub mod commit;
pub mod config_dtype;
pub mod content;
pub mod convert;
pub mod copy;
pub mod diff;
pub mod errand;
pub mod exit;
pub mod expected;
pub mod fault;
pub mod gather;
pub mod human;
pub mod input;
pub mod inspect;
pub mod logical;
pub mod losses;
pub mod manifest;
pub mod models;
pub mod naming;
pub mod numbers;
pub mod outline;
pub mod part;
pub mod pieces;
pub mod plan;
pub mod plugins;
pub mod probe;
pub mod receipt;
pub mod records;
pub mod report;
pub mod run;
pub mod runner;
pub mod seal;
pub mod select;
pub mod sidecars;
pub mod sides;
pub mod source;
pub mod space;
pub mod stage;
pub mod stale;
pub mod steps;
pub mod stored;
pub mod suggest;
pub mod target;
pub mod unit;
pub mod verify;
pub mod watch;
