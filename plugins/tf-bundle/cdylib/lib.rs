//! `tensorferry-tf-bundle` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-tf-bundle", from tensorferry_tf_bundle::formats);
