//! `tensorferry-csv` as a library that `ferry` loads.

tensorferry_sdk::export_plugin!(named "tensorferry-csv", from tensorferry_csv::formats);
