//! ferry's built-in formats as one library. `ferry` and the Python package load it like any other
//! plugin library.
//!
//! One library is smaller than 19 separate ones, which would have 104 MB in total. This library has
//! 28 MB. Each separate library would contain the SDK, and most of them would also contain Arrow. A
//! conversion also has to open only one library instead of two.
//!
//! If a folder contains files of several formats, the format with the highest score is used. The
//! scores are: safetensors 100 (a part of a set 60), MDS 95, one rank of Megatron-LM 40, torch 30,
//! SavedModel 28, Orbax 24, TensorFlow checkpoint 20, Flax 18, zarr arrays without a tree 17, Keras
//! 16, GGUF 14, ONNX 12, NumPy 10. If a format's score is 15 or less, its files next to a model do
//! not make the folder a model of that format.

mod formats;

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
