//! Passes record formats across the boundary. Rows cross as Arrow C streams, and everything else
//! crosses as calls.

mod loss_sink;
mod plan;
mod predicate;
mod reader;
mod set;
mod stream;
mod writer;

pub(super) use reader::{RemoteRecordReader, lend_record_reader};
pub(super) use writer::{RemoteRecordWriter, lend_record_writer};

fn known(number: u64) -> Option<u64> {
    Some(number).filter(|&number| number != tensorferry_abi::UNKNOWN)
}
