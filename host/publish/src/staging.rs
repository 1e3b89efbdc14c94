//! Outputs while they are being written: files in a local stage, or objects in a store.

use crate::beneath;
use crate::commit::{self, CommitOptions, Committed, Recovered, recover};
use crate::disk::{failed, stat};
use crate::open_files::{MAX_OPEN, OpenFiles, PooledFile};
use crate::output_bytes::{FileShape, OutputBytes};
use crate::platform::each_name;
use crate::remote::folder::RemoteFolder;
use crate::remote::stage::RemoteStage;
use crate::stage::{Destination, Stage, StagedFile};
use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tensorferry_core::context::folder_names::FolderNames;
use tensorferry_core::context::regular_file;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Entry, Result};

/// The folder of an output, on this machine or in an object store.
pub trait OutputFolder {
    /// Returns the destination's path if the destination is on this machine, or `None` otherwise.
    fn local(&self) -> Option<&Destination>;

    /// Returns the path or URL of a name in the folder.
    fn path_of(&self, name: &str) -> PathBuf;

    /// Finishes or removes the outputs of interrupted runs. In a store, the uploads of interrupted
    /// runs cannot be distinguished from those of active runs, so `ferry clean` removes uploads by
    /// age.
    fn recover(&self) -> Result<Recovered>;

    /// Checks that an output of these files may be written.
    fn check_free(&self, names: &[&str], force: bool) -> Result<()>;

    /// Calls `see` with the names of files in `folder`, including every name that begins with one
    /// of the `prefixes`.
    fn each_name(&self, folder: &str, prefixes: &[&str], see: &mut dyn FnMut(&OsStr)) -> Result<()>;

    fn is_file(&self, name: &str) -> Result<bool>;

    /// Returns the identity of a file, or `None` if the file is missing or cannot be examined.
    fn identity(&self, name: &str) -> Option<FileIdentity>;

    /// Returns the bytes of a file, if the file is at most `limit` bytes long.
    fn read_small(&self, name: &str, limit: u64) -> Option<Vec<u8>>;

    fn begin(&self, force: bool) -> Result<Box<dyn Staging>>;
}

pub struct LocalFolder<'a> {
    pub destination: &'a Destination,
    /// The names in the folders at the start of the run, if the folders were listed.
    pub known: Option<&'a FolderNames>,
}

pub fn output_folder<'a>(
    destination: &'a Destination,
    session: &'a Session,
) -> Result<Box<dyn OutputFolder + 'a>> {
    Ok(match RemoteFolder::of(destination, session)? {
        Some(folder) => Box::new(folder),
        None => Box::new(LocalFolder { destination, known: session.folders() }),
    })
}

/// An output that is being written. Dropping it without a commit removes all of its files.
pub trait Staging: Send + Sync {
    fn is_remote(&self) -> bool;

    /// Creates a file of the output.
    fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes>;

    /// Creates a file of the output. If there is a pool, the file is added to the pool under
    /// `number`.
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

    /// Returns a pool for local files if the output has more files than should be open at the same
    /// time.
    fn pool_for(&self, files: usize) -> Option<Arc<OpenFiles>>;

    /// Renames a file that was created with [`create`](Self::create).
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Sets the files that belong to an older output. The commit removes these files.
    fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()>;

    /// Excludes a file that [`supersede`](Self::supersede) listed, so that the commit keeps it.
    fn spare(&mut self, name: &str);

    /// Waits until the destination has received all bytes.
    fn finish(&self, session: &Session) -> Result<()>;

    /// Makes these files readable for a comparison or for hashing. Staged files are already
    /// readable. A store does not return an object before it is visible, so this function makes the
    /// objects visible. If a check fails, the objects are removed again.
    fn make_readable(&self, files: &[StagedFile]) -> Result<()>;

    /// Returns the files of an output folder, so that they can be read back.
    fn written(&self, folder: &str, entry: Entry, session: &Session) -> Result<FileSource>;

    /// Returns the path of a staged file, if the file is on this machine.
    fn local_path(&self, name: &str) -> Option<PathBuf>;

    /// Creates a temporary folder for reading the output back.
    fn scratch(&self) -> Result<TempDir>;

    /// Returns the final paths of the files and their identities. The identities of objects contain
    /// only the length, because the tags are assigned when the objects become visible.
    fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>>;

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

impl OutputFolder for LocalFolder<'_> {
    fn local(&self) -> Option<&Destination> {
        Some(self.destination)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.destination.folder.join(name)
    }

    fn recover(&self) -> Result<Recovered> {
        recover(self.destination)
    }

    fn check_free(&self, names: &[&str], force: bool) -> Result<()> {
        commit::check_free(self.destination, names.iter().copied(), force)
    }

    fn each_name(&self, folder: &str, prefixes: &[&str], see: &mut dyn FnMut(&OsStr)) -> Result<()> {
        let path = self.path_of(folder);
        let failed = || failed("search for an older output's files", &path);
        let list = |see: &mut dyn FnMut(&OsStr)| match each_name(&path, see) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            listed => listed,
        };
        let Some(known) = self.known else { return list(see).map_err(failed()) };
        let names = || {
            let mut names = Vec::new();
            list(&mut |name| names.extend(name.to_str().map(str::to_owned))).map(|()| names)
        };
        for prefix in prefixes {
            let names = known.with_prefix(&path, prefix, names).map_err(failed())?;
            names.iter().for_each(|name| see(OsStr::new(name)));
        }
        Ok(())
    }

    fn is_file(&self, name: &str) -> Result<bool> {
        let path = self.path_of(name);
        let found = stat(&path).map_err(failed("examine an older output's file", &path))?;
        Ok(found.is_some_and(|meta| !meta.is_dir()))
    }

    fn identity(&self, name: &str) -> Option<FileIdentity> {
        beneath::Place::find(&self.destination.folder, Path::new(name)).ok()?.identity().ok()?
    }

    fn read_small(&self, name: &str, limit: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = regular_file::open(&self.path_of(name)).ok()?;
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    fn begin(&self, _: bool) -> Result<Box<dyn Staging>> {
        Ok(Box::new(Stage::begin(self.destination)?))
    }
}

impl OutputFolder for RemoteFolder {
    fn local(&self) -> Option<&Destination> {
        None
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.url(name)
    }

    fn recover(&self) -> Result<Recovered> {
        Ok(Recovered::default())
    }

    fn check_free(&self, names: &[&str], force: bool) -> Result<()> {
        Self::check_free(self, names, force)
    }

    fn each_name(&self, folder: &str, _: &[&str], see: &mut dyn FnMut(&OsStr)) -> Result<()> {
        self.files(folder)?.iter().for_each(|name| see(OsStr::new(name)));
        Ok(())
    }

    fn is_file(&self, name: &str) -> Result<bool> {
        self.has_file(name)
    }

    fn identity(&self, name: &str) -> Option<FileIdentity> {
        Self::identity(self, name)
    }

    fn read_small(&self, name: &str, limit: u64) -> Option<Vec<u8>> {
        Self::read_small(self, name, limit)
    }

    fn begin(&self, force: bool) -> Result<Box<dyn Staging>> {
        Ok(Box::new(RemoteStage::begin(self.clone(), force)))
    }
}
