//! `tensorferry-tfrecord` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-tfrecord", from tensorferry_tfrecord::formats);
