//! ferry's built-in formats as one library. `ferry` and the Python package load it like any other
//! plugin library.
//!
//! This library is 28 MB in size, while 19 separate libraries would be 104 MB in total. Each
//! separate library would contain the SDK, and most would also contain Arrow. In addition, a
//! conversion has to open only one library instead of two.
//!
//! If a folder contains files of several formats, the format with the highest score is used. The
//! scores are: safetensors 100 (a part of a set 60), MDS 95, one rank of Megatron-LM 40, torch 30,
//! SavedModel 28, Orbax 24, TensorFlow checkpoint 20, Flax 18, zarr arrays without a tree 17, Keras
//! 16, GGUF 14, ONNX 12, NumPy 10. A format with a score of 15 or less is used only if the folder
//! contains no other model. Otherwise, its files are copied along with that model.

mod formats;

/// Returns all formats, for programs that link them.
#[must_use]
pub fn formats() -> Vec<Box<dyn tensorferry_sdk::Format>> {
    formats::formats()
}

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
