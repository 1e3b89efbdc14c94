//! `tensorferry-arrow` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-arrow", from tensorferry_arrow::formats);
