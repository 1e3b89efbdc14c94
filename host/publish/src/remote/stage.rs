//! The objects of an output: objects that are being uploaded, and objects that this run has made
//! visible.

use super::folder::RemoteFolder;
use crate::commit::Committed;
use crate::output_bytes::{FileShape, OutputBytes};
use crate::stage::{FileKind, StagedFile, check_relative};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_core::context::fault;
use tensorferry_core::context::remote::{Condition, NewObject, RemoteUpload};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, windows};
use tensorferry_sdk::{Context, Error, ErrorKind, Result};

/// Maximum size in bytes of an older index that is kept in memory. The index is restored if the new
/// set fails.
const MAX_PUT_BACK: u64 = 64 << 20;

/// The objects of an output that is being written. If the stage is dropped without a commit, the
/// stage's uploads are aborted, and the objects that the stage made visible are removed. The older
/// indexes and receipts are restored, so that an older set with different names can be found again.
pub struct RemoteStage {
    pub(crate) folder: RemoteFolder,
    force: bool,
    objects: Mutex<BTreeMap<String, StagedObject>>,
    /// Objects of an older output that the commit will remove.
    stale: Vec<StagedFile>,
    /// Indexes and receipts of an older set, in the order in which they were removed or replaced.
    held: Mutex<Vec<SavedObject>>,
    notes: Mutex<Vec<String>>,
    is_committed: bool,
}

/// The treatment of an older set when a new set becomes visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OldSetPolicy {
    /// There is no older set to replace.
    NotReplaced,
    /// The objects of the new set replace the objects of the older set one by one.
    Overwritten,
    /// The data of the new set has different names from the data of the older set.
    SeparateNames,
}

/// An index or receipt of an older set.
struct SavedObject {
    name: String,
    kind: FileKind,
    bytes: Vec<u8>,
    /// The condition under which the object is restored.
    condition: Condition,
}

/// An upload, and the condition under which it becomes visible.
type Staged = (Arc<dyn RemoteUpload>, Condition);

enum StagedObject {
    /// An object that is uploaded while it is written.
    Upload(Arc<dyn RemoteUpload>, Condition),
    /// An object that is kept in an unnamed local file until it is complete.
    Kept(File),
    Visible {
        len: u64,
        /// Whether the object remains if the output fails, for example because the object is a
        /// sidecar that replaced an older sidecar.
        stays: bool,
    },
}

