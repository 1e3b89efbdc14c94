//! `tensorferry-torch-dcp` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-torch-dcp", from tensorferry_torch_dcp::formats);
