//! Tests that need only cargo and take a few seconds. They run the built program on fixtures and on
//! generated files.
#![expect(clippy::unwrap_used, reason = "tests")]

mod architecture;
mod bridge;
mod bundle {
    mod made;
}
mod cli {
    mod account;
    mod cast;
    mod dequantize;
    mod described;
    mod diff;
    mod doctor;
    mod folders;
    mod inputs;
    mod mixed_folders;
    mod output;
    mod page;
    mod part;
    mod plugins;
    mod report;
    mod several;
    mod show;
    mod statistics;
    mod steps;
    mod stores;
    mod transcript;
    mod uploads;
    mod usage;
}
mod fixtures {
    mod deepspeed;
    mod every;
    mod flax;
    mod gguf;
    mod keras;
    mod megatron;
    mod numpy;
    mod onnx;
    mod orbax;
    mod quantised;
    mod safetensors;
    mod tf;
    mod tfrecord;
    mod torch;
}
#[path = "../../../plugins/all/src/formats.rs"]
mod formats;
mod guide;
mod language;
mod library;
mod llama;
mod metadata;
mod narrowing;
mod pairs;
mod receipts;
mod records;
mod references;
mod remote;
mod rolling;
mod run {
    mod cluster;
    mod datasets;
    mod faults;
    mod manifest;
    mod plan;
    mod stores;
    mod zoo;
}
mod safety;
mod store_outputs;
#[path = "../../../host/remote/tests/support/mod.rs"]
mod stores;
