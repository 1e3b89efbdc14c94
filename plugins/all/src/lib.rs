//! ferry's built-in formats as one library. `ferry` and the Python package load it like any other
//! plugin library.

mod formats;

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
