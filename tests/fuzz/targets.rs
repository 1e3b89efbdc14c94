//! The fuzz targets, for libFuzzer (`fuzz_targets/readers.rs`) and for the tests that run the same
//! targets on the stable toolchain (`tests/tests/fuzz`).

#[path = "orbax.rs"]
pub(crate) mod orbax;
#[path = "sets.rs"]
pub(crate) mod sets;

use std::sync::LazyLock;
use tensorferry_arrow::Arrow;
use tensorferry_csv::Csv;
use tensorferry_deepspeed::DeepSpeed;
use tensorferry_flax::Flax;
use tensorferry_gguf::Gguf;
use tensorferry_jsonl::JsonLines;
use tensorferry_keras::Keras;
use tensorferry_mds::Mds;
use tensorferry_megatron::Megatron;
use tensorferry_numpy::Numpy;
use tensorferry_onnx::Onnx;
use tensorferry_parquet::Parquet;
use tensorferry_safetensors::Safetensors;
use tensorferry_sdk::conformance::Preset;
use tensorferry_sdk::{Format, Side};
use tensorferry_tests::{fuzz, fuzz_records, zip};
use tensorferry_tf_bundle::{SavedModel, TfBundle, TfGraph};
use tensorferry_tfrecord::TfRecord;
use tensorferry_torch::Torch;
use tensorferry_torch_dcp::TorchDcp;
use tensorferry_webdataset::WebDataset;

/// Reads hostile bytes without crashing, and returns whether they could be read.
pub(crate) type Target = fn(&[u8]) -> bool;

