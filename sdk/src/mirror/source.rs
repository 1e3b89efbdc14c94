//! Passes a [`Source`] across the boundary.

use super::collector::Collector;
use super::failure::expect_infallible;
use crate::{Entry, Error, FileId, FileRange, Result, Source};
use std::ops::Deref;
use std::sync::Arc;
use tensorferry_abi::{Borrowed, Failure, Handle, NameSinkTable, SourceCalls, SourceTable, UNKNOWN};

/// A source for the other side, which either borrows the source or owns it.
pub(super) struct LentSource<S>(pub(super) S);

/// A borrowed or owned pointer to the source in a [`LentSource`].
pub(super) trait SourceHandle: Send + Sync {
    fn source(&self) -> &dyn Source;
}

impl SourceHandle for &dyn Source {
    fn source(&self) -> &dyn Source {
        *self
    }
}

impl SourceHandle for Arc<dyn Source> {
    fn source(&self) -> &dyn Source {
        &**self
    }
}

impl<S: SourceHandle> SourceCalls for LentSource<S> {
    fn entry(&self) -> Result<(u32, &str), Failure> {
        let entry = self.0.source().entry();
        let kind = match entry {
            Entry::File(_) => 0,
            Entry::Folder => 1,
            Entry::Prefix(_) => 2,
        };
        Ok((kind, entry.name()))
    }

    fn open(&self, name: &str) -> Result<u32, Failure> {
        Ok(self.0.source().open(name)?.0)
    }

    fn exists(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.0.source().contains(name)?)
    }

    fn list(&self, prefix: &str, names: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.source().list(prefix)?.iter().try_for_each(|name| names.name(name))
    }

    fn folders(&self, folder: &str, names: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        self.0.source().folders(folder)?.iter().try_for_each(|name| names.name(name))
    }

    fn info(&self, file: u32) -> Result<(u64, &str), Failure> {
        let source = self.0.source();
        Ok((source.len(FileId(file)), source.name(FileId(file))))
    }

    fn read_at(&self, file: u32, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        Ok(self.0.source().read_at(FileId(file), offset, buffer)?)
    }

    fn read_ranges(&self, ranges: &[u64], buffer: &mut [u8]) -> Result<(), Failure> {
        Ok(self.0.source().read_ranges(&decode_ranges(ranges)?, buffer)?)
    }

    fn advise(&self, ranges: &[u64]) -> Result<(), Failure> {
        self.0.source().advise(&decode_ranges(ranges)?);
        Ok(())
    }
}

/// Encodes ranges as numbers. Each range becomes its file, offset and length.
fn encode_ranges(ranges: &[FileRange]) -> Vec<u64> {
    ranges.iter().flat_map(|range| [range.file.0.into(), range.offset, range.len]).collect()
}

fn decode_ranges(numbers: &[u64]) -> Result<Vec<FileRange>> {
    let wrong = || Error::plugin("ranges of files must be three numbers each");
    let (ranges, []) = numbers.as_chunks::<3>() else { return Err(wrong()) };
    let range = |&[file, offset, len]: &[u64; 3]| {
        Ok(FileRange { file: FileId(u32::try_from(file).map_err(|_| wrong())?), offset, len })
    };
    ranges.iter().map(range).collect()
}

pub(super) struct RemoteSource<O> {
    object: O,
    entry: Entry,
}

impl<O: Deref<Target = Handle<SourceTable>>> RemoteSource<O> {
    pub(super) fn new(object: O) -> Result<Self> {
        let (kind, name) = object.entry()?;
        let entry = match kind {
            0 => Entry::File(name.to_owned()),
            1 => Entry::Folder,
            2 => Entry::Prefix(name.to_owned()),
            _ => {
                return Err(Error::unsupported("the host has a kind of input that the plugin does not know"));
            }
        };
        Ok(Self { object, entry })
    }
}

impl<O: Deref<Target = Handle<SourceTable>> + Send + Sync> Source for RemoteSource<O> {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn open(&self, name: &str) -> Result<FileId> {
        let file = self.object.open(name)?;
        // A later host may have files of unknown length. The special value must not be used as a
        // length.
        if self.object.info(file)?.0 == UNKNOWN {
            return Err(
                Error::unsupported("the plugin cannot read files whose length is not known").file(name)
            );
        }
        Ok(FileId(file))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.object.exists(name)?)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Collector::<String>::default();
        self.object.list(prefix, Borrowed::sink(&mut names))?;
        Ok(names.0)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Collector::<String>::default();
        self.object.folders(folder, Borrowed::sink(&mut names))?;
        Ok(names.0)
    }

    fn name(&self, file: FileId) -> &str {
        expect_infallible(self.object.info(file.0)).1
    }

    fn len(&self, file: FileId) -> u64 {
        expect_infallible(self.object.info(file.0)).0
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.object.read_at(file.0, offset, buffer)?)
    }

    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        Ok(self.object.read_ranges(&encode_ranges(ranges), buffer)?)
    }

    fn advise(&self, ranges: &[FileRange]) {
        // This call is only a hint, so errors are ignored.
        let _ = self.object.advise(&encode_ranges(ranges));
    }
}
