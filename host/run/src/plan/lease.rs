//! A lease records which worker runs a piece. Leases are used if the workers themselves claim
//! pieces. A lease is a file that the worker touches at regular intervals.
//!
//! If a lease has not been touched for some time, another worker takes over the piece. The time is
//! measured with the file system's clock. If the first worker is only slow or frozen, two workers
//! may run the same piece. Running a piece twice does no harm, because the outputs of the piece
//! become visible only once. Leases are not locks: they only avoid duplicate work.

use crate::journal::this_host;
use crate::plan_folder::check_no_link;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use serde_json::json;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, SystemTime};
use tensorferry_sdk::{Error, Result};

/// Time without a touch after which a lease expires.
const LEASE: Duration = Duration::from_secs(60);
/// Interval at which a lease is touched.
const TOUCH: Duration = Duration::from_secs(10);

/// The leases of a plan, as seen by one worker.
pub(crate) struct Leases {
    folder: PathBuf,
    pieces: u64,
    worker: String,
    /// The next piece that this worker tries to claim. Different workers start at different pieces,
    /// so that they do not compete.
    next: u64,
    /// Number of pieces that this worker has examined.
    passed: u64,
    done: HashSet<u64>,
}

/// The next action of a worker.
pub(crate) enum Claim {
    /// Run this piece.
    Piece(u64, Lease),
    /// Wait. Other workers are running the remaining pieces, but may not finish them.
    Wait,
    /// No work is left.
    Over,
}

/// Marks a piece as claimed by this worker until this value is dropped.
pub(crate) struct Lease {
    path: PathBuf,
    inode: u64,
    is_over: Arc<AtomicBool>,
    toucher: Option<JoinHandle<()>>,
}

impl Leases {
    pub(super) fn new(folder: PathBuf, pieces: u64, worker: &str) -> Self {
        let hash = blake3::hash(worker.as_bytes());
        let start = u64::from_le_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default());
        let next = start.checked_rem(pieces).unwrap_or(0);
        Self { folder, pieces, worker: worker.to_owned(), next, passed: 0, done: HashSet::new() }
    }

    /// Claims a piece that no other worker is running.
    pub(crate) fn claim(&mut self) -> Result<Claim> {
        check_no_link(&self.folder)?;
        while self.passed < self.pieces {
            let piece = self.next;
            self.next = (self.next + 1) % self.pieces;
            self.passed += 1;
            if self.is_done(piece) {
                continue;
            }
            if let Some(lease) = self.take(piece)? {
                return Ok(Claim::Piece(piece, lease));
            }
        }
        let left: Vec<u64> = (0..self.pieces).filter(|piece| !self.is_done(*piece)).collect();
        let now = self.now()?;
        for piece in &left {
            if self.is_stale(*piece, now) {
                self.give_up(*piece);
            }
            if let Some(lease) = self.take(*piece)? {
                return Ok(Claim::Piece(*piece, lease));
            }
        }
        Ok(if left.is_empty() { Claim::Over } else { Claim::Wait })
    }

    /// Records that a piece is finished, so that no worker claims it again.
    pub(crate) fn finish(&mut self, piece: u64) -> Result<()> {
        let path = self.done_path(piece);
        match create(&path).and_then(|mut file| writeln!(file, "{}", self.worker)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(&path)(error)),
            _ => self.done.insert(piece),
        };
        Ok(())
    }

    fn is_done(&mut self, piece: u64) -> bool {
        let is_done = self.done.contains(&piece) || self.done_path(piece).exists();
        if is_done {
            self.done.insert(piece);
        }
        is_done
    }

    /// Creates the lease of a piece, if no worker has a lease for the piece.
    fn take(&self, piece: u64) -> Result<Option<Lease>> {
        let path = self.path(piece);
        let mut file = match create(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let holder = json!({"worker": self.worker, "host": this_host(), "process": std::process::id()});
        file.write_all(format!("{holder}\n").as_bytes()).map_err(at(&path))?;
        let inode = file.metadata().map_err(at(&path))?.ino();
        Ok(Some(Lease::touch(path, inode, file)))
    }

    fn is_stale(&self, piece: u64, now: SystemTime) -> bool {
        let touched = fs::metadata(self.path(piece)).and_then(|meta| meta.modified());
        touched.is_ok_and(|touched| now.duration_since(touched).is_ok_and(|age| age > LEASE))
    }

    /// Removes an expired lease by renaming it. If several workers try, only one of them succeeds.
    fn give_up(&self, piece: u64) {
        let away = self.folder.join(format!(".{piece}-{}", self.worker));
        if fs::rename(self.path(piece), &away).is_ok() {
            let _ = fs::remove_file(away);
        }
    }

    /// Returns the current time of the clock that timestamps the leases. This machine's clock may
    /// differ from the clock that timestamps the leases.
    fn now(&self) -> Result<SystemTime> {
        let path = self.folder.join(format!(".now-{}", self.worker));
        // A killed worker with the same name may have left this file.
        let _ = fs::remove_file(&path);
        let now = create(&path).and_then(|file| file.metadata()?.modified()).map_err(at(&path))?;
        let _ = fs::remove_file(path);
        Ok(now)
    }

    fn path(&self, piece: u64) -> PathBuf {
        self.folder.join(super::pieces::name(piece))
    }

    fn done_path(&self, piece: u64) -> PathBuf {
        self.folder.join(format!("{}.done", super::pieces::name(piece)))
    }
}

