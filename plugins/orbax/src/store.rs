//! A store gives the bytes of a key: of a file in a folder, or of a place in an OCDBT store's files.

use crate::ocdbt::{self, MANIFEST};
use std::collections::BTreeMap;
use tensorferry_sdk::{Context, Error, FileId, Limits, Result, Source, check_name};

/// Where a value lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    File { file: FileId, offset: u64, len: u64 },
    Inline(Vec<u8>),
}

impl Span {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Fills a buffer with the bytes from `at` on, which are there.
    pub(crate) fn read_at(&self, source: &dyn Source, at: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::File { file, offset, .. } => source.read_at(*file, offset.saturating_add(at), buffer),
            Self::Inline(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..buffer.len()));
                buffer.copy_from_slice(from.ok_or_else(|| Error::plugin("a read past a value's end"))?);
                Ok(())
            }
        }
    }

    /// All bytes, once it is known that they may be held.
    pub(crate) fn bytes(&self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        match self {
            Self::File { file, offset, len } => source.read_vec(*file, *offset, *len, limits),
            Self::Inline(bytes) => Ok(bytes.clone()),
        }
    }

    /// A part of it; `None`, where it does not have one.
    pub(crate) fn part(&self, at: u64, part_len: u64) -> Option<Self> {
        if at.checked_add(part_len)? > self.len() {
            return None;
        }
        Some(match self {
            Self::File { file, offset, .. } => {
                Self::File { file: *file, offset: offset.checked_add(at)?, len: part_len }
            }
            Self::Inline(bytes) => {
                let at = usize::try_from(at).ok()?;
                Self::Inline(bytes.get(at..at + usize::try_from(part_len).ok()?)?.to_vec())
            }
        })
    }
}

/// The values of one checkpoint's arrays.
pub(crate) enum Store<'a> {
    Folder { source: &'a dyn Source, folder: String },
    Ocdbt(BTreeMap<String, Span>),
}

impl<'a> Store<'a> {
    /// Opens the store in a folder, whose name ends in a slash where it has one.
    pub(crate) fn open(source: &'a dyn Source, folder: &str, context: &dyn Context) -> Result<Self> {
        if source.contains(&format!("{folder}{MANIFEST}"))? {
            return ocdbt::keys(source, folder, context).map(Self::Ocdbt);
        }
        Ok(Self::Folder { source, folder: folder.to_owned() })
    }

    /// The value of a key, if there is one.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Span>> {
        match self {
            Self::Ocdbt(keys) => Ok(keys.get(key).cloned()),
            Self::Folder { source, folder } => {
                check_path(key)?;
                let path = format!("{folder}{key}");
                if !source.contains(&path)? {
                    return Ok(None);
                }
                let file = source.open(&path)?;
                Ok(Some(Span::File { file, offset: 0, len: source.len(file) }))
            }
        }
    }

    /// The names of all arrays that are there.
    pub(crate) fn arrays(&self, context: &dyn Context) -> Result<Vec<String>> {
        let ends = ["/.zarray", "/zarr.json"];
        match self {
            Self::Ocdbt(keys) => {
                let names = keys.keys().filter_map(|key| ends.iter().find_map(|end| key.strip_suffix(end)));
                Ok(names.map(str::to_owned).collect())
            }
            Self::Folder { source, folder } => {
                /// Groups in groups.
                const MOST_DEPTH: usize = 16;
                let mut names = Vec::new();
                let mut open = vec![(String::new(), 0)];
                while let Some((at, depth)) = open.pop() {
                    context.check_cancelled()?;
                    for below in source.folders(&format!("{folder}{at}"))?.into_iter().rev() {
                        let name = below.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                        let path = format!("{at}{name}");
                        let mut is_array = false;
                        for end in ends {
                            is_array |= source.contains(&format!("{folder}{path}{end}"))?;
                        }
                        if is_array {
                            names.push(path);
                        } else if depth < MOST_DEPTH
                            && names.len() as u64 + (open.len() as u64) < context.limits().tensors
                        {
                            open.push((format!("{path}/"), depth + 1));
                        }
                    }
                }
                names.sort();
                Ok(names)
            }
        }
    }
}

/// That a path from a file stays in its folder.
pub(crate) fn check_path(path: &str) -> Result<()> {
    if path.contains(['\\', '\0']) {
        let error = Error::malformed("a name that is no path in the checkpoint's folder");
        return Err(error.found(format!("{path:?}")));
    }
    check_name(path).map_err(|error| Error::malformed(error.message()).found(format!("{path:?}")))
}

/// Opens a file of the folder that a file names.
pub(crate) fn open_in(source: &dyn Source, folder: &str, path: &str) -> Result<FileId> {
    check_path(path).map_err(|error| error.file(format!("{folder}{MANIFEST}")))?;
    source.open(&format!("{folder}{path}"))
}
