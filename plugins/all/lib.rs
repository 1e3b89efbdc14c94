//! All formats as one library, for the wheel: each library of its own would bring the kit, and those of records Arrow.

use tensorferry_sdk::Format;

fn formats() -> Vec<Box<dyn Format>> {
    let all = [
        tensorferry_arrow::formats(),
        tensorferry_csv::formats(),
        tensorferry_deepspeed::formats(),
        tensorferry_flax::formats(),
        tensorferry_gguf::formats(),
        tensorferry_jsonl::formats(),
        tensorferry_mds::formats(),
        tensorferry_megatron::formats(),
        tensorferry_keras::formats(),
        tensorferry_numpy::formats(),
        tensorferry_onnx::formats(),
        tensorferry_orbax::formats(),
        tensorferry_parquet::formats(),
        tensorferry_safetensors::formats(),
        tensorferry_tf_bundle::formats(),
        tensorferry_tfrecord::formats(),
        tensorferry_torch_dcp::formats(),
        tensorferry_torch::formats(),
        tensorferry_webdataset::formats(),
    ];
    all.into_iter().flatten().collect()
}

tensorferry_sdk::export_plugin!(named "tensorferry", from formats);
