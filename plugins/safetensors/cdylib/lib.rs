//! `tensorferry-safetensors` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-safetensors", from tensorferry_safetensors::formats);
