//! What formats of rows as text share: files that may be compressed as a whole (`.jsonl.gz`, `.csv.zst`), and values that
//! are JSON within a row.
#![forbid(unsafe_code)]

pub mod exact;
pub mod json;

mod codec;
mod compression;
mod text_file;

pub use codec::{beginning, uncompressed_name, with_suffixes};
pub use compression::{Compression, CompressionOptions};
pub use text_file::TextFile;