impl Lease {
    fn touch(path: PathBuf, inode: u64, file: File) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let toucher = std::thread::spawn(move || {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            while !seen.load(Ordering::Relaxed) {
                std::thread::park_timeout(TOUCH);
                // A different worker may have taken over the lease. In that case, touching the
                // lease does no harm.
                let _ = futimens(&file, &Timestamps { last_access: now, last_modification: now });
            }
        });
        Self { path, inode, is_over, toucher: Some(toucher) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(toucher) = self.toucher.take() {
            Thread::unpark(toucher.thread());
            let _ = toucher.join();
        }
        // A different worker may have taken over the lease. In that case, the lease must not be
        // removed.
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a new file. Does not follow a link.
fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::from(error).context("the plan's leases").file(path.display().to_string())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn leases(folder: &Path, worker: &str) -> Leases {
        Leases::new(folder.to_owned(), 3, worker)
    }

    fn piece(claim: Claim) -> (u64, Lease) {
        match claim {
            Claim::Piece(piece, lease) => (piece, lease),
            Claim::Wait => panic!("others have all"),
            Claim::Over => panic!("all is done"),
        }
    }

    #[test]
    fn nothing_behind_a_link_is_touched() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("mine")).unwrap();
        for name in ["00000", "00001", "00002"] {
            let file = File::create(at("mine").join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * LEASE).unwrap();
        }
        std::os::unix::fs::symlink("mine", at("leases")).unwrap();
        let error = leases(&at("leases"), "one").claim().err().unwrap().to_string();
        assert!(error.contains("is a link"), "{error}");
        assert_eq!(fs::read_dir(at("mine")).unwrap().count(), 3);
    }

    #[test]
    fn each_piece_is_one_worker_s_until_it_is_done_or_dead() {
        let home = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (leases(home.path(), "one"), leases(home.path(), "two"));
        let claimed = [one.claim().unwrap(), two.claim().unwrap(), one.claim().unwrap()].map(piece);
        let mut numbers = claimed.each_ref().map(|(piece, _)| *piece);
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(matches!(two.claim().unwrap(), Claim::Wait));
        let [(first, lease), (second, other), (third, frozen)] = claimed;
        one.finish(first).unwrap();
        drop(lease);
        two.finish(second).unwrap();
        drop(other);
        assert!(matches!(one.claim().unwrap(), Claim::Wait));
        // Simulates a frozen worker, which has not touched its lease for two minutes.
        let old = SystemTime::now() - 2 * LEASE;
        File::options().write(true).open(&frozen.path).unwrap().set_modified(old).unwrap();
        let (again, lease) = piece(two.claim().unwrap());
        assert_eq!(again, third);
        two.finish(again).unwrap();
        drop(lease);
        assert!(matches!(one.claim().unwrap(), Claim::Over) && matches!(two.claim().unwrap(), Claim::Over));
    }
}
