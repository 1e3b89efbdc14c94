//! `tensorferry-jsonl` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-jsonl", from tensorferry_jsonl::formats);
