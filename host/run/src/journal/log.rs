//! The storage of a journal. Normally this is a file to which lines are appended. If a plan is in a
//! store, the journal is a sequence of objects.

use crate::plan_folder::PlanFolder;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tensorferry_publish::disk;
use tensorferry_sdk::Result;

/// Ending of journal names.
pub(super) const ENDING: &str = ".jsonl";

pub(super) struct Log {
    target: Target,
    file: OnceLock<File>,
    /// Lines that have not been sent to a store.
    unsent: Mutex<Unsent>,
}

enum Target {
    /// A file that already exists.
    File,
    /// A file with this name in a piece's folder, or objects whose names begin with this name.
    /// Writing the first record creates the file or object.
    Piece { place: PlanFolder, name: String },
}

#[derive(Default)]
struct Unsent {
    lines: Vec<u8>,
    /// Number of objects written so far.
    written: u64,
}

impl Log {
    pub(super) fn of_file(file: File) -> Self {
        Self { target: Target::File, file: OnceLock::from(file), unsent: Mutex::default() }
    }

    pub(super) fn of_piece(place: PlanFolder, name: &str) -> Self {
        let target = Target::Piece { place, name: name.to_owned() };
        Self { target, file: OnceLock::new(), unsent: Mutex::default() }
    }

    /// Appends a line. If it is the first line, `first` is written before it.
    pub(super) fn append(&self, first: Option<&str>, line: &str) -> Result<()> {
        if let Target::Piece { place: PlanFolder::Remote(..), .. } = &self.target {
            let mut unsent = self.unsent();
            if unsent.written == 0 && unsent.lines.is_empty() {
                unsent.lines.extend_from_slice(first.unwrap_or_default().as_bytes());
            }
            unsent.lines.extend_from_slice(line.as_bytes());
            return Ok(());
        }
        let mut file = match (&self.target, self.file.get()) {
            (Target::Piece { place: PlanFolder::Local(folder), name }, None) => {
                let mut file = make(folder, &format!("{name}{ENDING}"))?;
                file.write_all(first.unwrap_or_default().as_bytes())?;
                self.file.get_or_init(|| file)
            }
            (_, Some(file)) => file,
            _ => return Ok(()),
        };
        Ok(file.write_all(line.as_bytes())?)
    }

    /// Syncs all appended lines to the disk, or sends them to the store.
    pub(super) fn sync(&self) -> Result<()> {
        if let Target::Piece { place: place @ PlanFolder::Remote(..), name } = &self.target {
            let mut unsent = self.unsent();
            if !unsent.lines.is_empty() {
                place.create(&segment(name, unsent.written), &unsent.lines)?;
                unsent.lines.clear();
                unsent.written += 1;
            }
            return Ok(());
        }
        Ok(self.file.get().map_or(Ok(()), File::sync_data)?)
    }

    pub(super) fn is_unused(&self) -> bool {
        let unsent = self.unsent();
        self.file.get().is_none() && unsent.written == 0 && unsent.lines.is_empty()
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a new file. Fails if the file exists.
fn make(folder: &Path, name: &str) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let file = OpenOptions::new().append(true).create_new(true).open(folder.join(name))?;
    disk::sync(folder)?;
    Ok(file)
}

/// Returns the name of one of the journal's objects, such as `W.000003.jsonl`.
fn segment(name: &str, number: u64) -> String {
    format!("{name}.{number:06}{ENDING}")
}

/// Returns the name of the journal to which a file or an object belongs.
pub(super) fn journal_of(file: &str) -> Option<&str> {
    let bare = file.strip_suffix(ENDING)?;
    let is_number = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    Some(match bare.rsplit_once('.') {
        Some((journal, number)) if is_number(number) => journal,
        _ => bare,
    })
}
