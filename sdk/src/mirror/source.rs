//! [`Source`] across the boundary.

use super::guard::{guard, guard_or, received};
use crate::{Entry, FileId, Result, Source};
use std::sync::Arc;
use tensorferry_abi::abi_stable::std_types::{RSliceMut, RStr, RString, RVec};
use tensorferry_abi::{self as abi, AbiResult};

/// A source by reference, or one that the other side keeps.
pub(super) struct LentSource<S>(pub(super) S);

/// How a lent source is held.
pub(super) trait Hold: Send + Sync {
    fn source(&self) -> &dyn Source;
}

impl Hold for &dyn Source {
    fn source(&self) -> &dyn Source {
        *self
    }
}

impl Hold for Arc<dyn Source> {
    fn source(&self) -> &dyn Source {
        &**self
    }
}

impl<S: Hold> abi::Source for LentSource<S> {
    fn entry_kind(&self) -> u32 {
        match self.0.source().entry() {
            Entry::File(_) => 0,
            Entry::Folder => 1,
            Entry::Prefix(_) => 2,
        }
    }

    fn entry_name(&self) -> RStr<'_> {
        self.0.source().entry().name().into()
    }

    fn open(&self, name: RStr<'_>) -> AbiResult<u32> {
        guard("source.open", || self.0.source().open(name.as_str()).map(|file| file.0))
    }

    fn contains(&self, name: RStr<'_>) -> bool {
        guard_or(false, || self.0.source().contains(name.as_str()))
    }

    fn list(&self, prefix: RStr<'_>) -> AbiResult<RVec<RString>> {
        guard("source.list", || {
            Ok(self.0.source().list(prefix.as_str())?.into_iter().map(RString::from).collect())
        })
    }

    fn folders(&self, folder: RStr<'_>) -> AbiResult<RVec<RString>> {
        guard("source.folders", || {
            Ok(self.0.source().folders(folder.as_str())?.into_iter().map(RString::from).collect())
        })
    }

    fn name(&self, file: u32) -> RStr<'_> {
        guard_or("", || self.0.source().name(FileId(file))).into()
    }

    fn len(&self, file: u32) -> u64 {
        guard_or(0, || self.0.source().len(FileId(file)))
    }

    fn read_at(&self, file: u32, offset: u64, mut buffer: RSliceMut<'_, u8>) -> AbiResult<()> {
        guard("source.read_at", || self.0.source().read_at(FileId(file), offset, buffer.as_mut_slice()))
    }
}

pub(super) struct RemoteSource<O> {
    object: O,
    entry: Entry,
}

impl<O: abi::Source> RemoteSource<O> {
    pub(super) fn new(object: O) -> Self {
        let name = object.entry_name().as_str().to_owned();
        let entry = match object.entry_kind() {
            0 => Entry::File(name),
            2 => Entry::Prefix(name),
            _ => Entry::Folder,
        };
        Self { object, entry }
    }
}

impl<O: abi::Source> Source for RemoteSource<O> {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn open(&self, name: &str) -> Result<FileId> {
        received(self.object.open(name.into())).map(FileId)
    }

    fn contains(&self, name: &str) -> bool {
        self.object.contains(name.into())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(received(self.object.list(prefix.into()))?.into_iter().map(RString::into_string).collect())
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(received(self.object.folders(folder.into()))?.into_iter().map(RString::into_string).collect())
    }

    fn name(&self, file: FileId) -> &str {
        self.object.name(file.0).as_str()
    }

    fn len(&self, file: FileId) -> u64 {
        self.object.len(file.0)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        received(self.object.read_at(file.0, offset, buffer.into()))
    }
}
