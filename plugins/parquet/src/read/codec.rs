//! Decompresses pages. Each thread reuses its decoders and its buffer for compressed bytes: a decoder
//! of Zstandard takes 160 KiB, and a table may have thousands of columns.

use super::snappy::SnappyStream;
use crate::fault::one_line;
use parquet::basic::Compression;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, BufReader, Cursor, Read};
use tensorferry_sdk::{Error, Result};

/// Maximum size of the buffer that a thread keeps, in bytes.
const MAX_KEPT: usize = 1 << 20;
/// Size of a buffer of the Brotli decoder, in bytes.
const BROTLI_READ: usize = 4 << 10;

/// Number of compressed bytes that a stream reads at a time.
const STREAM_READ: usize = 128 << 10;
/// Base-2 logarithm of the maximum window of a Zstandard frame that is read as a stream. Encoders use
/// larger windows only on request.
const MAX_WINDOW_LOG: u32 = 23;

thread_local! {
    static COMPRESSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Calls a function with a buffer for `len` compressed bytes. The content of the buffer is
/// unspecified.
pub(super) fn with_compressed<T>(len: usize, call: impl FnOnce(&mut [u8]) -> T) -> T {
    COMPRESSED.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let result = call(&mut buffer[..len]);
        if buffer.len() > MAX_KEPT {
            *buffer = Vec::new();
        }
        result
    })
}

/// Decompresses a page that claims to have `len` bytes. Its first `levels` bytes are not
/// compressed.
pub(super) fn decompress(
    compression: Compression,
    bytes: &[u8],
    levels: usize,
    len: usize,
) -> Result<Vec<u8>> {
    let split = bytes.split_at_checked(levels).filter(|_| levels <= len);
    let (levels, compressed) =
        split.ok_or_else(|| Error::malformed("the levels of a page are longer than the page"))?;
    let mut page = Vec::with_capacity(len);
    page.extend_from_slice(levels);
    // A page without values may have no bytes at all, although an empty stream of most codecs has a
    // header.
    if page.len() < len {
        expand(compression, compressed, len, &mut page)?;
    }
    if page.len() > len {
        let error = Error::malformed("the page is longer than its header claims");
        return Err(error.expected(format!("{len} bytes")));
    }
    if page.len() < len {
        let error = Error::malformed("the page is shorter than its header claims");
        return Err(error.expected(format!("{len} bytes")).found(page.len()));
    }
    Ok(page)
}

/// Appends the decompressed bytes to a page, up to `len` bytes. If there are more bytes, returns an
/// error or appends at least one of them.
fn expand(compression: Compression, compressed: &[u8], len: usize, page: &mut Vec<u8>) -> Result<()> {
    let start = page.len();
    match compression {
        Compression::ZSTD(_) => ZSTD.with_borrow_mut(|kept| {
            let decompressor = match kept {
                Some(decompressor) => decompressor,
                None => kept.insert(zstd::bulk::Decompressor::new().map_err(damaged)?),
            };
            let mut output = Cursor::new(page);
            output.set_position(start as u64);
            decompressor.decompress_to_buffer(compressed, &mut output).map_err(damaged)?;
            Ok(())
        }),
        Compression::SNAPPY => {
            page.resize(len, 0);
            let written = snap::raw::Decoder::new().decompress(compressed, &mut page[start..]);
            page.truncate(start + written.map_err(damaged)?);
            Ok(())
        }
        Compression::GZIP(_) => read_to(flate2::read::MultiGzDecoder::new(compressed), len, page),
        Compression::BROTLI(_) => read_to(brotli::Decompressor::new(compressed, BROTLI_READ), len, page),
        Compression::LZ4_RAW => {
            page.resize(len, 0);
            lz4_block(compressed, &mut page[start..])
        }
        Compression::LZ4 => {
            page.resize(len, 0);
            // Writers disagree about the meaning of this codec.
            if hadoop(compressed, &mut page[start..]).is_ok() {
                return Ok(());
            }
            page.truncate(start);
            if read_to(lz4_flex::frame::FrameDecoder::new(compressed), len, page).is_ok() {
                return Ok(());
            }
            page.resize(len, 0);
            lz4_block(compressed, &mut page[start..])
        }
        Compression::LZO => Err(Error::unsupported("pages that are compressed with LZO")),
        Compression::UNCOMPRESSED => {
            page.extend_from_slice(compressed);
            Ok(())
        }
    }
}

/// Returns whether pages can be decompressed as streams.
pub(super) fn is_streamable(compression: Compression) -> bool {
    !matches!(compression, Compression::LZ4 | Compression::LZ4_RAW | Compression::LZO)
}

