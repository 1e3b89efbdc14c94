//! Writes a catalog to files. The modules choose file names, plan the layout and copy the bytes.

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