/// All targets by name.
pub(crate) const TARGETS: [(&str, Target); 46] = [
    ("arrow_file", |bytes| fuzz::read_records(&Arrow, "in.arrow", bytes)),
    ("arrow_stream", |bytes| fuzz::read_records(&Arrow, "in.arrows", bytes)),
    ("csv", |bytes| fuzz::read_records(&Csv, "in.csv", bytes)),
    ("dcp_chunks", |bytes| in_folder(&TorchDcp, &DCP, "__0_0.distcp", bytes)),
    ("dcp_table", |bytes| in_folder(&TorchDcp, &DCP, ".metadata", bytes)),
    ("deepspeed_pickle", |bytes| {
        // The first byte selects the rank whose file is replaced by an archive of the pickle.
        let Some((&index, pickle)) = bytes.split_first() else { return false };
        let name = ZERO3.iter().map(|(name, _)| name).filter(|name| name.ends_with(".pt")).cycle();
        let Some(name) = name.take(256).nth(usize::from(index)) else { return false };
        in_folder(&DeepSpeed, &ZERO3, name, &archive_of(pickle, &[]))
    }),
    ("deepspeed_zero2_bf16", |bytes| one_of(&DeepSpeed, &ZERO2, bytes)),
    ("deepspeed_zero3_fp32", |bytes| one_of(&DeepSpeed, &ZERO3, bytes)),
    ("flax", |bytes| fuzz::read(&Flax, "flax_model.msgpack", bytes)),
    ("gguf", |bytes| fuzz::read(&Gguf, "model.gguf", bytes)),
    ("jsonl", |bytes| fuzz::read_records(&JsonLines, "in.jsonl", bytes)),
    ("mds_index", |bytes| fuzz::read_records_among(&Mds, &MDS, "index.json", bytes)),
    ("mds_shard", |bytes| {
        // The bytes are read as a plain shard and as a compressed shard. The index gets the correct
        // lengths, because otherwise every input would be rejected for a wrong length.
        let len = format!("\"bytes\": {}", bytes.len());
        let packed = zstd::encode_all(bytes, 1).expect("writing to memory cannot fail");
        let zip = format!(
            r#""zip_data": {{"basename": "shard.00000.mds.zstd", "bytes": {}, "hashes": {{}}}}"#,
            packed.len()
        );
        let words = [
            ("\"bytes\": 4035", len),
            ("\"compression\": null", "\"compression\": \"zstd:1\"".to_owned()),
            ("\"zip_data\": null", zip),
        ];
        let plain = mds_with_index(&words[..1]);
        let mut compressed = mds_with_index(&words);
        compressed.retain(|(name, _)| name != "shard.00000.mds");
        let is_read = fuzz::read_records_among(&Mds, &plain, "shard.00000.mds", bytes);
        fuzz::read_records_among(&Mds, &compressed, "shard.00000.mds.zstd", &packed) && is_read
    }),
    ("megatron_pickle", |bytes| in_folder(&Megatron, &MEGATRON, &MEGATRON[0].0, &archive_of(bytes, &[]))),
    ("megatron_ranks", |bytes| one_of(&Megatron, &MEGATRON, bytes)),
    ("keras_archive", |bytes| fuzz::read(&Keras, "model.keras", bytes)),
    ("keras_h5", |bytes| fuzz::read(&Keras, "model.weights.h5", bytes)),
    ("numpy_array", |bytes| fuzz::read(&numpy_with_all(), "array.npy", bytes)),
    ("numpy_archive", |bytes| fuzz::read(&numpy_with_all(), "arrays.npz", bytes)),
    ("onnx", |bytes| fuzz::read(&Onnx, "model.onnx", bytes)),
    ("onnx_external", |bytes| in_folder(&Onnx, &ONNX, "model.onnx", bytes)),
    ("orbax_chunk", orbax::read_chunk),
    ("orbax_store", orbax::read_store),
    ("orbax_zarr", orbax::read_description),
    ("parquet", |bytes| fuzz::read_records(&Parquet, "in.parquet", bytes)),
    ("safetensors", |bytes| fuzz::read(&Safetensors, "model.safetensors", bytes)),
    ("sets", sets::read_set),
    ("tf_bundle", |bytes| fuzz::read_bundle(&TfBundle, bytes)),
    ("tf_graph", |bytes| fuzz::read(&TfGraph, "graph.pb", bytes)),
    ("tf_graph_text", |bytes| fuzz::read(&TfGraph, "graph.pbtxt", bytes)),
    ("tf_saved_model", |bytes| fuzz::read(&SavedModel, "saved_model.pb", bytes)),
    ("tf_saved_model_text", |bytes| fuzz::read(&SavedModel, "saved_model.pbtxt", bytes)),
    ("tf_state_file", |bytes| fuzz::read_state_file(&TfBundle, bytes)),
    ("tf_table", |bytes| fuzz::read_block(&TfBundle, bytes)),
    ("tf_table_file", |bytes| fuzz::read(&TfBundle, "model.ckpt", bytes)),
    ("tfrecord_frames", |bytes| fuzz_records::read_file(&TfRecord, bytes)),
    ("tfrecord_gzip", |bytes| fuzz_records::read_compressed(&TfRecord, "gzip", bytes)),
    ("tfrecord_messages", |bytes| fuzz_records::read_message(&TfRecord, bytes)),
    ("tfrecord_snappy", |bytes| fuzz_records::read_compressed(&TfRecord, "snappy", bytes)),
    ("torch_exported", |bytes| {
        let members: [(&str, &[u8]); 5] = [
            ("m/archive_format", b"pt2"),
            ("m/models/model.json", b"{}"),
            ("m/data/weights/model_weights_config.json", bytes),
            ("m/data/weights/weight_0", &[1; 64]),
            ("m/.data/version", b"6\n"),
        ];
        fuzz::read(&Torch, "model.pt2", &zip::stored(&members))
    }),
    ("torch_legacy", |bytes| fuzz::read(&Torch, "model.pt", bytes)),
    ("torch_pickle", |bytes| fuzz::read(&Torch, "model.pt", &archive_of(bytes, &[("byteorder", b"little")]))),
    ("torch_script", |bytes| {
        let script: [(&str, &[u8]); 2] = [("constants.pkl", b"\x80\x02)."), ("extra/note.txt", b"note")];
        fuzz::read(&Torch, "model.pt", &archive_of(bytes, &script))
    }),
    ("torch_tar", |bytes| fuzz::read(&Torch, "model.pt", bytes)),
    ("torch_zip", |bytes| fuzz::read(&Torch, "model.pt", bytes)),
    ("webdataset", |bytes| fuzz::read_records(&WebDataset, "train.tar", bytes)),
];

