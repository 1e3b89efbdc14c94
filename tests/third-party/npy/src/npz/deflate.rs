//! Deflate, in bounded pieces both ways.

use crate::zip::Member;
use crate::zip::read::Archive;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tensorferry_sdk::{ByteSink, Context, Error, Result};

const PIECE: usize = 64 << 10;

/// One byte of deflate makes at most this many: a match of 258 bytes in two bits.
const MOST_EXPANSION: u64 = 1032;

/// Whether the length that a member claims can come out of its bytes.
///
/// # Errors
/// Malformed.
pub(super) fn check_ratio(member: &Member) -> Result<()> {
    let most = member.stored_len.saturating_mul(MOST_EXPANSION);
    if member.len <= most {
        return Ok(());
    }
    Err(Error::malformed("the member is longer than deflate can make it")
        .expected(format!("at most {most} bytes"))
        .found(member.len))
}

/// The first `len` bytes of a deflated member, for its header.
///
/// # Errors
/// Malformed; a limit.
pub(super) fn front(archive: &Archive<'_>, member: &Member, offset: u64, len: u64) -> Result<Vec<u8>> {
    if len > member.len {
        return Err(too_short(len, member.len));
    }
    if len > archive.limits.header_bytes {
        return Err(Error::limit("an array's header is too long").found(len));
    }
    let mut bytes = Vec::new();
    inflate_pieces(archive, member, offset, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(if bytes.len() as u64 >= len { Next::Stop } else { Next::Go })
    })?;
    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    if (bytes.len() as u64) < len {
        return Err(too_short(len, bytes.len() as u64));
    }
    Ok(bytes)
}

/// All bytes of a deflated member, checked against its length and its CRC.
///
/// # Errors
/// Malformed; whatever the output gives.
pub(super) fn inflate(
    archive: &Archive<'_>,
    member: &Member,
    offset: u64,
    output: &mut dyn ByteSink,
    context: &dyn Context,
) -> Result<()> {
    let mut crc = crc32fast::Hasher::new();
    let mut len = 0_u64;
    inflate_pieces(archive, member, offset, &mut |piece| {
        context.check_cancelled()?;
        len += piece.len() as u64;
        if len > member.len {
            return Err(Error::malformed("the member is longer than the directory says").expected(member.len));
        }
        crc.update(piece);
        output.write(piece)?;
        Ok(Next::Go)
    })?;
    if len < member.len {
        return Err(too_short(member.len, len));
    }
    let crc = crc.finalize();
    if crc != member.crc {
        return Err(Error::malformed("the crc32 of the member's bytes is wrong")
            .expected(format!("{:#010x}", member.crc))
            .found(format!("{crc:#010x}")));
    }
    Ok(())
}

pub(super) fn too_short(expected: u64, found: u64) -> Error {
    Error::malformed("the member ends too early")
        .expected(format!("{expected} bytes"))
        .found(format!("{found} bytes"))
}

enum Next {
    Go,
    Stop,
}

fn inflate_pieces(
    archive: &Archive<'_>,
    member: &Member,
    offset: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<Next>,
) -> Result<()> {
    let mut inflater = Decompress::new(false);
    let mut output = vec![0; PIECE];
    let mut done = 0_u64;
    while done < member.stored_len {
        let len = (member.stored_len - done).min(PIECE as u64);
        let input = archive.source.read_vec(archive.file, offset + done, len, archive.limits)?;
        let before_piece = inflater.total_in();
        loop {
            let used = usize::try_from(inflater.total_in() - before_piece).unwrap_or(usize::MAX);
            let before = inflater.total_out();
            let status = inflater
                .decompress(&input[used..], &mut output, FlushDecompress::None)
                .map_err(|e| Error::malformed(format!("not deflated bytes: {e}")).offset(offset + done))?;
            let made = usize::try_from(inflater.total_out() - before).unwrap_or(usize::MAX);
            if made > 0 && matches!(take(&output[..made])?, Next::Stop) {
                return Ok(());
            }
            match status {
                Status::StreamEnd if inflater.total_in() == member.stored_len => return Ok(()),
                Status::StreamEnd => {
                    return Err(Error::malformed("bytes follow the end of the deflated member")
                        .offset(offset + inflater.total_in()));
                }
                // A full buffer may hide more; an empty one means that input is needed.
                Status::Ok | Status::BufError if made == 0 => break,
                Status::Ok | Status::BufError => {}
            }
        }
        done = inflater.total_in();
        if done == before_piece {
            break;
        }
    }
    Err(Error::malformed("the deflated member has no end").offset(offset + done))
}

/// Deflates what it is given into a sink.
pub(super) struct Deflater<'a> {
    output: &'a mut dyn ByteSink,
    compress: Compress,
    buffer: Vec<u8>,
    crc: crc32fast::Hasher,
}

impl<'a> Deflater<'a> {
    pub(super) fn new(output: &'a mut dyn ByteSink) -> Self {
        Self {
            output,
            compress: Compress::new(Compression::default(), false),
            buffer: vec![0; PIECE],
            crc: crc32fast::Hasher::new(),
        }
    }

    /// Takes the bytes that follow.
    ///
    /// # Errors
    /// Whatever the sink gives.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        let start = self.compress.total_in();
        loop {
            let used = usize::try_from(self.compress.total_in() - start).unwrap_or(usize::MAX);
            if used == bytes.len() {
                return Ok(());
            }
            self.step(&bytes[used..], FlushCompress::None)?;
        }
    }

    /// Ends the stream; gives the CRC-32 of what went in.
    ///
    /// # Errors
    /// Whatever the sink gives.
    pub(super) fn finish(mut self) -> Result<u32> {
        while self.step(&[], FlushCompress::Finish)? != Status::StreamEnd {}
        Ok(self.crc.finalize())
    }

    fn step(&mut self, input: &[u8], flush: FlushCompress) -> Result<Status> {
        let before = self.compress.total_out();
        let status = self.compress.compress(input, &mut self.buffer, flush);
        let status = status.map_err(|e| Error::plugin(format!("deflate: {e}")))?;
        let made = usize::try_from(self.compress.total_out() - before).unwrap_or(usize::MAX);
        self.output.write(&self.buffer[..made])?;
        Ok(status)
    }
}
