//! The codecs of a chunk. There is at most one compressor, followed by checksums.

use crate::blosc;
use crate::chunk_io::{SizedSink, SpanReader};
use crate::span::Span;
use std::io::{self, Read};
use tensorferry_sdk::{ByteSink, Context, EncodedStorage, Error, Result, Source, crc32c_append};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compressor {
    Zstd,
    Gzip,
    Zlib,
    Bzip2,
    Blosc,
}

impl Compressor {
    /// Returns the compressor with this codec name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "zstd" => Self::Zstd,
            "gzip" => Self::Gzip,
            "zlib" => Self::Zlib,
            "bz2" => Self::Bzip2,
            "blosc" => Self::Blosc,
            _ => {
                let error = Error::unsupported("unknown codec");
                return Err(error.expected("zstd, gzip, zlib, bz2 or blosc").found(format!("{name:?}")));
            }
        })
    }
}

/// The codecs with which a chunk was encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) compressor: Option<Compressor>,
    /// Number of checksums at the end of the chunk.
    pub(crate) checksums: u64,
}

/// A chunk that is decoded on demand.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) span: Span,
    pub(crate) chain: Chain,
    /// Decoded length in bytes.
    pub(crate) len: u64,
    /// Name of the chunk's array, for error messages.
    pub(crate) array: std::sync::Arc<str>,
}

impl EncodedStorage for Chunk {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        self.decode_chunk(source, output, context).map_err(|error| {
            let error = error.tensor(&*self.array);
            match &self.span {
                Span::File { file, offset, .. } => error.file(source.name(*file)).offset(*offset),
                Span::Inline { .. } => error,
            }
        })
    }
}

impl Chunk {
    fn decode_chunk(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let mut end = self.span.len();
        for _ in 0..self.chain.checksums {
            end =
                end.checked_sub(4).ok_or_else(|| Error::malformed("a chunk is shorter than its checksum"))?;
            self.check(source, end, context)?;
        }
        let mut input = SpanReader { source, span: &self.span, at: 0, end, failed: None };
        let mut output = SizedSink { output, left: self.len, len: self.len };
        let copied = match self.chain.compressor {
            None => copy(&mut input, &mut output, context),
            Some(Compressor::Zstd) => match zstd::stream::read::Decoder::new(&mut input) {
                Ok(mut decoder) => copy(&mut decoder, &mut output, context),
                Err(error) => Err(decode_error(&error)),
            },
            Some(Compressor::Gzip) => {
                copy(&mut flate2::read::MultiGzDecoder::new(&mut input), &mut output, context)
            }
            Some(Compressor::Zlib) => {
                copy(&mut flate2::read::ZlibDecoder::new(&mut input), &mut output, context)
            }
            Some(Compressor::Bzip2) => {
                copy(&mut bzip2::read::MultiBzDecoder::new(&mut input), &mut output, context)
            }
            Some(Compressor::Blosc) => blosc::decode(&mut input, &mut output, context),
        };
        if let Some(error) = input.failed.take() {
            return Err(error);
        }
        copied?;
        output.finish()
    }

    /// Compares the crc32c at the position `end` with the crc32c of all preceding bytes.
    fn check(&self, source: &dyn Source, end: u64, context: &dyn Context) -> Result<()> {
        let (mut at, mut crc) = (0, 0);
        let mut buffer = vec![0; PIECE];
        while at < end {
            context.check_cancelled()?;
            let len = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
            self.span.read_at(source, at, &mut buffer[..len])?;
            crc = crc32c_append(crc, &buffer[..len]);
            at += len as u64;
        }
        let mut stored = [0; 4];
        self.span.read_at(source, end, &mut stored)?;
        let stored = u32::from_le_bytes(stored);
        if stored == crc {
            return Ok(());
        }
        let error = Error::malformed("a chunk has a wrong crc32c");
        Err(error.expected(format!("{stored:#010x}")).found(format!("{crc:#010x}")))
    }
}

const PIECE: usize = 64 << 10;

fn decode_error(error: &io::Error) -> Error {
    Error::malformed("a chunk cannot be decompressed").found(error)
}

fn copy(from: &mut dyn Read, to: &mut SizedSink<'_>, context: &dyn Context) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        context.check_cancelled()?;
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => to.write(&buffer[..len])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(decode_error(&error)),
        }
    }
}
