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
pub enum Staging {
    /// On a file system.
    Local(Stage),
    /// In a store.
    Remote(RemoteStage, RemoteFolder),
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
    pub fn begin(&self, force: bool) -> Result<Staging> {
        Ok(match self {
            Self::Local(destination) => Staging::Local(Stage::begin(destination)?),
            Self::Remote(folder) => {
                Staging::Remote(RemoteStage::begin(folder.clone(), force), folder.clone())
            }
        })
    }
}

impl Staging {
    /// Whether it goes to a store.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(..))
    }

    /// Begins a file of the output.
    pub fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes> {
        match self {
            Self::Local(stage) => stage.create(name, shape.len).map(OutputBytes::Local),
            Self::Remote(stage, _) => stage.create(name, shape),
        }
    }

    /// Begins a file of the output, which is in the pool under its number, if there is one.
    pub fn create_in(
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
    pub fn pool_for(&self, files: usize) -> Option<Arc<OpenFiles>> {
        match self {
            Self::Local(stage) if files > MAX_OPEN => Some(OpenFiles::new(&stage.root)),
            _ => None,
        }
    }

    /// Gives a file that was begun another name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        match self {
            Self::Local(stage) => stage.rename(from, to),
            Self::Remote(stage, _) => stage.rename(from, to),
        }
    }

    /// Says which files belong to an older output: the commit removes them.
    pub fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()> {
        match self {
            Self::Local(stage) => stage.supersede(stale),
            Self::Remote(stage, _) => {
                stage.supersede(stale);
                Ok(())
            }
        }
    }

    /// Has a file of an older output stay after all.
    pub fn spare(&mut self, name: &str) {
        match self {
            Self::Local(stage) => stage.stale.retain(|file| file.path != name),
            Self::Remote(stage, _) => stage.spare(name),
        }
    }

    /// Waits until all bytes are where they go.
    pub fn finish(&self, session: &Session) -> Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(stage, _) => stage.finish(session),
        }
    }

    /// Makes these files readable, to be compared or hashed. Staged ones are; a store gives nothing of an object before
    /// it is visible, so that it becomes it now, and is removed if something is found.
    pub fn make_readable(&self, files: &[StagedFile]) -> Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(stage, _) => stage.show(files),
        }
    }

    /// The files of a folder of the output, to be read back.
    pub fn written(&self, folder: &str, entry: Entry, session: &Session) -> Result<FileSource> {
        match self {
            Self::Local(stage) => Ok(FileSource::at(stage.path(folder), entry, &session.limits)),
            Self::Remote(_, at) => FileSource::below_path(&at.url(folder), entry, session),
        }
    }

    /// The path of a staged file, where it lies on this machine.
    pub fn local_path(&self, name: &str) -> Option<PathBuf> {
        match self {
            Self::Local(stage) => Some(stage.path(name)),
            Self::Remote(..) => None,
        }
    }

    /// A folder for what is needed to read the output back.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        match self {
            Self::Local(stage) => tempfile::tempdir_in(&stage.root),
            Self::Remote(..) => tempfile::tempdir(),
        }
        .map_err(Into::into)
    }

    /// The files under the names that they will have, and what tells them from any others; of objects their lengths alone:
    /// they are told by tags that they get when they are visible.
    pub fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>> {
        match self {
            Self::Local(stage) => stage.ready(files),
            Self::Remote(stage, folder) => {
                let of =
                    |file: &StagedFile| (folder.url(&file.path), FileIdentity::of_len(stage.len(&file.path)));
                Ok(files.iter().map(of).collect())
            }
        }
    }

    /// Makes the output visible.
    pub fn commit(self, files: &[StagedFile], options: CommitOptions) -> Result<Committed> {
        match self {
            Self::Local(stage) => stage.commit(files, options),
            Self::Remote(stage, _) => stage.commit(files),
        }
    }
}
