//! A simple format of rows, as a plugin that needs only the SDK.
//!
//! ```text
//! 8 bytes  "ROWSFILE"
//! u16      number of columns; for each:
//!   u8       kind: 0 i64, 1 f32, 2 bytes; plus 16 for lists of it
//!   u16, ..  length of the name, name
//! then rows:
//! u32      bytes of the rest of the row; for each column:
//!   u8       0 null, 1 not null; if not null:
//!   u32      for lists: number of values
//!   ..       the values: 8 bytes, 4 bytes, or a u32 and that many bytes
//! ```
//!
//! A set of files may have an index `NAME.index.json`, as in MosaicML's MDS: `{"version": 1,
//! "shards": [{"basename": NAME, "bytes": N, "samples": N}, ...]}`.
//!
//! All numbers are little-endian. A list cannot contain nulls. The writer leaves them out and
//! reports a loss.
#![forbid(unsafe_code)]

mod column;
mod read;
mod write;

use tensorferry_sdk::records::{RecordReader, RecordWriter, Sharding};
use tensorferry_sdk::{Capabilities, Description, Format, Options, Result, Side, TypedOption};

const MAGIC: &[u8] = b"ROWSFILE";

const SPLIT: TypedOption<u64> = TypedOption::integer(
    Side::Reader,
    "split",
    0..=u64::MAX,
    "approximate rows of a split, the unit of parallel reading",
)
.or("4096");
const PIECE: TypedOption<usize> = TypedOption::integer(
    Side::Writer,
    "piece",
    0..=u64::MAX,
    "rows of a piece, the unit of parallel writing",
)
.or("4096");
const INDEX: TypedOption<bool> = TypedOption::flag(
    Side::Writer,
    "index",
    false,
    "write NAME.index.json, a list of all files with their rows",
);

/// The format `rows`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rows;

impl Format for Rows {
    fn describe(&self) -> Description {
        Description::new("rows", "plain rows")
            .suffixes([".rows"])
            .magic(0, MAGIC)
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
            .options(
                [SPLIT.spec(), PIECE.spec(), INDEX.spec()]
                    .into_iter()
                    .chain(Sharding::options())
                    .collect::<Vec<_>>(),
            )
            .output_revision(1)
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader(SPLIT.get(options)?)))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        let (piece, has_index) = (PIECE.get(options)?.max(1), INDEX.get(options)?);
        Ok(Box::new(write::Writer { piece, has_index, sharding: Sharding::of(options)? }))
    }
}

tensorferry_sdk::export_plugin!(Rows);
