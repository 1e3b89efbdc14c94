//! Limited runs of the fuzz targets on the stable toolchain. They test that every reader handles
//! arbitrary bytes without a panic.
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
/// The fuzz targets, which libFuzzer also uses.
#[path = "../../fuzz/targets.rs"]
mod targets;
mod tf;
mod tfrecord;
mod torch;
mod torch_dcp;
mod webdataset;

/// Runs a target on mutations of these seeds and of the kept inputs. The target must be able to
/// read the unchanged seeds.
fn drive(target: &str, seeds: &[Vec<u8>]) {
    for (number, seed) in seeds.iter().enumerate() {
        assert!(targets::named(target)(seed), "{target}: seed {number} cannot be read");
    }
    drive_any(target, seeds);
}

/// Runs a target like [`drive`], but allows invalid seeds.
fn drive_any(target: &str, seeds: &[Vec<u8>]) {
    tensorferry_tests::fuzz::drive(target, seeds, targets::named(target));
}

/// Tests pickles and programs inside an archive. All seeds are inputs that libFuzzer kept.
#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_records_of_archives() {
    for target in ["deepspeed_pickle", "megatron_pickle", "torch_exported", "torch_script"] {
        drive_any(target, &tensorferry_tests::fuzz::kept(target));
    }
}

/// Tests all inputs that libFuzzer kept for any target.
#[test]
fn survives_what_was_kept() {
    for (name, target) in targets::TARGETS {
        for seed in tensorferry_tests::fuzz::kept(name) {
            target(&seed);
        }
    }
}
