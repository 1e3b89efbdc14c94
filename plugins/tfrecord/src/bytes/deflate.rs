//! Decodes deflated files. A deflated file contains a zlib stream or consecutive gzip members.
//!
//! flate2's own readers are not suitable. They do not report a truncated zlib stream, and they drop
//! the bytes that were decoded before a call failed.

use super::decoded_window::Decoder;
use super::{Input, gzip_header};
use flate2::{Decompress, FlushDecompress, Status};
use std::ops::Deref;
use tensorferry_sdk::{Error, Result, Source};

pub(crate) struct DeflateDecoder<S> {
    input: Input<S>,
    inflate: Decompress,
    wrapping: Wrapping,
    state: StreamState,
}

enum Wrapping {
    Zlib,
    /// The checksum of the decoded part of the current member.
    Gzip(crc32fast::Hasher),
}

#[derive(PartialEq)]
enum StreamState {
    /// The decoder is positioned before a gzip member or at the end of the file.
    Between,
    Inside,
    Ended,
}

impl<S: Deref<Target: Source>> DeflateDecoder<S> {
    /// Creates a decoder for a zlib stream.
    pub(crate) fn zlib(input: Input<S>) -> Self {
        Self { input, inflate: Decompress::new(true), wrapping: Wrapping::Zlib, state: StreamState::Inside }
    }

    /// Creates a decoder for gzip members.
    pub(crate) fn gzip(input: Input<S>) -> Self {
        let wrapping = Wrapping::Gzip(crc32fast::Hasher::new());
        Self { input, inflate: Decompress::new(false), wrapping, state: StreamState::Between }
    }

    fn malformed(&self, message: &str) -> Error {
        Error::malformed(format!("{message}, at byte {} of the compressed file", self.input.position()))
    }

    /// Starts the next member, if there is one. Zero bytes may follow the last member.
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

    /// Checks the bytes after the deflated data.
    fn end(&mut self) -> Result<()> {
        let Wrapping::Gzip(crc) = &self.wrapping else {
            self.state = StreamState::Ended;
            if self.input.left() > 0 {
                return Err(self.malformed("data after the end of the zlib stream"));
            }
            return Ok(());
        };
        let crc = crc.clone().finalize().to_le_bytes();
        let len = self.inflate.total_out().to_le_bytes();
        let Ok(trailer) = self.input.array::<8>()? else {
            return Err(self.malformed("the file ends inside the checksum of a gzip member"));
        };
        if trailer[..4] != crc || trailer[4..] != len[..4] {
            return Err(self.malformed("the checksum of a gzip member does not match"));
        }
        self.state = StreamState::Between;
        Ok(())
    }
}

impl<S: Deref<Target: Source> + Send> Decoder for DeflateDecoder<S> {
    fn decode(&mut self, output: &mut Vec<u8>, max: usize) -> Result<usize> {
        let begin = output.len();
        loop {
            match self.state {
                StreamState::Ended => return Ok(0),
                StreamState::Between => self.begin()?,
                StreamState::Inside => {
                    let taken_before = self.inflate.total_in();
                    output.reserve(max);
                    let bytes = self.input.fill()?;
                    let is_end = bytes.is_empty();
                    let status = self.inflate.decompress_vec(bytes, output, FlushDecompress::None);
                    // The difference does not exceed the length of `bytes`, so it fits.
                    let taken = usize::try_from(self.inflate.total_in() - taken_before).unwrap_or(0);
                    let given = output.len() - begin;
                    self.input.consume(taken);
                    if let Wrapping::Gzip(crc) = &mut self.wrapping {
                        crc.update(&output[begin..]);
                    }
                    match status {
                        Ok(Status::StreamEnd) => self.end()?,
                        Ok(_) if given == 0 && (is_end || taken == 0) => {
                            return Err(self.malformed("the compressed data is truncated"));
                        }
                        Ok(_) => {}
                        Err(error) => {
                            return Err(self.malformed(&format!("invalid deflate data ({error})")));
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
