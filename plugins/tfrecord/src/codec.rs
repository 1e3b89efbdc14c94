//! Detects the compression of whole files, and opens decompressed windows on them.

use crate::bytes::{DecodedWindow, Decoder, DeflateDecoder, Input, PlainWindow, SnappyDecoder, Window};
use crate::frame::{HEADER, length};
use std::ops::Deref;
use tensorferry_sdk::{ErrorKind, FileId, Limits, Result, Source};

/// Number of decompressed bytes to examine for codec detection. They always include the start of
/// the first record, even in a long snappy block.
const SNIFF_LEN: usize = 16;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    /// Gzip members.
    Gzip,
    /// A zlib stream.
    Zlib,
    /// Snappy blocks in TensorFlow's format.
    Snappy,
}

impl Codec {
    const COMPRESSED: [Self; 3] = [Self::Gzip, Self::Zlib, Self::Snappy];

    /// Opens a window on the decompressed bytes of a file. `limits` sets the maximum length of a
    /// block.
    pub(crate) fn window<'s, S: SharedSource + 's>(
        self,
        source: &S,
        file: FileId,
        limits: &Limits,
    ) -> Box<dyn Window + Send + 's> {
        fn boxed<'s, D: Decoder + 's>(decoder: D) -> Box<dyn Window + Send + 's> {
            Box::new(DecodedWindow::new(decoder))
        }
        let input = || Input::new(source.clone(), file);
        match self {
            Self::None => Box::new(PlainWindow::new(source.clone(), file, source.len(file))),
            Self::Gzip => boxed(DeflateDecoder::gzip(input())),
            Self::Zlib => boxed(DeflateDecoder::zlib(input())),
            Self::Snappy => boxed(SnappyDecoder::new(input(), limits.header_bytes)),
        }
    }
}

/// A source that is either borrowed for one call or shared by several streams.
pub(crate) trait SharedSource: Deref<Target: Source> + Clone + Send {}

impl<S: Deref<Target: Source> + Clone + Send> SharedSource for S {}

/// The result of examining the start of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DetectedCodec {
    /// The codec. If no codec is recognized, the file is read as if it were uncompressed, so an
    /// error refers to its first record length.
    pub(crate) codec: Codec,
    /// Whether the decompressed file starts with a record length that has a valid checksum.
    pub(crate) is_certain: bool,
}

/// Detects the codec of a file.
pub(crate) fn sniff<S: SharedSource>(source: &S, file: FileId, limits: &Limits) -> Result<DetectedCodec> {
    let starts = |codec: Codec| match codec.window(source, file, limits).at(0, SNIFF_LEN) {
        Ok(bytes) => Ok(Start { is_sound: true, is_header: length(bytes).is_some() }),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient) => Err(error),
        Err(_) => Ok(Start { is_sound: false, is_header: false }),
    };
    // The first header of an uncompressed file is sufficient. Opening a window would read many
    // bytes from a file that may have a different format.
    let first = first_bytes(&**source, file)?;
    if length(&first).is_some() {
        return Ok(DetectedCodec { codec: Codec::None, is_certain: true });
    }
    for codec in Codec::COMPRESSED {
        if starts(codec)?.is_header {
            return Ok(DetectedCodec { codec, is_certain: true });
        }
    }
    let codec = match magic(first) {
        // No valid record header was found. The file contains no records, or is damaged.
        Codec::Zlib if starts(Codec::Zlib)?.is_sound => Codec::Zlib,
        Codec::Gzip => Codec::Gzip,
        _ => Codec::None,
    };
    Ok(DetectedCodec { codec, is_certain: false })
}

/// Guesses the codec from the first bytes of a file. Snappy is not detected, because it has no
/// magic bytes.
pub(crate) fn sniff_magic<S: Source + ?Sized>(source: &S, file: FileId) -> Result<Codec> {
    Ok(magic(first_bytes(source, file)?))
}

fn magic(first: [u8; HEADER]) -> Codec {
    match first {
        _ if length(&first).is_some() => Codec::None,
        [0x1f, 0x8b, 8, ..] => Codec::Gzip,
        [cmf, flags, ..] if is_zlib(cmf, flags) => Codec::Zlib,
        _ => Codec::None,
    }
}

/// Returns the first bytes of a file, as many as a record header contains. If the file is shorter,
/// the rest is zeros.
fn first_bytes<S: Source + ?Sized>(source: &S, file: FileId) -> Result<[u8; HEADER]> {
    let mut first = [0; HEADER];
    let there = usize::try_from(source.len(file)).map_or(HEADER, |len| len.min(HEADER));
    source.read_at(file, 0, &mut first[..there])?;
    Ok(first)
}

struct Start {
    is_sound: bool,
    is_header: bool,
}

/// Returns whether two bytes are the header of a zlib stream: deflate, a 32 KiB window, and a valid
/// check value.
fn is_zlib(cmf: u8, flags: u8) -> bool {
    cmf == 0x78 && u16::from_be_bytes([cmf, flags]).is_multiple_of(31)
}
