//! ferry for aarch64, run by QEMU, writes the same bytes as ferry for this machine. Golden libraries
//! for aarch64 convert and keep every rule of the plugin boundary.

use super::golden;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::workspace::{forget_package, root, workspace};
use tensorferry_tests::{Ferry, args};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// The C library of Debian's `libc6-arm64-cross`.
const SYSTEM: &str = "/usr/aarch64-linux-gnu";

/// Conversions: a fixture, an output, and options.
const CONVERSIONS: &[(&str, &str, &str)] = &[
    ("torch/zip_all_dtypes", "a.safetensors", ""),
    ("torch/zip_all_dtypes", "a.npz", ""),
    ("torch/legacy_all_dtypes", "a.safetensors", "--step cast:f16"),
    ("torch/zip_views", "a.gguf", ""),
    ("torch/zip_big_endian", "a.safetensors", "--step cast:bf16"),
    ("torch/zip_quantized", "a.safetensors", "--step dequantize:f32"),
    ("torch/zip_sparse_coo", "a.npz", ""),
    ("torch/zip_module_state_dict", "a.msgpack", ""),
    ("torch/zip_module_state_dict", "a.gguf", "-o quantize=q8_0"),
    ("torch/zip_module_state_dict", "a/", "--to tf-bundle"),
    ("torch/zip_module_state_dict", "a/", "--to orbax"),
    ("torch/zip_module_state_dict", "a/", "--to torch-dcp"),
    ("torch/zip_training_checkpoint", "a.safetensors", "--part model"),
    ("safetensors/all_dtypes", "a.pt", ""),
    ("numpy/npz_all_dtypes", "a.safetensors", ""),
    ("numpy/npy_big_endian", "a.pt", ""),
    ("numpy/npy_fortran_order", "a.safetensors", ""),
    ("onnx/raw_all_dtypes", "a.safetensors", ""),
    ("onnx/typed_fields", "a.npz", ""),
    ("onnx/external_many_files", "a.pt", ""),
    ("keras/h5_all_dtypes", "a.safetensors", ""),
    ("keras/sequential_compiled", "a.pt", ""),
    ("flax/all_dtypes", "a.safetensors", ""),
    ("flax/train_state", "a.npz", ""),
    ("orbax/all_dtypes", "a.safetensors", ""),
    ("orbax/pytree_zarr3", "a.pt", ""),
    ("tf/object_all_dtypes", "a.npz", ""),
    ("tf/saver_v2_plain", "a.safetensors", ""),
    ("gguf/quants_legacy", "a.safetensors", "--step dequantize:f32"),
    ("gguf/quants_k", "a.safetensors", "--step dequantize:bf16"),
    ("gguf/quants_iq", "a.npz", "--step dequantize:f32"),
    ("gguf/quants_ternary_fp4", "a.safetensors", "--step dequantize:f16"),
    ("gguf/quantize_reference", "a.gguf", "-o quantize=mxfp4"),
    ("gguf/quantize_reference", "a.gguf", "-o quantize=q5_1"),
    ("gguf/quantize_reference", "a.gguf", "-o quantize=tq1_0"),
    ("megatron/gpt_tp2", "a/", "--to safetensors"),
    ("quantised/bnb_nf4_double_quant", "a/", "--to safetensors --step dequantize:bf16"),
    ("quantised/gptq_4bit_act_order", "a/", "--to safetensors --step dequantize:f16"),
    ("quantised/awq_gemm", "a/", "--to safetensors --step dequantize:f32"),
    ("quantised/ct_nvfp4", "a/", "--to safetensors --step dequantize:bf16"),
    ("quantised/fp8_block_scales", "a/", "--to safetensors --step dequantize:f32"),
    ("quantised/mlx_affine", "a/", "--to safetensors --step dequantize:f32"),
    ("quantised/mxfp4_gpt_oss", "a/", "--to safetensors --step dequantize:bf16"),
    ("arrow/file_flat_types", "a.parquet", ""),
    ("arrow/file_nested", "a.parquet", ""),
    ("arrow/file_rare_types", "a.jsonl", ""),
    ("arrow/stream_flat_types", "a.csv", ""),
    ("mds/all_encodings", "a.parquet", ""),
    ("tfrecord/example_plain", "a.parquet", ""),
    ("tfrecord/sharded", "a.arrow", ""),
    ("webdataset/basic", "a.jsonl", ""),
];

