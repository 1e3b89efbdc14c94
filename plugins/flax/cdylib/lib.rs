//! `tensorferry-flax` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-flax", from tensorferry_flax::formats);