type Files = Vec<(String, Vec<u8>)>;

static DCP: LazyLock<Files> = LazyLock::new(|| fuzz::files_of("torch/dcp_single/dcp"));
static MDS: LazyLock<Files> = LazyLock::new(|| fuzz::files_of("mds/all_encodings"));
static MEGATRON: LazyLock<Files> = LazyLock::new(|| ranks("megatron/gpt_tp2_pp2"));
static ONNX: LazyLock<Files> = LazyLock::new(|| fuzz::files_of("onnx/external_many_files"));
static ZERO2: LazyLock<Files> = LazyLock::new(|| ranks("deepspeed/zero2_bf16"));
static ZERO3: LazyLock<Files> = LazyLock::new(|| ranks("deepspeed/zero3_fp32"));

/// Returns the target with this name.
///
/// # Panics
///
/// Panics if there is no such target.
pub(crate) fn named(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no fuzz target {name:?}: {:?}", TARGETS.map(|(name, _)| name))).1
}

/// Returns the most permissive NumPy reader, which converts fields of rows and bytes without a
/// dtype to tensors.
fn numpy_with_all() -> impl Format {
    Preset::new(Numpy).with(Side::Reader, "structured", "fields").with(Side::Reader, "void", "bytes")
}

/// Returns the files of a checkpoint with ranks. Its archives have no padding, and no checksums
/// that a mutation would make wrong.
fn ranks(case: &str) -> Files {
    let mut files = fuzz::files_of(&format!("{case}/ckpt"));
    for (_, bytes) in files.iter_mut().filter(|(name, _)| name.ends_with(".pt")) {
        *bytes = zip::bare(&zip::members(bytes));
    }
    files
}

/// Returns the seeds for [`one_of`]. Each seed is one file, unchanged.
#[allow(dead_code, reason = "libFuzzer reads its seeds from a folder")]
pub(crate) fn seeds_of_ranks(name: &str) -> Vec<Vec<u8>> {
    let files = match name {
        "deepspeed_zero2_bf16" => &ZERO2,
        "megatron_ranks" => &MEGATRON,
        _ => &ZERO3,
    };
    files.iter().zip(0..).map(|((_, bytes), index)| [&[index][..], bytes].concat()).collect()
}

/// Reads a set of files. The first byte selects a file, which the rest of the bytes replace.
fn one_of(format: &dyn Format, files: &Files, bytes: &[u8]) -> bool {
    let Some((&index, bytes)) = bytes.split_first() else { return false };
    in_folder(format, files, &files[usize::from(index) % files.len()].0, bytes)
}

fn in_folder(format: &dyn Format, files: &Files, name: &str, bytes: &[u8]) -> bool {
    fuzz::read_among(format, files, name, bytes)
}

/// Returns the MDS dataset with these words replaced in its index.
fn mds_with_index(words: &[(&str, String)]) -> Files {
    let mut files = MDS.clone();
    for (_, text) in files.iter_mut().filter(|(name, _)| name == "index.json") {
        for (from, to) in words {
            *text = String::from_utf8_lossy(text).replace(from, to).into_bytes();
        }
    }
    files
}

/// Returns a torch archive of this pickle, with eight storages of 64 bytes.
fn archive_of(pickle: &[u8], others: &[(&str, &[u8])]) -> Vec<u8> {
    let named = |name: &str| format!("model/{name}");
    let storages = (0..8).map(|key| (named(&format!("data/{key}")), &[1; 64][..]));
    let members: Vec<(String, &[u8])> = [(named("data.pkl"), pickle), (named("version"), b"3\n")]
        .into_iter()
        .chain(others.iter().map(|(name, bytes)| (named(name), *bytes)))
        .chain(storages)
        .collect();
    let members: Vec<_> = members.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    zip::stored(&members)
}
