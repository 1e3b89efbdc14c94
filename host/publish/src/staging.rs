//! An output on its way, wherever it goes: staged files of this machine, or objects of a store. Those who write it do not
//! see the difference.

use crate::commit::{self, CommitOptions, Committed, Recovered, recover};
use crate::open_files::{MAX_OPEN, OpenFiles, PooledFile};
use crate::output_bytes::{FileShape, OutputBytes};
use crate::remote::folder::RemoteFolder;
use crate::remote::stage::RemoteStage;
use crate::stage::{Destination, Stage, StagedFile};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Entry, Result};

/// Where an output goes.
pub enum OutputPlace<'a> {
    /// A folder of this machine.
    Local(&'a Destination),
    /// A folder of a store.
    Remote(RemoteFolder),
}

/// An output that is being written. Dropping it without a commit leaves nothing of it.
pub trait Staging: Send + Sync {
    /// Whether it goes to a store.
    fn is_remote(&self) -> bool;

    /// Begins a file of the output.
    fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes>;

    /// Begins a file of the output, which is in the pool under its number, if there is one.
    fn create_in(
        &self,
        pool: Option<&Arc<OpenFiles>>,
        number: usize,
        name: &str,
        shape: FileShape,
    ) -> Result<OutputBytes> {
        match (pool, self.create(name, shape)?, self.local_path(name)) {
            (Some(pool), OutputBytes::Local(open), Some(path)) => {
                PooledFile::new(pool, number, path, open).map(OutputBytes::Pooled)
            }
            (_, created, _) => Ok(created),
        }
    }

    /// A pool for files of this machine, if an output has more than should be open at once.
    fn pool_for(&self, files: usize) -> Option<Arc<OpenFiles>>;

    /// Gives a file that was begun another name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Says which files belong to an older output: the commit removes them.
    fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()>;

    /// Has a file of an older output stay after all.
    fn spare(&mut self, name: &str);

    /// Waits until all bytes are where they go.
    fn finish(&self, session: &Session) -> Result<()>;

    /// Makes these files readable, to be compared or hashed. Staged ones are; a store gives nothing of an object before
    /// it is visible, so that it becomes it now, and is removed if something is found.
    fn make_readable(&self, files: &[StagedFile]) -> Result<()>;

    /// The files of a folder of the output, to be read back.
    fn written(&self, folder: &str, entry: Entry, session: &Session) -> Result<FileSource>;

    /// The path of a staged file, where it lies on this machine.
    fn local_path(&self, name: &str) -> Option<PathBuf>;

    /// A folder for what is needed to read the output back.
    fn scratch(&self) -> Result<TempDir>;

    /// The files under the names that they will have, and what tells them from any others; of objects their lengths alone:
    /// they are told by tags that they get when they are visible.
    fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>>;

    /// Makes the output visible.
    fn commit(self: Box<Self>, files: &[StagedFile], options: CommitOptions) -> Result<Committed>;
}

impl Staging for Stage {
    fn is_remote(&self) -> bool {
        false
    }

    fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes> {
        Self::create(self, name, shape.len).map(OutputBytes::Local)
    }

    fn pool_for(&self, files: usize) -> Option<Arc<OpenFiles>> {
        (files > MAX_OPEN).then(|| OpenFiles::new(&self.root))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Self::rename(self, from, to)
    }

    fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()> {
        Self::supersede(self, stale)
    }

    fn spare(&mut self, name: &str) {
        self.stale.retain(|file| file.path != name);
    }

    fn finish(&self, _: &Session) -> Result<()> {
        Ok(())
    }

    fn make_readable(&self, _: &[StagedFile]) -> Result<()> {
        Ok(())
    }

    fn written(&self, folder: &str, entry: Entry, session: &Session) -> Result<FileSource> {
        Ok(FileSource::at(self.path(folder), entry, &session.limits))
    }

    fn local_path(&self, name: &str) -> Option<PathBuf> {
        Some(self.path(name))
    }

    fn scratch(&self) -> Result<TempDir> {
        tempfile::tempdir_in(&self.root).map_err(Into::into)
    }

    fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>> {
        Self::ready(self, files)
    }

    fn commit(self: Box<Self>, files: &[StagedFile], options: CommitOptions) -> Result<Committed> {
        Self::commit(*self, files, options)
    }
}

impl Staging for RemoteStage {
    fn is_remote(&self) -> bool {
        true
    }

    fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes> {
        Self::create(self, name, shape)
    }

    fn pool_for(&self, _: usize) -> Option<Arc<OpenFiles>> {
        None
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Self::rename(self, from, to)
    }

    fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()> {
        Self::supersede(self, stale);
        Ok(())
    }

    fn spare(&mut self, name: &str) {
        Self::spare(self, name);
    }

    fn finish(&self, session: &Session) -> Result<()> {
        Self::finish(self, session)
    }

    fn make_readable(&self, files: &[StagedFile]) -> Result<()> {
        self.show(files)
    }

    fn written(&self, folder: &str, entry: Entry, session: &Session) -> Result<FileSource> {
        FileSource::below_path(&self.folder.url(folder), entry, session)
    }

    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn scratch(&self) -> Result<TempDir> {
        tempfile::tempdir().map_err(Into::into)
    }

    fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let of =
            |file: &StagedFile| (self.folder.url(&file.path), FileIdentity::of_len(self.len(&file.path)));
        Ok(files.iter().map(of).collect())
    }

    fn commit(self: Box<Self>, files: &[StagedFile], _: CommitOptions) -> Result<Committed> {
        Self::commit(*self, files)
    }
}

impl<'a> OutputPlace<'a> {
    /// The place of a destination.
    pub fn of(destination: &'a Destination, session: &Session) -> Result<Self> {
        let remote = RemoteFolder::of(destination, session)?;
        Ok(remote.map_or(Self::Local(destination), Self::Remote))
    }

    /// Deals with what dead runs have left there. In a store nothing tells theirs from what others write just now:
    /// `ferry clean` goes by its age.
    pub fn recover(&self) -> Result<Recovered> {
        match self {
            Self::Local(destination) => recover(destination),
            Self::Remote(_) => Ok(Recovered::default()),
        }
    }

    /// Whether an output of these files may be written.
    pub fn check_free<'n>(&self, names: impl IntoIterator<Item = &'n str>, force: bool) -> Result<()> {
        match self {
            Self::Local(destination) => commit::check_free(destination, names, force),
            Self::Remote(folder) => folder.check_free(names, force),
        }
    }

    /// The path or URL of a name of the output.
    pub fn path_of(&self, name: &str) -> PathBuf {
        match self {
            Self::Local(destination) => destination.folder.join(name),
            Self::Remote(folder) => folder.url(name),
        }
    }

    /// Begins the output.
    pub fn begin(&self, force: bool) -> Result<Box<dyn Staging>> {
        Ok(match self {
            Self::Local(destination) => Box::new(Stage::begin(destination)?),
            Self::Remote(folder) => Box::new(RemoteStage::begin(folder.clone(), force)),
        })
    }
}
