//! Reads the content of an entry. Deflated entries are inflated in pieces of limited size.

use crate::{Archive, Entry, Extent, Method};
use flate2::{Decompress, FlushDecompress, Status};
use tensorferry_sdk::{ByteSink, Context, Error, Limits, Result, Source};

/// Number of bytes that are read or inflated at a time.
const PIECE: usize = 64 << 10;

/// Maximum factor by which deflate data can expand. Two bits can encode a match of 258 bytes.
const MAX_EXPANSION: u64 = 1032;

/// An entry and the location of its bytes. This information is sufficient to read the content.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: Box<str>,
    pub method: Method,
    pub stored: Extent,
    /// Length of the content in bytes.
    pub len: u64,
    /// CRC-32 of the content.
    pub crc: u32,
}

/// Whether to continue with the next piece of the content.
enum Flow {
    Continue,
    Stop,
}

impl Archive {
    /// Returns the entry with this index in [`entries`](Self::entries), and the location of its
    /// bytes. Fails if the stored bytes cannot expand to the claimed length of the entry.
    pub fn member(&self, index: usize) -> Result<Member> {
        let entry = self.entries().get(index).ok_or_else(|| Error::plugin("no such zip entry"))?;
        let stored = self.stored(index);
        check_ratio(entry).map_err(|error| self.at(error, stored.offset))?;
        let &Entry { method, len, crc, .. } = entry;
        Ok(Member { name: entry.name.clone(), method, stored, len, crc })
    }
}

impl Member {
    /// Returns the first `len` bytes of the content.
    pub fn front(&self, source: &dyn Source, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        if len > self.len {
            return Err(self.too_short(len, self.len));
        }
        if self.method == Method::Stored {
            return source.read_vec(self.stored.file, self.stored.offset, len, limits);
        }
        if len > limits.header_bytes {
            let error = Error::limit("too long to hold in memory").file(source.name(self.stored.file));
            return Err(error.expected(format!("at most {} bytes", limits.header_bytes)).found(len));
        }
        let mut bytes = Vec::new();
        self.inflate(source, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(if bytes.len() as u64 >= len { Flow::Stop } else { Flow::Continue })
        })?;
        if (bytes.len() as u64) < len {
            return Err(self.too_short(len, bytes.len() as u64));
        }
        bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    /// Writes the content to `output`, and checks its length and CRC.
    pub fn write(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let mut crc = crc32fast::Hasher::new();
        let mut len = 0_u64;
        self.each_piece(source, &mut |piece| {
            context.check_cancelled()?;
            len += piece.len() as u64;
            if len > self.len {
                let error = Error::malformed(format!(
                    "zip entry {:?} is longer than the directory declares",
                    self.name
                ));
                return Err(error.expected(format!("{} bytes", self.len)));
            }
            crc.update(piece);
            output.write(piece)?;
            Ok(Flow::Continue)
        })?;
        if len < self.len {
            return Err(self.too_short(self.len, len));
        }
        let found = crc.finalize();
        if found == self.crc {
            return Ok(());
        }
        let error =
            Error::malformed(format!("the CRC-32 of zip entry {:?} differs from the directory", self.name));
        Err(error
            .file(source.name(self.stored.file))
            .expected(format!("{:08x}", self.crc))
            .found(format!("{found:08x}")))
    }

    /// Returns the CRC-32 of the content without its first bytes, which are `first`. If a storage
    /// follows a header in the entry, the host can check the storage against this CRC while copying
    /// it. CRCs are linear: crc(rest) = crc(all) xor crc(first, advanced by the length of the
    /// rest).
    #[must_use]
    pub fn crc_after(&self, first: &[u8]) -> u32 {
        let mut moved = crc32fast::Hasher::new();
        moved.update(first);
        let rest_len = self.len.saturating_sub(first.len() as u64);
        moved.combine(&crc32fast::Hasher::new_with_initial_len(0, rest_len));
        self.crc ^ moved.finalize()
    }

    fn each_piece(&self, source: &dyn Source, take: &mut dyn FnMut(&[u8]) -> Result<Flow>) -> Result<()> {
        if self.method == Method::Deflated {
            return self.inflate(source, take);
        }
        let mut buffer = vec![0; PIECE];
        let mut done = 0_u64;
        while done < self.stored.len {
            let piece = self.read_piece(source, done, &mut buffer)?;
            done += piece.len() as u64;
            take(piece)?;
        }
        Ok(())
    }

    fn read_piece<'b>(&self, source: &dyn Source, done: u64, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        let len = usize::try_from(self.stored.len - done).map_or(PIECE, |len| len.min(PIECE));
        source.read_at(self.stored.file, self.stored.offset + done, &mut buffer[..len])?;
        Ok(&buffer[..len])
    }

    fn inflate(&self, source: &dyn Source, take: &mut dyn FnMut(&[u8]) -> Result<Flow>) -> Result<()> {
        let at = |error: Error, offset: u64| {
            let error = error.context(format!("zip entry {:?}", self.name));
            error.file(source.name(self.stored.file)).offset(self.stored.offset + offset)
        };
        let mut inflater = Decompress::new(false);
        let (mut input, mut output) = (vec![0; PIECE], vec![0; PIECE]);
        let mut done = 0_u64;
        while done < self.stored.len {
            let input = self.read_piece(source, done, &mut input)?;
            let before_piece = inflater.total_in();
            loop {
                let used = usize::try_from(inflater.total_in() - before_piece).unwrap_or(usize::MAX);
                let before = inflater.total_out();
                let status = inflater
                    .decompress(&input[used..], &mut output, FlushDecompress::None)
                    .map_err(|e| at(Error::malformed(format!("invalid deflate data: {e}")), done))?;
                let made = usize::try_from(inflater.total_out() - before).unwrap_or(usize::MAX);
                if made > 0 && matches!(take(&output[..made])?, Flow::Stop) {
                    return Ok(());
                }
                match status {
                    Status::StreamEnd if inflater.total_in() == self.stored.len => return Ok(()),
                    Status::StreamEnd => {
                        return Err(at(
                            Error::malformed("extra bytes after the deflate data"),
                            inflater.total_in(),
                        ));
                    }
                    // If the inflater produced output, it may produce more output without further
                    // input. Otherwise, it needs more input.
                    Status::Ok | Status::BufError if made == 0 => break,
                    Status::Ok | Status::BufError => {}
                }
            }
            done = inflater.total_in();
            if done == before_piece {
                break;
            }
        }
        Err(at(Error::malformed("the deflate data is truncated"), done))
    }

    fn too_short(&self, expected: u64, found: u64) -> Error {
        Error::malformed(format!("zip entry {:?} ends too early", self.name))
            .expected(format!("{expected} bytes"))
            .found(format!("{found} bytes"))
    }
}

/// Checks that the stored bytes of an entry can expand to its claimed length.
fn check_ratio(entry: &Entry) -> Result<()> {
    let max = entry.stored_len.saturating_mul(MAX_EXPANSION);
    if entry.method == Method::Stored || entry.len <= max {
        return Ok(());
    }
    Err(Error::malformed(format!(
        "zip entry {:?} claims to be longer than its deflate data allows",
        entry.name
    ))
    .expected(format!("at most {max} bytes"))
    .found(entry.len))
}
