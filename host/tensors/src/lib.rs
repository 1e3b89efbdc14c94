//! A layer of `tensorferry`, whose API has no stability guarantee.
//!
//! This layer reads, gathers, casts, hashes and compares the bytes of tensors, regardless of where
//! the bytes are stored.

#![forbid(unsafe_code)]

pub mod cast;
pub mod content;
pub mod copy_plan;
pub mod describe;
pub mod diff;
pub mod distance;
pub mod elements;
pub mod expected;
pub mod gather;
pub mod hash_tree;
pub mod logical;
pub mod slabs;
pub mod slice;
pub mod statistics;
pub mod steps;
pub mod stored;
pub mod tally;
