//! Formats of rows across the boundary: rows as Arrow C streams, everything else as calls.

mod arrow;
mod loss_sink;
mod plan;
mod reader;
mod set;
mod stream;
mod writer;

pub(super) use reader::{RemoteRecordReader, lend_record_reader};
pub(super) use writer::{RemoteRecordWriter, lend_record_writer};

/// What stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

fn known(number: u64) -> Option<u64> {
    Some(number).filter(|&number| number != UNKNOWN)
}
