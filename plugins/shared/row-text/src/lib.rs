//! Shared code for formats whose rows are text. It handles files that are compressed as a whole
//! (`.jsonl.gz`, `.csv.zst`) and JSON values in rows.
#![forbid(unsafe_code)]

pub mod exact;
pub mod json;

mod codec;
mod column_losses;
mod compression;
mod decompressed;
mod digits;
mod scan_all;
mod text_file;

pub use codec::{Codec, beginning, shard_files, uncompressed_name, with_suffixes};
pub use column_losses::ColumnLosses;
pub use compression::{Compression, CompressionOptions, MIN_BLOCK_BYTES};
pub use decompressed::{DecompressedReader, SourceRead, damage_error, max_expanded_len};
pub use digits::eight_digits;
pub use scan_all::scan_all;
pub use text_file::TextFile;
