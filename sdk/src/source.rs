//! A source provides the user's input and the files next to it. Files are opened by relative name,
//! and are read at explicit offsets.

use crate::{Error, Limits, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The id of an opened file of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes in an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// The input that the user passed. The name of the input is relative to the folder of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file with the given name.
    File(String),
    /// The folder of the source.
    Folder,
    /// A common prefix of the names of several files. No file has exactly this name.
    Prefix(String),
}

impl Entry {
    /// Returns the name of the file or prefix, or an empty string for a folder.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File(name) | Self::Prefix(name) => name,
            Self::Folder => "",
        }
    }
}

/// Provides positional reads of the input's files. Names are relative, use `/` as the separator,
/// and do not contain `.` or `..`. Symbolic links are followed.
pub trait Source: Send + Sync {
    /// Returns the input that the user passed.
    fn entry(&self) -> &Entry;

    /// Opens a file, or returns the id of the file if it is already open.
    ///
    /// # Errors
    /// Returns a malformed-data error if the file does not exist, a usage error if the name leads
    /// out of the folder, or an I/O error.
    fn open(&self, name: &str) -> Result<FileId>;

    /// Returns whether the source contains a file with this name.
    ///
    /// # Errors
    /// Returns an I/O error if the check fails.
    fn contains(&self, name: &str) -> Result<bool>;

    /// Returns the names of all files that start with `prefix`, in sorted order. A subfolder is
    /// searched only if the prefix contains it: `list("")`, `list("model-")`, `list("variables/")`.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be listed, or a limit error if it has more entries
    /// than [`Limits::entries`].
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Returns the names of the folders in `folder`, in sorted order. An empty `folder` means the
    /// folder of the source.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be listed, or a limit error if it has more entries
    /// than [`Limits::entries`].
    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let _ = folder;
        Ok(Vec::new())
    }

    /// Returns the name that was used to open a file.
    fn name(&self, file: FileId) -> &str;

    /// Returns the length that the file had when it was first opened, in bytes.
    fn len(&self, file: FileId) -> u64;

    /// Fills the whole `buffer` with bytes of a file, starting at `offset`.
    ///
    /// # Errors
    /// Returns a malformed-data error if the range extends past the end of the file, a transient
    /// error if the file has changed, or an I/O error.
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `buffer` with the bytes of several ranges, in the given order. Use this function for
    /// many short reads, such as the headers of an archive's entries. A host can combine ranges
    /// that are close together.
    ///
    /// # Errors
    /// Returns the errors of [`read_at`](Self::read_at) for each range, or a plugin error if the
    /// length of the buffer differs from the sum of the ranges.
    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        let mut rest = split_ranges(ranges, buffer)?.into_iter();
        rest.try_for_each(|(range, part)| self.read_at(range.file, range.offset, part))
    }

    /// Announces ranges that will be read soon, so that the storage system can start to load them.
    /// Ranges outside a file are ignored.
    fn advise(&self, ranges: &[FileRange]) {
        let _ = ranges;
    }

    /// Returns `len` bytes of a file, starting at `offset`. First checks that the file contains the
    /// bytes and that `len` is at most [`Limits::header_bytes`].
    ///
    /// # Errors
    /// Returns the errors of [`read_at`](Self::read_at), or a limit error.
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
            vec![0; usize::try_from(len).map_err(|_| Error::limit("too long for the address space"))?];
        self.read_at(file, offset, &mut buffer)?;
        Ok(buffer)
    }
}

/// Splits a buffer into the parts that the ranges fill.
///
/// # Errors
/// Returns a plugin error if the length of the buffer differs from the sum of the ranges.
pub fn split_ranges<'b>(
    ranges: &[FileRange],
    mut buffer: &'b mut [u8],
) -> Result<Vec<(FileRange, &'b mut [u8])>> {
    let found = buffer.len();
    let wrong = || Error::plugin("the length of a buffer differs from the sum of its ranges").found(found);
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
    /// Returns the first of these names for which a file exists.
    ///
    /// # Errors
    /// Returns an I/O error if a check fails.
    pub fn first_of<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Option<N>> {
        for name in names {
            if self.contains(name.as_ref())? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Returns at most `max` bytes from the beginning of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn beginning(&self, file: FileId, max: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len(file).min(max)).unwrap_or(0)];
        self.read_at(file, 0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Checks that a file of `file_len` bytes contains `len` bytes at `offset`.
///
/// # Errors
/// Returns a malformed-data error with the file, the offset, and both lengths.
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

/// Checks that a name is relative, uses `/` as the separator, and does not lead out of its folder.
///
/// # Errors
/// Returns a malformed-data error if a check fails, because such names come from indexes and
/// archives.
pub fn check_name(name: &str) -> Result<()> {
    let sane = !name.is_empty()
        && !name.contains(['\0', '\\'])
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if sane {
        Ok(())
    } else {
        Err(Error::malformed("a file name leaves its folder").found(format!("{name:?}")))
    }
}

/// A source of byte strings in memory, for unit tests and for formats inside other formats.
#[derive(Debug, Clone)]
pub struct MemorySource {
    entry: Entry,
    files: Vec<(String, Vec<u8>)>,
}

impl MemorySource {
    /// Creates a source with one file, which is the entry.
    #[must_use]
    pub fn file(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { entry: Entry::File(name.to_owned()), files: vec![(name.to_owned(), bytes.into())] }
    }

    /// Creates a source with a folder of files, which is the entry.
    #[must_use]
    pub fn folder<N: Into<String>, B: Into<Vec<u8>>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name.into(), bytes.into()));
        Self { entry: Entry::Folder, files: files.collect() }
    }

    /// Creates a source with several files and the given entry.
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