/// Returns the folder of ferry for aarch64, which is built once.
fn folder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = &workspace().target;
        let mut cargo = Command::new(root().join("host/dist/zig"));
        forget_package(&mut cargo);
        cargo.current_dir(root()).env("CARGO_TARGET_DIR", target);
        cargo.args(["zigbuild", "--quiet", "--target", TARGET, "--config", "profile.dev.debug=false"]);
        // Remote inputs would add eighty crates, and none of them computes numbers.
        cargo.args(["--no-default-features", "--package", "tensorferry-cli", "--package"]);
        run(cargo.arg("tensorferry-formats")).expect(0);
        target.join(TARGET).join("debug")
    })
}

/// Returns ferry for aarch64 with the plugins of `ferry`.
fn emulated(ferry: &Ferry) -> Command {
    let mut command = Command::new("qemu-aarch64");
    command.args(["-L", SYSTEM]).arg(folder().join("ferry")).arg("--plugin-dir").arg(ferry.plugin_folder());
    command
        .env("HOME", ferry.home())
        .env("XDG_CACHE_HOME", ferry.at("cache"))
        .env_remove("FERRY_PLUGIN_PATH");
    command
}

/// Converts a fixture, and returns the files of the output.
fn converted(mut command: Command, input: &Path, output: &Path, options: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = output.ancestors().find(|path| path.is_dir()).unwrap().to_owned();
    command.args(args!["convert", input, output, "--quiet"]).args(options.split_whitespace());
    run(&mut command).expect(0);
    let read = |name: PathBuf| (name.clone(), std::fs::read(folder.join(name)).unwrap());
    files_below(&folder).into_iter().map(read).collect()
}

#[test]
#[ignore = "builds ferry for another processor"]
fn outputs_have_the_same_bytes_on_another_processor() {
    let ferry = Ferry::new();
    let mut files = 0;
    for (number, (fixture, output, options)) in CONVERSIONS.iter().enumerate() {
        let (section, name) = fixture.split_once('/').unwrap();
        let input = case(section, name).input();
        let commands = [("here", ferry.command([] as [&str; 0])), ("there", emulated(&ferry))];
        let [here, there] = commands.map(|(place, command)| {
            let folder = ferry.write(&format!("{place}/{number}/.folder"), "");
            converted(command, &input, &folder.with_file_name(output), options)
        });
        assert!(here == there, "{fixture} {output} {options}");
        files += here.len() - 1;
    }
    assert!(CONVERSIONS.len() >= 40 && files >= 60, "{} conversions, {files} files", CONVERSIONS.len());
}

#[test]
#[ignore = "builds ferry for another processor"]
fn golden_libraries_for_another_processor_write_what_they_always_wrote() {
    // The emulator cannot start processes of the other processor, so the suite runs in the process
    // that `ferry plugin test` would start.
    let suite = |ferry: &Ferry, library: &Path, sample: &Path| {
        let outcome = run(emulated(ferry).args(args!["examine-plugin", library, sample])).expect(0);
        let found: Value = serde_json::from_str(outcome.stdout.lines().last().unwrap()).unwrap();
        let rules = found["Found"][0]["rules"].as_array().unwrap_or_else(|| panic!("{outcome}"));
        let broken: Vec<&Value> = rules.iter().filter(|rule| rule["held"] != true).collect();
        assert!(broken.is_empty() && rules.len() > 20, "{broken:?} of {} rules", rules.len());
    };
    golden::check("aarch64", emulated, suite);
}
