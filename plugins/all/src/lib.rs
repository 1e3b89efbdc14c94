//! ferry's built-in formats as one library. `ferry` and the Python package load it like any other
//! plugin library.
//!
//! One library is smaller than many: 19 libraries have 104 MB, and this one has 28 MB, because each
//! would contain the SDK and most of them Arrow. A conversion also opens one library instead of
//! two.
//!
//! If a folder contains files of several formats, the scores of their probes decide: safetensors
//! 100 (a part of a set 60), MDS 95, one rank of Megatron-LM 40, torch 30, SavedModel 28, Orbax 24,
//! TensorFlow checkpoint 20, Flax 18, zarr arrays without a tree 17, Keras 16, GGUF 14, ONNX 12,
//! NumPy 10. At 15 and less, files next to a model do not make the folder a model of their format.

mod formats;

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