impl RemoteStage {
    pub(crate) fn begin(folder: RemoteFolder, force: bool) -> Self {
        Self {
            folder,
            force,
            objects: Mutex::default(),
            stale: Vec::new(),
            held: Mutex::default(),
            notes: Mutex::default(),
            is_committed: false,
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, StagedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an object of the output.
    pub(crate) fn create(&self, name: &str, shape: FileShape) -> Result<OutputBytes> {
        check_relative(name)?;
        let FileShape { len, late, is_kept } = shape;
        let (staged, bytes) = if is_kept {
            let file =
                tempfile::tempfile().map_err(|e| Error::from(e).context("cannot create a temporary file"))?;
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
            Some(_) => Err(Error::plugin("two output files have the same name").file(name)),
        }
    }

    fn upload(&self, name: &str, len: Option<u64>, late: Vec<Range<u64>>) -> Result<Staged> {
        let path = self.folder.path_of(name);
        let condition = match self.force {
            false => Condition::Absent,
            true => match self.folder.place.stamp(&path) {
                Ok(Some(stamp)) => Condition::Same(stamp),
                Ok(None) => Condition::Absent,
                // If the user may write but not read, an existing object is replaced without being
                // examined.
                Err(error) if error.kind() == ErrorKind::Io => Condition::Any,
                Err(error) => return Err(error),
            },
        };
        Ok((self.folder.place.create(&path, NewObject { len, late })?, condition))
    }

    /// Renames an object that is kept in a local file.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_relative(to)?;
        let mut objects = self.objects();
        if objects.contains_key(to) {
            return Err(Error::plugin("two output files have the same name").file(to));
        }
        match objects.remove(from) {
            Some(StagedObject::Kept(file)) => {
                objects.insert(to.to_owned(), StagedObject::Kept(file));
                Ok(())
            }
            _ => Err(Error::plugin("an object that is being uploaded cannot be renamed").file(from)),
        }
    }

    pub(crate) fn supersede(&mut self, stale: Vec<StagedFile>) {
        self.stale = stale;
    }

    pub(crate) fn spare(&mut self, name: &str) {
        self.stale.retain(|file| file.path != name);
    }

    /// Uploads the kept objects, and waits until the store has received all bytes.
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

    fn uploads(&self) -> BTreeMap<String, Staged> {
        let of = |(name, staged): (&String, &StagedObject)| match staged {
            StagedObject::Upload(upload, condition) => {
                Some((name.clone(), (upload.clone(), condition.clone())))
            }
            _ => None,
        };
        self.objects().iter().filter_map(of).collect()
    }

    /// Makes the objects of the written files visible: first the data, then the indexes and
    /// receipts one by one. If no data object replaces an older one, the older set remains complete
    /// until its index is replaced. Otherwise the older indexes and receipts are removed first.
    pub(crate) fn show(&self, files: &[StagedFile]) -> Result<()> {
        let uploads = self.uploads();
        let staged = files.iter().filter_map(|file| Some((file, uploads.get(&file.path)?)));
        let (indexes, data): (Vec<_>, Vec<_>) = staged.partition(|(file, _)| file.is_index());
        let mut older = OldSetPolicy::NotReplaced;
        if self.force && files.len() > 1 && !data.is_empty() {
            let takes_place = |(file, (_, condition)): &(&StagedFile, &Staged)| {
                file.kind == FileKind::Data && *condition != Condition::Absent
            };
            older = if data.iter().any(takes_place) {
                OldSetPolicy::Overwritten
            } else {
                OldSetPolicy::SeparateNames
            };
        }
        if older == OldSetPolicy::Overwritten {
            for file in self.older(files).filter(|file| file.is_index()) {
                self.remove_older(&file.path)?;
            }
            fault::reach("old-index-removed")?;
        }
        data.into_par_iter().try_for_each(|(file, staged)| self.commit_one(file, staged))?;
        fault::reach("file-renamed")?;
        if older == OldSetPolicy::SeparateNames {
            // The receipt of the older set would not match the new files.
            for file in self.older(files).filter(|file| file.kind == FileKind::Receipt) {
                self.remove_and_save(file)?;
            }
            fault::reach("old-index-removed")?;
        }
        for (file, (upload, condition)) in indexes {
            let done = match older {
                OldSetPolicy::NotReplaced => self.commit_one(file, &(upload.clone(), condition.clone())),
                OldSetPolicy::Overwritten => self.commit_one(file, &(upload.clone(), Condition::Absent)),
                OldSetPolicy::SeparateNames => self.take_place(file, &(upload.clone(), condition.clone())),
            };
            if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Usage) {
                // The name was free at the start. Since then, a different run has created the same
                // output, so the objects belong to that run.
                self.leave_visible();
            }
            done?;
        }
        if older == OldSetPolicy::SeparateNames {
            // These indexes have names that the new set does not use. The commit removes the files
            // that they list.
            for file in self.stale.iter().filter(|file| file.kind == FileKind::Index) {
                self.remove_and_save(file)?;
            }
        }
        fault::reach("index-renamed")
    }

    /// Returns objects of an older output that may still exist.
    fn older<'a>(&'a self, files: &'a [StagedFile]) -> impl Iterator<Item = &'a StagedFile> {
        let is_shown =
            |file: &StagedFile| matches!(self.objects().get(&file.path), Some(StagedObject::Visible { .. }));
        files.iter().filter(move |file| !is_shown(file)).chain(&self.stale)
    }

