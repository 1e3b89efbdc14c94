//! Lists the formats of all plugins in this repository. Tests that need all formats include this
//! source file directly. If they depended on this crate instead, every plugin would be linked
//! twice.

use tensorferry_sdk::Format;

pub(crate) fn formats() -> Vec<Box<dyn Format>> {
    let all = [
        tensorferry_arrow::formats(),
        tensorferry_csv::formats(),
        tensorferry_deepspeed::formats(),
        tensorferry_flax::formats(),
        tensorferry_gguf::formats(),
        tensorferry_jsonl::formats(),
        tensorferry_keras::formats(),
        tensorferry_mds::formats(),
        tensorferry_megatron::formats(),
        tensorferry_numpy::formats(),
        tensorferry_onnx::formats(),
        tensorferry_orbax::formats(),
        tensorferry_parquet::formats(),
        tensorferry_safetensors::formats(),
        tensorferry_tf_bundle::formats(),
        tensorferry_tfrecord::formats(),
        tensorferry_torch::formats(),
        tensorferry_torch_dcp::formats(),
        tensorferry_webdataset::formats(),
    ];
    all.into_iter().flatten().collect()
}
