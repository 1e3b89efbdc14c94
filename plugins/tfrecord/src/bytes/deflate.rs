//! Deflated bytes: a zlib stream, or gzip members one after the other.
//!
//! flate2's own readers are not used: they end quietly where a zlib stream is cut off, and drop what
//! a call had decoded before it failed.

use super::decoded_window::Decoder;
use super::{Input, gzip_header};
use flate2::{Decompress, FlushDecompress, Status};
use std::ops::Deref;
use tensorferry_sdk::{Error, Result, Source};

/// A decoder of deflated bytes.
pub(crate) struct DeflateDecoder<S> {
    input: Input<S>,
    inflate: Decompress,
    wrapping: Wrapping,
    state: StreamState,
}

enum Wrapping {
    Zlib,
    /// With the checksum and the length of the member so far.
    Gzip(crc32fast::Hasher),
}

#[derive(PartialEq)]
enum StreamState {
    /// Before a gzip member, or before its end.
    Between,
    Inside,
    Ended,
}

impl<S: Deref<Target: Source>> DeflateDecoder<S> {
    /// A zlib stream.
    pub(crate) fn zlib(input: Input<S>) -> Self {
        Self { input, inflate: Decompress::new(true), wrapping: Wrapping::Zlib, state: StreamState::Inside }
    }

    /// Gzip members.
    pub(crate) fn gzip(input: Input<S>) -> Self {
        let wrapping = Wrapping::Gzip(crc32fast::Hasher::new());
        Self { input, inflate: Decompress::new(false), wrapping, state: StreamState::Between }
    }

    fn malformed(&self, message: &str) -> Error {
        Error::malformed(format!("{message}, at byte {} of the compressed file", self.input.position()))
    }

    /// Starts the next member, if there is one. Zeros may follow the last.
    fn begin(&mut self) -> Result<()> {
        while self.input.position() > 0 && self.input.fill()?.first() == Some(&0) {
            self.input.consume(1);
        }
        if self.input.fill()?.is_empty() {
            self.state = StreamState::Ended;
            return Ok(());
        }
        gzip_header::take(&mut self.input)?;
        self.inflate.reset(false);
        self.wrapping = Wrapping::Gzip(crc32fast::Hasher::new());
        self.state = StreamState::Inside;
        Ok(())
    }

    /// Checks what follows the deflated bytes.
    fn end(&mut self) -> Result<()> {
        let Wrapping::Gzip(crc) = &self.wrapping else {
            self.state = StreamState::Ended;
            if self.input.left() > 0 {
                return Err(self.malformed("bytes follow the end of the zlib stream"));
            }
            return Ok(());
        };
        let crc = crc.clone().finalize().to_le_bytes();
        let len = self.inflate.total_out().to_le_bytes();
        let Ok(trailer) = self.input.array::<8>()? else {
            return Err(self.malformed("the file ends inside a gzip member's checksum"));
        };
        if trailer[..4] != crc || trailer[4..] != len[..4] {
            return Err(self.malformed("the checksum of a gzip member is wrong"));
        }
        self.state = StreamState::Between;
        Ok(())
    }
}

impl<S: Deref<Target: Source> + Send> Decoder for DeflateDecoder<S> {
    fn decode(&mut self, output: &mut Vec<u8>, most: usize) -> Result<usize> {
        let begin = output.len();
        loop {
            match self.state {
                StreamState::Ended => return Ok(0),
                StreamState::Between => self.begin()?,
                StreamState::Inside => {
                    let taken_before = self.inflate.total_in();
                    output.reserve(most);
                    let bytes = self.input.fill()?;
                    let is_end = bytes.is_empty();
                    let status = self.inflate.decompress_vec(bytes, output, FlushDecompress::None);
                    // No more than the bytes that it was counted in.
                    let taken = usize::try_from(self.inflate.total_in() - taken_before).unwrap_or(0);
                    let given = output.len() - begin;
                    self.input.consume(taken);
                    if let Wrapping::Gzip(crc) = &mut self.wrapping {
                        crc.update(&output[begin..]);
                    }
                    match status {
                        Ok(Status::StreamEnd) => self.end()?,
                        Ok(_) if given == 0 && (is_end || taken == 0) => {
                            return Err(self.malformed("the file ends inside its compressed bytes"));
                        }
                        Ok(_) => {}
                        Err(error) => {
                            return Err(self.malformed(&format!("bytes that cannot be inflated ({error})")));
                        }
                    }
                    if given > 0 {
                        return Ok(given);
                    }
                }
            }
        }
    }
}
