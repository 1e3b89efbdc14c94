//! A catalog becomes files: where they go, what lies where in them, and the copy.

mod config_document;
pub mod config_dtype;
pub mod config_quantization;
pub mod copy;
pub mod encode;
pub mod naming;
pub mod plan;
pub mod seal;
pub mod shard_tag;
pub mod space;
pub mod target;
pub mod verify;
