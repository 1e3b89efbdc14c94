//! A source is what the user named and its neighbours: files opened by relative name, read by
//! position.

use crate::{Error, Limits, Result};
use std::collections::{BTreeMap, BTreeSet};

/// An opened file of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Bytes of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// What the user pointed at. Names are relative to the source's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file: its name.
    File(String),
    /// A folder: the source's own.
    Folder,
    /// No file of that name, but files that start with it: the prefix.
    Prefix(String),
}

impl Entry {
    /// The name of the file or prefix; empty for a folder.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File(name) | Self::Prefix(name) => name,
            Self::Folder => "",
        }
    }
}

/// Positional reads of the input's files. Names are relative, separated by `/`, without `.` or
/// `..`; symbolic links are followed.
pub trait Source: Send + Sync {
    /// What the user pointed at.
    fn entry(&self) -> &Entry;

    /// Opens a file, or finds it open already.
    ///
    /// # Errors
    /// Malformed if there is none of that name, usage if the name leaves the folder, else i/o.
    fn open(&self, name: &str) -> Result<FileId>;

    /// Whether there is a file of that name.
    ///
    /// # Errors
    /// I/o: it cannot be said.
    fn contains(&self, name: &str) -> Result<bool>;

    /// The names of all files that start with `prefix`, sorted; sub-folders are not entered, unless
    /// the prefix names one: `list("")`, `list("model-")`, `list("variables/")`.
    ///
    /// # Errors
    /// I/o; or a limit, where a folder holds more than [`Limits::entries`].
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// The names of the folders in `folder` (empty for the source's own), sorted.
    ///
    /// # Errors
    /// I/o; or a limit, where there are more than [`Limits::entries`].
    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let _ = folder;
        Ok(Vec::new())
    }

    /// The name under which a file was opened.
    fn name(&self, file: FileId) -> &str;

    /// The file's length in bytes, as it was when it was first opened.
    fn len(&self, file: FileId) -> u64;

    /// Fills `buffer` from `offset`, whole.
    ///
    /// # Errors
    /// Malformed past the end of the file; transient if the file has changed; else i/o.
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `buffer` with ranges, one after the other, in the order that is given: many short reads (headers of an
    /// archive's entries) as one, which a host does at once where they lie close together.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), for any of them; a plugin error, if the buffer is not as long as all of them.
    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        let mut rest = split_ranges(ranges, buffer)?.into_iter();
        rest.try_for_each(|(range, part)| self.read_at(range.file, range.offset, part))
    }

    /// Says which bytes will be read soon, so that a disk or a server can begin. Ranges that are not there are
    /// passed over.
    fn advise(&self, ranges: &[FileRange]) {
        let _ = ranges;
    }

    /// The `len` bytes at `offset`, once it is known that they are there and at most
    /// [`Limits::header_bytes`].
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and over the limit.
    fn read_vec(&self, file: FileId, offset: u64, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        check_range(self.name(file), self.len(file), offset, len)?;
        if len > limits.header_bytes {
            return Err(Error::limit("too long to hold in memory")
                .file(self.name(file))
                .offset(offset)
                .expected(format!("at most {} bytes", limits.header_bytes))
                .found(len));
        }
        let mut buffer =
            vec![0; usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))?];
        self.read_at(file, offset, &mut buffer)?;
        Ok(buffer)
    }
}

/// The part of a buffer that each range fills.
///
/// # Errors
/// A plugin error, if the buffer is not as long as all ranges.
pub fn split_ranges<'b>(
    ranges: &[FileRange],
    mut buffer: &'b mut [u8],
) -> Result<Vec<(FileRange, &'b mut [u8])>> {
    let found = buffer.len();
    let wrong = || Error::plugin("a buffer is not as long as the ranges that are to fill it").found(found);
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let len = usize::try_from(range.len).map_err(|_| wrong())?;
        let (part, rest) = buffer.split_at_mut_checked(len).ok_or_else(wrong)?;
        parts.push((*range, part));
        buffer = rest;
    }
    if buffer.is_empty() { Ok(parts) } else { Err(wrong()) }
}

impl dyn Source + '_ {
    /// The first of these names that a file has.
    ///
    /// # Errors
    /// I/o: it cannot be said of one of them.
    pub fn first_of<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Option<N>> {
        for name in names {
            if self.contains(name.as_ref())? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// The first bytes of a file, up to this number.
    ///
    /// # Errors
    /// I/o.
    pub fn beginning(&self, file: FileId, most: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len(file).min(most)).unwrap_or(0)];
        self.read_at(file, 0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Whether `len` bytes at `offset` lie in a file of `file_len` bytes.
///
/// # Errors
/// Malformed, naming the file, the offset, and both lengths.
pub fn check_range(file: &str, file_len: u64, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= file_len => Ok(()),
        _ => Err(Error::malformed("the file ends too early")
            .file(file)
            .offset(offset)
            .expected(format!("{len} bytes"))
            .found(format!("{} bytes", file_len.saturating_sub(offset)))),
    }
}

/// Whether a name is relative, `/`-separated, and stays in its folder.
///
/// # Errors
/// Malformed: such names come from indexes and archives.
pub fn check_name(name: &str) -> Result<()> {
    let sane = !name.is_empty()
        && !name.contains(['\0', '\\'])
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if sane {
        Ok(())
    } else {
        Err(Error::malformed("not a file name inside the folder").found(format!("{name:?}")))
    }
}

/// A source for unit tests, and for formats that lie inside others: named byte strings.
#[derive(Debug, Clone)]
pub struct MemorySource {
    entry: Entry,
    files: Vec<(String, Vec<u8>)>,
}

impl MemorySource {
    /// One file, which is the entry.
    #[must_use]
    pub fn file(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { entry: Entry::File(name.to_owned()), files: vec![(name.to_owned(), bytes.into())] }
    }

    /// A folder of files, which is the entry.
    #[must_use]
    pub fn folder<N: Into<String>, B: Into<Vec<u8>>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name.into(), bytes.into()));
        Self { entry: Entry::Folder, files: files.collect() }
    }

    /// Several files with this entry.
    #[must_use]
    pub fn new(entry: Entry, files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { entry, files: files.into_iter().collect() }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.files.iter().position(|(n, _)| n == name)
    }

    fn get(&self, file: FileId) -> (&str, &[u8]) {
        self.files.get(file.0 as usize).map_or(("", &[]), |(name, bytes)| (name, bytes))
    }
}

impl Source for MemorySource {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn open(&self, name: &str) -> Result<FileId> {
        check_name(name)?;
        self.index(name)
            .and_then(|index| u32::try_from(index).ok())
            .map(FileId)
            .ok_or_else(|| Error::malformed("no such file").file(name))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.index(name).is_some())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = self
            .files
            .iter()
            .filter(|(name, _)| name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/')))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        Ok(names)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.files.iter().filter_map(|(name, _)| name.strip_prefix(&prefix)?.split_once('/'));
        let folders: BTreeSet<String> = below.map(|(first, _)| format!("{prefix}{first}")).collect();
        Ok(folders.into_iter().collect())
    }

    fn name(&self, file: FileId) -> &str {
        self.get(file).0
    }

    fn len(&self, file: FileId) -> u64 {
        self.get(file).1.len() as u64
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (name, bytes) = self.get(file);
        check_range(name, bytes.len() as u64, offset, buffer.len() as u64)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
        Ok(())
    }
}
