//! Tests that the real frameworks and `ferry` read the same contents from each other's files.
#![expect(clippy::unwrap_used, reason = "tests")]

mod arrow;
mod bert;
mod bridge;
mod calls;
mod cast;
mod csv;
mod differential;
mod distributed;
mod flax;
mod gguf;
mod hub;
mod jsonl;
mod keras;
mod kubernetes;
mod mds;
mod megatron;
mod numpy;
mod onnx;
mod orbax;
mod package;
mod page;
mod parquet;
mod quantised;
mod receipts;
mod show;
mod slurm;
mod statistics;
mod steps;
mod store_faults;
mod store_proxy;
#[path = "../../../host/remote/tests/servers/install.rs"]
#[expect(dead_code, reason = "the stores' own tests use the rest")]
mod store_servers;
#[path = "../../../host/remote/tests/support/mod.rs"]
mod store_support;
mod stores;
mod tf;
mod tfrecord;
mod torch;
mod torch_files;
mod training;
mod webdataset;
