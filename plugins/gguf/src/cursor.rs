//! A cursor that reads the numbers, strings and arrays in a header, in either byte order.

use tensorferry_sdk::{ByteOrder, Error, FileId, Limits, Result, Source};

/// Minimum number of bytes per read.
const WINDOW: u64 = 256 << 10;

/// A read position in a header.
pub(crate) struct Cursor<'a> {
    source: &'a dyn Source,
    file: FileId,
    limits: &'a Limits,
    /// Byte order of the numbers in the file.
    pub(crate) order: ByteOrder,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first byte of a file. The initial byte order is little-endian.
    pub(crate) fn new(source: &'a dyn Source, file: FileId, limits: &'a Limits) -> Self {
        Self { source, file, limits, order: ByteOrder::Little, at: 0, window: Vec::new(), window_at: 0 }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Returns the number of bytes from the cursor to the end of the file.
    pub(crate) fn left(&self) -> u64 {
        self.source.len(self.file).saturating_sub(self.at)
    }

    pub(crate) fn take(&mut self, len: u64) -> Result<&[u8]> {
        if len > self.left() {
            return Err(Error::malformed("the file ends inside its header")
                .offset(self.at)
                .expected(format!("{len} bytes"))
                .found(self.left()));
        }
        let limit = self.limits.header_bytes;
        if self.at + len > limit {
            return Err(Error::limit("the header is too long to hold in memory")
                .offset(self.at)
                .expected(format!("at most {limit} bytes"))
                .hint("raise the limit with --limit header_bytes=N"));
        }
        if self.at + len > self.window_at + self.window.len() as u64 {
            let max = self.left().min(limit - self.at);
            self.window = self.source.read_vec(self.file, self.at, len.max(WINDOW).min(max), self.limits)?;
            self.window_at = self.at;
        }
        let start = index(self.at - self.window_at)?;
        self.at += len;
        Ok(&self.window[start..start + index(len)?])
    }

    /// Reads an `N`-byte number and returns its bytes in little-endian order.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let order = self.order;
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64)?);
        if order == ByteOrder::Big {
            bytes.reverse();
        }
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a 64-bit item count, and checks that the rest of the file can contain that many items
    /// of at least `min` bytes each.
    pub(crate) fn count(&mut self, what: &str, min: u64) -> Result<u64> {
        let at = self.at;
        let (count, room) = (self.u64()?, self.left() / min);
        if count > room {
            return Err(Error::malformed(format!("the file is too short for its {what}"))
                .offset(at)
                .expected(format!("at most {room}"))
                .found(count));
        }
        Ok(count)
    }

    /// Reads the length and the bytes of a string.
    pub(crate) fn text(&mut self) -> Result<&[u8]> {
        let len = self.count("text", 1)?;
        self.take(len)
    }

    /// Reads a string that must be a valid name.
    pub(crate) fn name(&mut self) -> Result<String> {
        let (at, max) = (self.at, self.limits.name_bytes);
        let text = self.text()?;
        if text.len() as u64 > max {
            return Err(Error::limit("a name is too long")
                .offset(at)
                .expected(format!("at most {max} bytes"))
                .hint("raise the limit with --limit name_bytes=N")
                .found(text.len()));
        }
        let text = std::str::from_utf8(text);
        text.map(str::to_owned).map_err(|_| Error::malformed("a name is not valid UTF-8").offset(at))
    }
}

fn index(offset: u64) -> Result<usize> {
    usize::try_from(offset).map_err(|_| Error::limit("a length does not fit in the address space"))
}
