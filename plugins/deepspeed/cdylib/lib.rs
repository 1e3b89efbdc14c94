//! `tensorferry-deepspeed` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-deepspeed", from tensorferry_deepspeed::formats);
