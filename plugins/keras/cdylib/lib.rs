//! `tensorferry-keras` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-keras", from tensorferry_keras::formats);
