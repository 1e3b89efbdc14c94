//! All formats as one library, for the wheel: each library of its own would bring the kit, and those of records Arrow.

mod formats;

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
