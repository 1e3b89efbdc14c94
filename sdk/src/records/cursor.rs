//! Cursors take bytes in order: of a file, or of a row that is in memory. What is not there is malformed, before anything
//! is allocated.

use crate::file_name::has_suffix;
use crate::{Entry, Error, FileId, Limits, Result, Source};
use std::sync::Arc;

/// Bytes that are read at once, at least.
const WINDOW: u64 = 64 << 10;

/// A place in a file, and bytes that follow it.
#[derive(Clone)]
pub struct FileCursor {
    source: Arc<dyn Source>,
    file: FileId,
    offset: u64,
    /// Where the file ends, or the part of it that is looked at.
    end: u64,
    limits: Limits,
    /// Bytes of the file from `begin` on.
    window: Vec<u8>,
    begin: u64,
}

impl FileCursor {
    /// The beginning of a file.
    ///
    /// # Errors
    /// I/o.
    pub fn new(source: &Arc<dyn Source>, name: &str, limits: &Limits) -> Result<Self> {
        let file = source.open(name)?;
        let (source, limits, end) = (source.clone(), limits.clone(), source.len(file));
        Ok(Self { source, file, offset: 0, end, limits, window: Vec::new(), begin: 0 })
    }

    /// Each file of an input behind its header, and the header, which has to be the same in all: of the file that the
    /// user named, or of those that end so, by their names.
    ///
    /// # Errors
    /// Malformed, if there are no such files or a header is another one; what `header` gives.
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
                    return Err(other.expected(format!("the one of {:?}", files[0].file_name())));
                }
            }
        }
        all.ok_or_else(|| Error::malformed("no such files here").expected(format!("*{suffix}")))
    }

    /// A part of the file, from its beginning.
    #[must_use]
    pub fn part(&self, start: u64, end: u64) -> Self {
        Self { offset: start, end: end.min(self.end), window: Vec::new(), ..self.clone() }
    }

    /// The file's name.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.source.name(self.file)
    }

    /// Where the next byte lies in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether there is no next byte.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.offset >= self.end
    }

    /// Goes past bytes.
    ///
    /// # Errors
    /// Malformed, with the place: there are not so many.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let left = self.end.saturating_sub(self.offset);
        if len > left {
            let cut = Error::malformed("the file ends too early").file(self.file_name()).offset(self.offset);
            return Err(cut.expected(format!("{len} more bytes")).found(left));
        }
        self.offset += len;
        Ok(())
    }

    /// The next bytes.
    ///
    /// # Errors
    /// As of [`skip`](Self::skip); a limit, if they are too many to hold in memory; i/o.
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
        // Both lie in the window, which is in memory.
        let place = |offset: u64| usize::try_from(offset - self.begin).unwrap_or(usize::MAX);
        Ok(self.window.get(place(start)..place(self.offset)).unwrap_or_default())
    }

    /// The next bytes, as many as the array has.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?.first_chunk();
        bytes.copied().ok_or_else(|| Error::plugin("a window that is too short"))
    }
}

/// The bytes of a row that are still to be decoded.
#[derive(Debug, Clone, Copy)]
pub struct RowBytes<'a>(pub &'a [u8]);

impl<'a> RowBytes<'a> {
    /// The next bytes.
    ///
    /// # Errors
    /// Malformed: there are not so many.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let cut = || Error::malformed("a row that is shorter than its values");
        let (bytes, rest) =
            split.ok_or_else(|| cut().expected(format!("{len} more bytes")).found(self.0.len()))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next bytes, as many as the array has.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?.first_chunk();
        bytes.copied().ok_or_else(|| Error::plugin("a slice that is too short"))
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// Malformed.
    pub fn end(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            more => {
                Err(Error::malformed("a row that is longer than its values")
                    .found(format!("{more} more bytes")))
            }
        }
    }
}
