//! `tensorferry-mds` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-mds", from tensorferry_mds::formats);
