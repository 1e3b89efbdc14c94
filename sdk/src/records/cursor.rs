//! Cursors read bytes in order, from a file or from a row in memory. If bytes are missing, a cursor
//! returns a malformed-data error before it allocates memory.

use crate::file_name::has_suffix;
use crate::{Entry, Error, FileId, Limits, Result, Source};
use std::sync::Arc;

/// Minimum number of bytes per read.
const WINDOW: u64 = 64 << 10;

/// A position in a file, and a buffer with the bytes that follow the position.
#[derive(Clone)]
pub struct FileCursor {
    source: Arc<dyn Source>,
    file: FileId,
    offset: u64,
    /// End of the file, or end of the part that the cursor reads.
    end: u64,
    limits: Limits,
    /// Buffered bytes of the file, starting at `begin`.
    window: Vec<u8>,
    begin: u64,
}

impl FileCursor {
    /// Creates a cursor at the beginning of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn new(source: &Arc<dyn Source>, name: &str, limits: &Limits) -> Result<Self> {
        let file = source.open(name)?;
        let (source, limits, end) = (source.clone(), limits.clone(), source.len(file));
        Ok(Self { source, file, offset: 0, end, limits, window: Vec::new(), begin: 0 })
    }

    /// Opens each file of an input and reads its header with `header`. Returns the cursors,
    /// positioned after the headers, and the header, which must be the same in all files. The input
    /// is the file that the user passed, or all files with this suffix in the folder or prefix,
    /// sorted by name.
    ///
    /// # Errors
    /// Returns a malformed-data error if the input contains no such files or if headers differ, or
    /// an error from `header`.
    pub fn all<H: PartialEq>(
        source: &Arc<dyn Source>,
        suffix: &str,
        limits: &Limits,
        header: impl Fn(&mut Self) -> Result<H>,
    ) -> Result<(Vec<Self>, H)> {
        let is_member = |name: &String| has_suffix(name, suffix);
        let names = match source.entry() {
            Entry::File(name) => vec![name.clone()],
            Entry::Folder => source.list("")?.into_iter().filter(is_member).collect(),
            Entry::Prefix(prefix) => source.list(prefix)?.into_iter().filter(is_member).collect(),
        };
        let mut all: Option<(Vec<Self>, H)> = None;
        for name in names {
            let mut file = Self::new(source, &name, limits)?;
            let found = header(&mut file)?;
            match &mut all {
                None => all = Some((vec![file], found)),
                Some((files, first)) if *first == found => files.push(file),
                Some((files, _)) => {
                    let other =
                        Error::malformed("the files of a set begin with different headers").file(name);
                    return Err(other.expected(format!("the header of {:?}", files[0].file_name())));
                }
            }
        }
        all.ok_or_else(|| Error::malformed("no matching files").expected(format!("*{suffix}")))
    }

    /// Returns a cursor for a part of the file, positioned at the beginning of the part.
    #[must_use]
    pub fn part(&self, start: u64, end: u64) -> Self {
        Self { offset: start, end: end.min(self.end), window: Vec::new(), ..self.clone() }
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.source.name(self.file)
    }

    /// Returns the offset of the next byte in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether the cursor is at the end.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.offset >= self.end
    }

    /// Skips bytes.
    ///
    /// # Errors
    /// Returns a malformed-data error with a location if fewer bytes remain.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let left = self.end.saturating_sub(self.offset);
        if len > left {
            let cut = Error::malformed("the file ends too early").file(self.file_name()).offset(self.offset);
            return Err(cut.expected(format!("{len} more bytes")).found(left));
        }
        self.offset += len;
        Ok(())
    }

    /// Returns the next `len` bytes.
    ///
    /// # Errors
    /// Returns a malformed-data error if fewer bytes remain. Returns a limit error if the bytes
    /// need too much memory, or an error if they cannot be read.
    pub fn take(&mut self, len: u64) -> Result<&[u8]> {
        let start = self.offset;
        self.skip(len)?;
        let has = self.begin..=self.begin + self.window.len() as u64;
        if !has.contains(&start) || !has.contains(&self.offset) {
            let ahead = WINDOW.min(self.limits.header_bytes);
            let read = len.max(ahead).min(self.end - start);
            self.window = self.source.read_vec(self.file, start, read, &self.limits)?;
            self.begin = start;
        }
        // Both offsets are within the window, which is in memory.
        let place = |offset: u64| usize::try_from(offset - self.begin).unwrap_or(usize::MAX);
        Ok(self.window.get(place(start)..place(self.offset)).unwrap_or_default())
    }

    /// Returns the next `N` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`take`](Self::take).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?.first_chunk();
        bytes.copied().ok_or_else(|| Error::plugin("the window is too short"))
    }
}

/// The bytes of a row that have not been decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct RowBytes<'a>(pub &'a [u8]);

impl<'a> RowBytes<'a> {
    /// Returns the next `len` bytes.
    ///
    /// # Errors
    /// Returns a malformed-data error if fewer bytes remain.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let cut = || Error::malformed("the row is shorter than its values");
        let (bytes, rest) =
            split.ok_or_else(|| cut().expected(format!("{len} more bytes")).found(self.0.len()))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Returns the next `N` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`take`](Self::take).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?.first_chunk();
        bytes.copied().ok_or_else(|| Error::plugin("the slice is too short"))
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    /// Returns a malformed-data error if bytes remain.
    pub fn end(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            more => {
                Err(Error::malformed("the row is longer than its values").found(format!("{more} more bytes")))
            }
        }
    }
}
