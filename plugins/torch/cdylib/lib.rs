//! `tensorferry-torch` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-torch", from tensorferry_torch::formats);
