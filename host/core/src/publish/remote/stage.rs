//! The objects of an output that are on their way, and those that this run has made visible.

use super::folder::RemoteFolder;
use crate::context::fault;
use crate::context::remote::{Condition, NewObject, RemoteUpload};
use crate::context::session::Session;
use crate::context::windows::{WINDOW_BYTES, windows};
use crate::publish::commit::Committed;
use crate::publish::output_bytes::{FileShape, OutputBytes};
use crate::publish::stage::{StagedFile, check_relative};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::{Context, Error, ErrorKind, Result};

/// Objects that are written. Dropping it without a commit ends the uploads, and removes what it has made visible.
pub(crate) struct RemoteStage {
    folder: RemoteFolder,
    force: bool,
    objects: Mutex<BTreeMap<String, StagedObject>>,
    /// Objects of an older output that go when this one comes.
    stale: Vec<StagedFile>,
    notes: Mutex<Vec<String>>,
    is_committed: bool,
}

enum StagedObject {
    /// Sent as it is written; what may stand under its name when it becomes visible.
    Upload(Arc<dyn RemoteUpload>, Condition),
    /// In a file without a name, until it is whole.
    Kept(File),
    Visible {
        len: u64,
    },
}

impl RemoteStage {
    pub(crate) fn begin(folder: RemoteFolder, force: bool) -> Self {
        Self {
            folder,
            force,
            objects: Mutex::default(),
            stale: Vec::new(),
            notes: Mutex::default(),
            is_committed: false,
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, StagedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an object of the output.
    ///
    /// # Errors
    /// What the store says of it; i/o.
    pub(crate) fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes> {
        check_relative(name)?;
        let FileShape { len, late, is_kept } = shape;
        let (staged, bytes) = if is_kept {
            let file = tempfile::tempfile().map_err(|e| Error::from(e).context("cannot keep the output"))?;
            if let Some(len) = len {
                file.set_len(len)?;
            }
            (StagedObject::Kept(file.try_clone()?), OutputBytes::Local(file))
        } else {
            let (upload, condition) = self.upload(name, len, late)?;
            (StagedObject::Upload(upload.clone(), condition), OutputBytes::Remote(upload))
        };
        match self.objects().insert(name.to_owned(), staged) {
            None => Ok(bytes),
            Some(_) => Err(Error::plugin("two files of one name").file(name)),
        }
    }

    fn upload(
        &self,
        name: &str,
        len: Option<u64>,
        late: Vec<Range<u64>>,
    ) -> Result<(Arc<dyn RemoteUpload>, Condition)> {
        let path = self.folder.path_of(name);
        let condition = match self.force {
            false => Condition::Absent,
            true => match self.folder.place.stamp(&path) {
                Ok(Some(stamp)) => Condition::Same(stamp),
                Ok(None) => Condition::Absent,
                // Who may write and not read replaces what he does not see.
                Err(error) if error.kind() == ErrorKind::Io => Condition::Any,
                Err(error) => return Err(error),
            },
        };
        Ok((self.folder.place.create(&path, NewObject { len, late })?, condition))
    }

    /// Gives a kept object the name that it will have.
    ///
    /// # Errors
    /// Usage, if the name leaves the folder; a plugin error, if another has it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_relative(to)?;
        let mut objects = self.objects();
        if objects.contains_key(to) {
            return Err(Error::plugin("two files of one name").file(to));
        }
        match objects.remove(from) {
            Some(StagedObject::Kept(file)) => {
                objects.insert(to.to_owned(), StagedObject::Kept(file));
                Ok(())
            }
            _ => Err(Error::plugin("an object on its way cannot be renamed").file(from)),
        }
    }

    pub(crate) fn supersede(&mut self, stale: Vec<StagedFile>) {
        self.stale = stale;
    }

    /// Sends what was kept, and waits until the store has all bytes.
    ///
    /// # Errors
    /// What the store says; cancelled; i/o.
    pub(crate) fn finish(&self, session: &Session) -> Result<()> {
        let kept: Vec<String> = {
            let objects = self.objects();
            let is_kept = |staged: &StagedObject| matches!(staged, StagedObject::Kept(_));
            objects.iter().filter(|(_, staged)| is_kept(staged)).map(|(name, _)| name.clone()).collect()
        };
        for name in kept {
            let Some(StagedObject::Kept(file)) = self.objects().remove(&name) else { continue };
            let len = file.metadata()?.len();
            let (upload, condition) = self.upload(&name, Some(len), Vec::new())?;
            self.objects().insert(name, StagedObject::Upload(upload.clone(), condition));
            let mut window = vec![0; WINDOW_BYTES];
            for (offset, len) in windows(0..len) {
                session.check_cancelled()?;
                file.read_exact_at(&mut window[..len], offset)?;
                upload.write_at(offset, &window[..len])?;
            }
        }
        self.uploads().into_values().try_for_each(|(upload, _)| upload.finish())
    }

    fn uploads(&self) -> BTreeMap<String, (Arc<dyn RemoteUpload>, Condition)> {
        let of = |(name, staged): (&String, &StagedObject)| match staged {
            StagedObject::Upload(upload, condition) => {
                Some((name.clone(), (upload.clone(), condition.clone())))
            }
            _ => None,
        };
        self.objects().iter().filter_map(of).collect()
    }

    /// Makes those of these objects visible that are written: data first, then, one after the other, what it is found by.
    /// Of an older output what it is found by goes first.
    ///
    /// # Errors
    /// Usage, where a name has been taken; what the store says.
    pub(crate) fn show(&self, files: &[StagedFile]) -> Result<()> {
        if self.force && files.len() > 1 {
            let is_shown =
                |name: &String| matches!(self.objects().get(name), Some(StagedObject::Visible { .. }));
            let own = files.iter().filter(|file| !is_shown(&file.path));
            for file in own.chain(&self.stale).filter(|file| file.index) {
                self.remove_older(&file.path)?;
                if let Some(StagedObject::Upload(_, condition)) = self.objects().get_mut(&file.path) {
                    *condition = Condition::Absent;
                }
            }
            fault::reach("old-index-removed")?;
        }
        let uploads = self.uploads();
        let of = |is_index: bool| {
            let of_kind = files.iter().filter(move |file| file.index == is_index);
            of_kind.filter_map(|file| Some((&file.path, uploads.get(&file.path)?))).collect::<Vec<_>>()
        };
        of(false).into_par_iter().try_for_each(|(name, upload)| self.commit_one(name, upload))?;
        fault::reach("file-renamed")?;
        of(true).into_iter().try_for_each(|(name, upload)| self.commit_one(name, upload))?;
        fault::reach("index-renamed")
    }

    fn commit_one(&self, name: &str, (upload, condition): &(Arc<dyn RemoteUpload>, Condition)) -> Result<()> {
        let note = upload.commit(condition)?;
        self.objects().insert(name.to_owned(), StagedObject::Visible { len: upload.bytes() });
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(note);
        Ok(())
    }

    /// Bytes of an object, as far as they are known.
    pub(crate) fn len(&self, name: &str) -> u64 {
        match self.objects().get(name) {
            Some(StagedObject::Upload(upload, _)) => upload.bytes(),
            Some(StagedObject::Visible { len }) => *len,
            Some(StagedObject::Kept(file)) => file.metadata().map_or(0, |found| found.len()),
            None => 0,
        }
    }

    fn remove_older(&self, name: &str) -> Result<()> {
        self.folder.place.remove(&self.folder.path_of(name))
    }

    /// Makes all objects visible, and removes those of the older output.
    ///
    /// # Errors
    /// As [`show`](Self::show).
    pub(crate) fn commit(mut self, files: &[StagedFile]) -> Result<Committed> {
        self.show(files)?;
        // What is new stands: an older file that cannot be removed does not undo it.
        self.is_committed = true;
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        for file in &self.stale {
            if let Err(error) = self.remove_older(&file.path) {
                notes.push(format!("an older output's file could not be removed: {error}"));
            }
        }
        notes.sort();
        notes.dedup();
        fault::reach("committed")?;
        Ok(Committed { files: files.iter().map(|file| self.folder.url(&file.path)).collect(), notes })
    }
}

impl Drop for RemoteStage {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        // Nobody is left to tell; what cannot be removed is whole.
        for (name, staged) in &*self.objects() {
            if matches!(staged, StagedObject::Visible { .. }) {
                let _ = self.remove_older(name);
            }
        }
    }
}
