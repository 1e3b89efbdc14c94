//! `tensorferry-webdataset` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-webdataset", from tensorferry_webdataset::formats);
