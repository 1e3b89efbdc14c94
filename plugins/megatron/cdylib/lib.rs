//! `tensorferry-megatron` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-megatron", from tensorferry_megatron::formats);
