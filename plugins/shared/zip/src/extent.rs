//! An extent is a range of bytes of a file. A file of torch may lie inside another one: a chunk of a
//! distributed checkpoint is a whole archive within its rank's file.

use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_range};

/// `len` bytes of a file from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The file.
    pub file: FileId,
    /// Its first byte in the file.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

impl Extent {
    /// All of a file.
    pub fn whole(source: &dyn Source, file: FileId) -> Self {
        Self { file, offset: 0, len: source.len(file) }
    }

    /// `len` bytes of a file, once it is known that they are there.
    ///
    /// # Errors
    /// Malformed, if the file is shorter.
    pub fn within(source: &dyn Source, file: FileId, offset: u64, len: u64) -> Result<Self> {
        check_range(source.name(file), source.len(file), offset, len)?;
        Ok(Self { file, offset, len })
    }

    /// `len` bytes of it from `offset` of the file on, once it is known that they are in it.
    ///
    /// # Errors
    /// Malformed, if it ends before.
    pub fn part(self, source: &dyn Source, offset: u64, len: u64) -> Result<Self> {
        if offset < self.offset {
            return Err(Error::malformed("an offset before the start")
                .file(source.name(self.file))
                .offset(offset)
                .expected(format!("at least {}", self.offset)));
        }
        check_range(source.name(self.file), self.end(), offset, len)?;
        Ok(Self { file: self.file, offset, len })
    }

    /// What is left of it behind its first `len` bytes.
    #[must_use]
    pub fn after(self, len: u64) -> Self {
        let len = len.min(self.len);
        Self { file: self.file, offset: self.offset + len, len: self.len - len }
    }

    /// Where it ends in the file.
    #[must_use]
    pub fn end(self) -> u64 {
        // An extent lies in its file, whose length fits.
        self.offset.saturating_add(self.len)
    }

    /// All of its bytes.
    ///
    /// # Errors
    /// A limit, if they are too many to hold; i/o.
    pub fn read(self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        source.read_vec(self.file, self.offset, self.len, limits)
    }

    /// Its first bytes: as many as `buffer` holds and as it has.
    ///
    /// # Errors
    /// I/o.
    pub fn read_start<'b>(self, source: &dyn Source, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        let len = usize::try_from(self.len).map_or(buffer.len(), |len| len.min(buffer.len()));
        let start = &mut buffer[..len];
        source.read_at(self.file, self.offset, start)?;
        Ok(start)
    }
}
