//! ferry's own formats as one library, which `ferry` and the Python package load as they load other plugins.

mod formats;

tensorferry_sdk::export_plugin!(named "tensorferry", from formats::formats);
