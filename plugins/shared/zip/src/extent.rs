//! An extent is a range of bytes in a file. A torch archive may be inside another file: in a
//! distributed checkpoint, the file of each rank contains each chunk as a complete archive.

use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_range};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    pub file: FileId,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// Returns the extent of a whole file.
    pub fn whole(source: &dyn Source, file: FileId) -> Self {
        Self { file, offset: 0, len: source.len(file) }
    }

    /// Returns the extent of `len` bytes at `offset`. Fails if the file ends earlier.
    pub fn within(source: &dyn Source, file: FileId, offset: u64, len: u64) -> Result<Self> {
        check_range(source.name(file), source.len(file), offset, len)?;
        Ok(Self { file, offset, len })
    }

    /// Returns the extent of `len` bytes at `offset` in the file. Fails if these bytes are not
    /// inside this extent.
    pub fn part(self, source: &dyn Source, offset: u64, len: u64) -> Result<Self> {
        if offset < self.offset {
            return Err(Error::malformed("the offset is before the start of the extent")
                .file(source.name(self.file))
                .offset(offset)
                .expected(format!("at least {}", self.offset)));
        }
        check_range(source.name(self.file), self.end(), offset, len)?;
        Ok(Self { file: self.file, offset, len })
    }

    /// Returns the extent without its first `len` bytes.
    #[must_use]
    pub fn after(self, len: u64) -> Self {
        let len = len.min(self.len);
        Self { file: self.file, offset: self.offset + len, len: self.len - len }
    }

    /// Returns the offset in the file at which the extent ends.
    #[must_use]
    pub fn end(self) -> u64 {
        // The sum cannot overflow, because an extent is inside its file, whose length fits in 64
        // bits.
        self.offset.saturating_add(self.len)
    }

    /// Reads all bytes of the extent.
    pub fn read(self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        source.read_vec(self.file, self.offset, self.len, limits)
    }

    /// Reads the first bytes of the extent into `buffer`. The result is shorter than `buffer` only
    /// if the extent is shorter.
    pub fn read_start<'b>(self, source: &dyn Source, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        let len = usize::try_from(self.len).map_or(buffer.len(), |len| len.min(buffer.len()));
        let start = &mut buffer[..len];
        source.read_at(self.file, self.offset, start)?;
        Ok(start)
    }
}
