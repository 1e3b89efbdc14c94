//! A codec is what a whole file is compressed with.

use crate::bytes::{DecodedWindow, Decoder, DeflateDecoder, Input, PlainWindow, SnappyDecoder, Window};
use crate::frame::{HEADER, length};
use std::ops::Deref;
use tensorferry_sdk::{ErrorKind, FileId, Limits, Result, Source};

/// How much of a file is looked at to find out its codec. TensorFlow's blocks of snappy have at most
/// 256 KiB of records; a longer one starts with its first record all the same.
const LOOK: usize = 16;

/// What a file is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Nothing.
    None,
    /// Gzip members.
    Gzip,
    /// A zlib stream.
    Zlib,
    /// TensorFlow's blocks of snappy.
    Snappy,
}

impl Codec {
    const COMPRESSED: [Self; 3] = [Self::Gzip, Self::Zlib, Self::Snappy];

    /// A window on the decompressed bytes of a file. `limits` bound what a block may claim.
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

/// A source that a call has been lent, or a stream shares.
pub(crate) trait SharedSource: Deref<Target: Source> + Clone + Send {}

impl<S: Deref<Target: Source> + Clone + Send> SharedSource for S {}

/// What a look at a file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sniffed {
    /// Its codec; a file that fits none is read as plain, so that its first length is what is wrong.
    pub(crate) codec: Codec,
    /// Whether there is a first length whose checksum is right.
    pub(crate) is_certain: bool,
}

/// Finds out a file's codec.
pub(crate) fn sniff<S: SharedSource>(source: &S, file: FileId, limits: &Limits) -> Result<Sniffed> {
    let starts = |codec: Codec| match codec.window(source, file, limits).at(0, LOOK) {
        Ok(bytes) => Ok(Start { is_sound: true, is_header: length(bytes).is_some() }),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient) => Err(error),
        Err(_) => Ok(Start { is_sound: false, is_header: false }),
    };
    // Of what is plain so many bytes tell: a window would fetch much of a file that may be another format's.
    let first = first_bytes(&**source, file)?;
    if length(&first).is_some() {
        return Ok(Sniffed { codec: Codec::None, is_certain: true });
    }
    for codec in Codec::COMPRESSED {
        if starts(codec)?.is_header {
            return Ok(Sniffed { codec, is_certain: true });
        }
    }
    let codec = match magic(first) {
        // A file of no records, or a damaged one.
        Codec::Zlib if starts(Codec::Zlib)?.is_sound => Codec::Zlib,
        Codec::Gzip => Codec::Gzip,
        _ => Codec::None,
    };
    Ok(Sniffed { codec, is_certain: false })
}

/// The codec that a file's first bytes look like: snappy's look like nothing.
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

/// As many bytes as a record's header has, zeros behind the end.
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

/// Whether two bytes are a zlib stream's header: deflate, a window of 32 KiB, checked.
fn is_zlib(cmf: u8, flags: u8) -> bool {
    cmf == 0x78 && u16::from_be_bytes([cmf, flags]).is_multiple_of(31)
}
