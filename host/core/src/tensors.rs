//! Bytes of tensors, wherever they lie: read, gathered, cast, hashed and compared.

pub mod cast;
pub mod content;
pub mod copy_plan;
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
pub mod stored;
pub mod tally;