    fn commit_one(&self, file: &StagedFile, (upload, condition): &Staged) -> Result<()> {
        let note = upload.commit(condition)?;
        let stays = file.kind == FileKind::Sidecar && *condition != Condition::Absent;
        self.objects().insert(file.path.clone(), StagedObject::Visible { len: upload.bytes(), stays });
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(note);
        Ok(())
    }

    fn leave_visible(&self) {
        for staged in self.objects().values_mut() {
            if let StagedObject::Visible { stays, .. } = staged {
                *stays = true;
            }
        }
    }

    /// Replaces an older index or receipt. The bytes of the older object are kept until the output
    /// is committed.
    fn take_place(&self, file: &StagedFile, staged: &Staged) -> Result<()> {
        let bytes = match staged.1 {
            Condition::Absent => None,
            _ => self.folder.read_small(&file.path, MAX_PUT_BACK),
        };
        self.commit_one(file, staged)?;
        if let Some(bytes) = bytes {
            let own = self.folder.place.stamp(&self.folder.path_of(&file.path)).ok().flatten();
            self.save(file, bytes, own.map_or(Condition::Any, Condition::Same));
        }
        Ok(())
    }

    /// Removes an index or receipt of an older set, and keeps its bytes until the output is
    /// committed.
    fn remove_and_save(&self, file: &StagedFile) -> Result<()> {
        let bytes = self.folder.read_small(&file.path, MAX_PUT_BACK);
        self.remove_older(&file.path)?;
        if let Some(bytes) = bytes {
            self.save(file, bytes, Condition::Absent);
        }
        Ok(())
    }

    fn save(&self, file: &StagedFile, bytes: Vec<u8>, condition: Condition) {
        let held = SavedObject { name: file.path.clone(), kind: file.kind, bytes, condition };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    /// Returns the length of an object in bytes, if the length is known.
    pub(crate) fn len(&self, name: &str) -> u64 {
        match self.objects().get(name) {
            Some(StagedObject::Upload(upload, _)) => upload.bytes(),
            Some(StagedObject::Visible { len, .. }) => *len,
            Some(StagedObject::Kept(file)) => file.metadata().map_or(0, |found| found.len()),
            None => 0,
        }
    }

    fn remove_older(&self, name: &str) -> Result<()> {
        self.folder.place.remove(&self.folder.path_of(name))
    }

    /// Restores an older object under its name.
    fn put_back(&self, SavedObject { name, bytes, condition, .. }: &SavedObject) -> Result<()> {
        // The name was free after the removal. Since then, an object of the new set may have been
        // created under the name.
        let is_own = matches!(self.objects().get(name), Some(StagedObject::Visible { .. }));
        let condition = match condition {
            Condition::Absent if is_own => &Condition::Any,
            condition => condition,
        };
        let object = NewObject { len: Some(bytes.len() as u64), late: Vec::new() };
        let upload = self.folder.place.create(&self.folder.path_of(name), object)?;
        upload.write_at(0, bytes)?;
        upload.finish()?;
        upload.commit(condition).map(drop)
    }

    /// Makes all objects visible, and removes the objects of the older output.
    pub(crate) fn commit(mut self, files: &[StagedFile]) -> Result<Committed> {
        self.show(files)?;
        // The new output is complete, so a failure to remove an older file does not undo it.
        self.is_committed = true;
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        for file in &self.stale {
            if let Err(error) = self.remove_older(&file.path) {
                notes.push(format!("a file of the older output could not be removed: {error}"));
            }
            fault::reach("stale-removed")?;
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
        // A drop cannot report errors. If an object cannot be removed, it remains as a complete
        // object. The older set is restored before the data of the new set is removed. The receipt
        // of the older set was removed first and is restored last.
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        for object in held.iter().rev() {
            if self.put_back(object).is_err() && object.kind == FileKind::Index {
                // The older index could not be restored. The new set is therefore kept, because one
                // of the two sets must remain.
                return;
            }
        }
        for (name, staged) in &*self.objects() {
            let goes = matches!(staged, StagedObject::Visible { stays: false, .. });
            if goes && !held.iter().any(|object| object.name == *name) {
                let _ = self.remove_older(name);
            }
        }
    }
}
