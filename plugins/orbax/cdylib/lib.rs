//! `tensorferry-orbax` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-orbax", from tensorferry_orbax::formats);
