//! The proof that a stage was created in its current location, by a run that could write to that
//! location. A stage contains a record of renames. If the stage is from an archive or a clone,
//! ferry must not follow this record.
//!
//! The file `proof` contains metadata of the stage's lock file: its inode, the time of its last
//! change and its birth time, to the nanosecond. Unpacking an archive can create any name and
//! content, but the kernel sets the inode and these times. This metadata is the same on every node
//! that mounts the file system, in any container and after a restart. The lock file does not change
//! after its creation. The proof fails for a copy of a stage, and on a file system whose inodes do
//! not persist (FAT).

use super::LOCK;
use crate::disk::{failed, read_own, stat};
use serde::{Deserialize, Serialize};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;
use tensorferry_sdk::Result;

pub(super) const PROOF: &str = "proof";
/// Maximum size of the file in bytes. The file contains three numbers and their names.
const MAX_BYTES: u64 = 1 << 10;

/// The properties that the kernel reports for a lock file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    inode: u64,
    changed: (i64, i64),
    /// The birth time in nanoseconds since 1970, if the file system stores this time and the kernel
    /// reports it.
    born: Option<u128>,
}

impl Proof {
    fn of(lock: &Metadata) -> Self {
        let born = lock.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: lock.ino(),
            changed: (lock.ctime(), lock.ctime_nsec()),
            born: born.map(|since| since.as_nanos()),
        }
    }

    /// Returns whether two proofs describe the same lock. If either proof has no birth time, birth
    /// times are not compared, because clients with different kernels may share a folder.
    fn agrees(&self, other: &Self) -> bool {
        let birth = self.born.zip(other.born).is_none_or(|(own, other)| own == other);
        birth && (self.inode, self.changed) == (other.inode, other.changed)
    }
}

/// Writes the proof of a stage. The lock of the stage must exist.
pub fn write(root: &Path) -> Result<()> {
    let failed = || failed("write the proof of the staging folder", root);
    let lock = fs::symlink_metadata(root.join(LOCK)).map_err(failed())?;
    let json = serde_json::to_vec(&Proof::of(&lock)).map_err(io::Error::from).map_err(failed())?;
    fs::write(root.join(PROOF), json).map_err(failed())
}

/// Returns whether a stage was created in its current location.
pub fn is_there(root: &Path) -> bool {
    let proof = read_own(&root.join(PROOF), MAX_BYTES).ok().flatten();
    let proof = proof.and_then(|bytes| serde_json::from_slice::<Proof>(&bytes).ok());
    let lock = stat(&root.join(LOCK)).ok().flatten().filter(Metadata::is_file);
    lock.zip(proof).is_some_and(|(lock, proof)| proof.agrees(&Proof::of(&lock)))
}

/// Returns whether a stage without a proof contains nothing to keep. The stage's run may have been
/// interrupted before it wrote the proof or while it removed the stage. Another run may also be
/// removing the stage now.
pub(crate) fn is_not_needed(root: &Path) -> io::Result<bool> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(root) {
        Err(error) if gone(&error) => return Ok(true),
        entries => entries?,
    };
    for entry in entries {
        let (entry, most) = (entry?, |name: &_| if name == LOCK { 0 } else { MAX_BYTES });
        let (name, meta) = match entry.metadata() {
            Err(error) if gone(&error) => continue,
            meta => (entry.file_name(), meta?),
        };
        if !(name == LOCK || name == PROOF) || !meta.is_file() || meta.len() > most(&name) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::commit::tests::copy_all;

    #[test]
    fn a_stage_proves_itself_where_it_was_made_and_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let (made, moved, copied) =
            (home.path().join("made"), home.path().join("moved"), home.path().join("copied"));
        assert!(is_not_needed(&made).unwrap());
        fs::create_dir(&made).unwrap();
        assert!(!is_there(&made) && is_not_needed(&made).unwrap());
        fs::write(made.join(LOCK), "").unwrap();
        assert!(!is_there(&made) && is_not_needed(&made).unwrap());
        write(&made).unwrap();
        assert!(is_there(&made) && is_not_needed(&made).unwrap());
        fs::create_dir(made.join("new")).unwrap();
        assert!(!is_not_needed(&made).unwrap());
        fs::rename(&made, &moved).unwrap();
        assert!(is_there(&moved));
        copy_all(&moved, &copied);
        assert!(!is_there(&copied));
        fs::remove_file(moved.join(LOCK)).unwrap();
        std::os::unix::fs::symlink(copied.join(LOCK), moved.join(LOCK)).unwrap();
        assert!(!is_there(&moved));
    }
}
