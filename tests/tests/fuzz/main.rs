//! Every reader comes back from whatever bytes it is given: bounded runs of the fuzz targets, on the
//! stable toolchain.
#![expect(clippy::unwrap_used, reason = "tests")]

mod arrow;
mod csv;
mod deepspeed;
mod flax;
mod gguf;
mod jsonl;
mod keras;
mod mds;
mod megatron;
mod numpy;
mod onnx;
mod orbax;
mod parquet;
mod safetensors;
mod sets;
/// Which reader is given what: as libFuzzer gives it.
#[path = "../../fuzz/targets.rs"]
mod targets;
mod tf;
mod tfrecord;
mod torch;
mod torch_dcp;
mod webdataset;

/// Runs a target over mutations of these seeds, which it has to read as they stand, and of those that were kept.
fn drive(target: &str, seeds: &[Vec<u8>]) {
    for (number, seed) in seeds.iter().enumerate() {
        assert!(targets::named(target)(seed), "{target}: seed {number} is not read as it stands");
    }
    drive_any(target, seeds);
}

/// The same, for seeds of which some are faulty.
fn drive_any(target: &str, seeds: &[Vec<u8>]) {
    tensorferry_tests::fuzz::drive(target, seeds, targets::named(target));
}

/// Pickles and programs inside an archive: all seeds of them are what libFuzzer kept.
#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_records_of_archives() {
    for target in ["deepspeed_pickle", "megatron_pickle", "torch_exported", "torch_script"] {
        drive_any(target, &tensorferry_tests::fuzz::kept(target));
    }
}

/// What libFuzzer found worth keeping is read, whatever test drives its target.
#[test]
fn survives_what_was_kept() {
    for (name, target) in targets::TARGETS {
        for seed in tensorferry_tests::fuzz::kept(name) {
            target(&seed);
        }
    }
}
