//! `tensorferry-parquet` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-parquet", from tensorferry_parquet::formats);
