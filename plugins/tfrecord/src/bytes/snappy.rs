//! Decodes TensorFlow's SNAPPY compression, which consists of independent blocks.
//!
//! ```text
//! u32 BE   the length of the compressed bytes
//! ...      a varint with the decompressed length, then snappy elements
//! ```
//!
//! TensorFlow writes blocks of at most 256 KiB, except for longer records. TensorFlow cannot read
//! such longer blocks, but this decoder can. Source:
//! tensorflow/core/lib/io/snappy/snappy_outputbuffer.cc.

use super::Input;
use super::decoded_window::Decoder;
use std::ops::Deref;
use tensorferry_sdk::{Error, Result, Source};

/// Maximum number of decompressed bytes per compressed byte. A copy element is three bytes long and
/// produces up to 64 bytes.
const MAX_EXPANSION: u64 = 22;

pub(crate) struct SnappyDecoder<S> {
    input: Input<S>,
    /// Maximum length of a compressed or decompressed block.
    max: u64,
    block: Vec<u8>,
}

impl<S: Deref<Target: Source>> SnappyDecoder<S> {
    pub(crate) fn new(input: Input<S>, max: u64) -> Self {
        Self { input, max, block: Vec::new() }
    }

    fn malformed(&self, start: u64, message: &str) -> Error {
        Error::malformed(format!("{message}, in the block at byte {start} of the compressed file"))
    }

    fn limit(&self, start: u64, len: u64) -> Error {
        Error::limit(format!(
            "the snappy block at byte {start} of the compressed file is too long to hold in memory"
        ))
        .expected(format!("at most {} bytes", self.max))
        .found(format!("{len} bytes"))
    }

    /// Reads the compressed bytes of the next block.
    fn take(&mut self, start: u64, len: u64) -> Result<()> {
        if len > self.input.left() {
            return Err(self.malformed(start, "the file ends inside a snappy block"));
        }
        if len > self.max {
            return Err(self.limit(start, len));
        }
        self.block.clear();
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        while left > 0 {
            let bytes = self.input.fill()?;
            let part = left.min(bytes.len());
            self.block.extend_from_slice(&bytes[..part]);
            self.input.consume(part);
            left -= part;
        }
        Ok(())
    }
}

impl<S: Deref<Target: Source> + Send> Decoder for SnappyDecoder<S> {
    fn decode(&mut self, output: &mut Vec<u8>, _max: usize) -> Result<usize> {
        loop {
            let start = self.input.position();
            let len = match self.input.array::<4>()? {
                Ok(len) => u64::from(u32::from_be_bytes(len)),
                Err(0) => return Ok(0),
                Err(_) => {
                    return Err(self.malformed(start, "the file ends inside the length of a snappy block"));
                }
            };
            self.take(start, len)?;
            let wrong = |_| self.malformed(start, "invalid snappy data");
            let given = snap::raw::decompress_len(&self.block).map_err(wrong)?;
            if given as u64 > len * MAX_EXPANSION {
                return Err(self
                    .malformed(start, "the decompressed length is not possible for this compressed length"));
            }
            if given as u64 > self.max {
                return Err(self.limit(start, given as u64));
            }
            let begin = output.len();
            output.resize(begin + given, 0);
            let done = snap::raw::Decoder::new().decompress(&self.block, &mut output[begin..]);
            if done.is_err() {
                output.truncate(begin);
                return Err(self.malformed(start, "invalid snappy data"));
            }
            if given > 0 {
                return Ok(given);
            }
        }
    }
}