/// Returns the maximum memory of a stream in bytes.
pub(super) fn stream_memory(compression: Compression) -> u64 {
    STREAM_READ as u64 + if matches!(compression, Compression::ZSTD(_)) { 1 << MAX_WINDOW_LOG } else { 0 }
}

/// Decompresses a page as a stream.
pub(super) fn stream(
    compression: Compression,
    compressed: impl Read + Send + 'static,
) -> Result<Box<dyn Read + Send>> {
    let compressed = BufReader::with_capacity(STREAM_READ, compressed);
    Ok(match compression {
        Compression::UNCOMPRESSED => Box::new(compressed),
        Compression::SNAPPY => Box::new(SnappyStream::new(compressed)),
        Compression::GZIP(_) => Box::new(flate2::bufread::MultiGzDecoder::new(compressed)),
        Compression::BROTLI(_) => Box::new(brotli::Decompressor::new(compressed, BROTLI_READ)),
        Compression::ZSTD(_) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).map_err(failed)?;
            decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
            Box::new(decoder)
        }
        Compression::LZ4 | Compression::LZ4_RAW | Compression::LZO => {
            return Err(Error::plugin("this codec has no streams"));
        }
    })
}

/// Returns the error of a stream.
pub(super) fn failed(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(damaged)
}

fn damaged(error: impl Display) -> Error {
    Error::malformed(format!("a compressed page is damaged: {}", one_line(&error.to_string())))
}

/// Reads until the page has more than `len` bytes.
fn read_to(stream: impl Read, len: usize, page: &mut Vec<u8>) -> Result<()> {
    let left = (len - page.len()) as u64;
    stream.take(left + 1).read_to_end(page).map_err(damaged)?;
    Ok(())
}

/// Decompresses an LZ4 block that fills the output.
fn lz4_block(compressed: &[u8], output: &mut [u8]) -> Result<()> {
    let written = lz4_flex::block::decompress_into(compressed, output).map_err(damaged)?;
    if written == output.len() { Ok(()) } else { Err(damaged("a block is too short")) }
}

/// Decompresses the blocks that Hadoop's LZ4 codec writes. Each has two big-endian numbers of 32
/// bits: the length after decompression, and the length of the block.
fn hadoop(mut compressed: &[u8], mut output: &mut [u8]) -> Result<()> {
    let cut = || damaged("a block extends beyond its page");
    while !compressed.is_empty() {
        let mut number = || {
            let (number, rest) = compressed.split_first_chunk()?;
            compressed = rest;
            usize::try_from(u32::from_be_bytes(*number)).ok()
        };
        let (len, stored) = number().zip(number()).ok_or_else(cut)?;
        let (block, rest) = compressed.split_at_checked(stored).ok_or_else(cut)?;
        let (part, left) = output.split_at_mut_checked(len).ok_or_else(cut)?;
        lz4_block(block, part)?;
        (compressed, output) = (rest, left);
    }
    if output.is_empty() { Ok(()) } else { Err(damaged("blocks are missing")) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
    use std::io::Write as _;

    #[test]
    fn a_page_has_exactly_the_claimed_length() {
        let text = b"pages of pages of pages".repeat(20);
        let block = lz4_flex::block::compress(&text);
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(&text).unwrap();
        let number = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
        let hadoop = [&number(text.len())[..], &number(block.len()), &block].concat();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let mut brotli = Vec::new();
        brotli::CompressorWriter::new(&mut brotli, 4096, 3, 22).write_all(&text).unwrap();
        for (compression, bytes) in [
            (Compression::ZSTD(ZstdLevel::default()), zstd::bulk::compress(&text, 1).unwrap()),
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(&text).unwrap()),
            (Compression::GZIP(GzipLevel::default()), gzip.finish().unwrap()),
            (Compression::BROTLI(BrotliLevel::default()), brotli),
            (Compression::LZ4_RAW, block.clone()),
            (Compression::LZ4, block),
            (Compression::LZ4, frame.finish().unwrap()),
            (Compression::LZ4, hadoop),
        ] {
            // The levels precede the compressed bytes.
            let page = [&b"levels"[..], &bytes].concat();
            let expected = [&b"levels"[..], &text].concat();
            assert_eq!(decompress(compression, &page, 6, expected.len()).unwrap(), expected, "{compression}");
            for len in [0, 5, expected.len() - 1, expected.len() + 1] {
                assert!(decompress(compression, &page, 6, len).is_err(), "{compression}: {len} bytes");
            }
            let cut = decompress(compression, &page[..page.len() / 2], 6, expected.len());
            assert!(cut.is_err(), "{compression}");
        }
    }
}
