//! Every reader comes back from whatever bytes it is given: bounded runs of the fuzz targets, on the
//! stable toolchain.
#![expect(clippy::unwrap_used, reason = "tests")]

/// The readers: nothing else here names their crates.
mod formats {
    pub(crate) use tensorferry_deepspeed::DeepSpeed;
    pub(crate) use tensorferry_jsonl::JsonLines;
    pub(crate) use tensorferry_parquet::Parquet;
    pub(crate) use tensorferry_safetensors::Safetensors;
    pub(crate) use tensorferry_tf_bundle::{SavedModel, TfBundle, TfGraph};
    pub(crate) use tensorferry_tfrecord::TfRecord;
    pub(crate) use tensorferry_torch::Torch;
    pub(crate) use tensorferry_torch_dcp::TorchDcp;
}

mod deepspeed;
mod jsonl;
mod parquet;
mod safetensors;
mod tf;
mod tfrecord;
mod torch;
mod torch_dcp;
