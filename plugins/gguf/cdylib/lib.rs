//! `tensorferry-gguf` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-gguf", from tensorferry_gguf::formats);
