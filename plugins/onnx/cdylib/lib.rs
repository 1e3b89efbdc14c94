//! `tensorferry-onnx` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-onnx", from tensorferry_onnx::formats);
