//! `tensorferry-numpy` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-numpy", from tensorferry_numpy::formats);
