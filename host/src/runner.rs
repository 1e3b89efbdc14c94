//! The runner does the jobs of a manifest.

pub mod report;
pub mod report_html;
pub mod summary;
