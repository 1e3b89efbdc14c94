//! A spool receives the bytes of one tensor in small parts, and writes to several spools can be
//! interleaved. When a spool ends, its bytes are contiguous in an unnamed file.
//!
//! A table may have any number of columns, but a program may open only a limited number of files.
//! The first spools that outgrow their buffers each get a separate file. The other spools append
//! their full buffers to one shared log. When such a spool ends, it copies its buffers from the log
//! to a common file, where they are contiguous.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Dtype, Error, Result};
use tensorferry_tensors::stored::Spill;

/// Maximum number of spools that each get a separate file.
const MAX_OWN_FILES: usize = 128;

/// Creates spools and owns their files.
pub(super) struct Spools<'a> {
    spill: &'a Spill,
    /// Size in bytes of each spool's buffer.
    buffer: usize,
    files: RefCell<SpoolFiles>,
}

#[derive(Default)]
struct SpoolFiles {
    /// The files that contain the bytes of spools that have ended.
    ended: Vec<File>,
    /// The common file for spools without a separate file: its index in `ended`, and its length.
    common: Option<(usize, u64)>,
    /// The log for spools without a separate file, and its length. The log contains full buffers.
    /// In the log, each buffer is preceded by the log position of the same spool's previous buffer.
    log: Option<(File, u64)>,
}

/// Receives the bytes of one tensor in order.
pub(super) struct Spool<'a> {
    spools: &'a Spools<'a>,
    buffer: Vec<u8>,
    place: SpoolPlace,
    len: u64,
}

/// The location of the bytes that a spool has moved out of its buffer. These bytes consist of
/// `times` full buffers.
enum SpoolPlace {
    /// In the spool's separate file.
    Own { file: usize, times: u64 },
    /// In the log, where the spool's last buffer starts at `last`.
    Logged { last: u64, times: u64 },
}

/// The location of the bytes of a spool that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spooled {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A tensor whose bytes were spooled.
#[derive(Debug)]
pub(super) struct SpooledTensor {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: Spooled,
}

impl<'a> Spools<'a> {
    /// Creates a set for at most `count` spools. Their buffers together use an eighth of the
    /// session's memory budget.
    pub(super) fn new(spill: &'a Spill, count: usize, session: &Session) -> Self {
        let share = session.memory / 8 / (count.max(1) as u64);
        let buffer = usize::try_from(share).unwrap_or(usize::MAX).clamp(4 << 10, 1 << 20);
        Self { spill, buffer, files: RefCell::default() }
    }

    /// Opens an empty spool.
    pub(super) fn open(&self) -> Spool<'_> {
        Spool { spools: self, buffer: Vec::new(), place: SpoolPlace::Logged { last: 0, times: 0 }, len: 0 }
    }

    /// Returns the files that contain the bytes of all spools. All spools must have ended.
    pub(super) fn into_files(self) -> Vec<File> {
        self.files.into_inner().ended
    }

    fn create(&self) -> Result<File> {
        (self.spill)().map_err(|error| error.context("a temporary file next to the output"))
    }
}

impl Spool<'_> {
    /// Appends bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        let full = self.spools.buffer;
        while self.buffer.len() + bytes.len() > full {
            let (part, rest) = bytes.split_at(full - self.buffer.len());
            bytes = rest;
            if self.buffer.is_empty() {
                self.write(part)?;
            } else {
                self.buffer.extend_from_slice(part);
                let mut buffer = std::mem::take(&mut self.buffer);
                self.write(&buffer)?;
                buffer.clear();
                self.buffer = buffer;
            }
        }
        if self.buffer.capacity() < full {
            self.buffer.reserve_exact(full);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends the same bytes `times` times.
    pub(super) fn fill(&mut self, bytes: &[u8], times: u64) -> Result<()> {
        (0..times).try_for_each(|_| self.push(bytes))
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Appends bytes that fit in one buffer.
    fn write(&mut self, part: &[u8]) -> Result<()> {
        let mut files = self.spools.files.borrow_mut();
        if matches!(self.place, SpoolPlace::Logged { times: 0, .. }) && files.ended.len() < MAX_OWN_FILES {
            files.ended.push(self.spools.create()?);
            self.place = SpoolPlace::Own { file: files.ended.len() - 1, times: 0 };
        }
        match &mut self.place {
            SpoolPlace::Own { file, times } => {
                files.ended[*file].write_all_at(part, *times * part.len() as u64).map_err(failed)?;
                *times += 1;
            }
            SpoolPlace::Logged { last, times } => {
                if files.log.is_none() {
                    files.log = Some((self.spools.create()?, 0));
                }
                if let Some((log, end)) = &mut files.log {
                    log.write_all_at(&last.to_le_bytes(), *end).map_err(failed)?;
                    log.write_all_at(part, *end + 8).map_err(failed)?;
                    (*last, *times) = (*end, *times + 1);
                    *end += 8 + part.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// Ends the spool.
    pub(super) fn finish(self) -> Result<Spooled> {
        let Self { spools, mut buffer, place, len } = self;
        let mut files = spools.files.borrow_mut();
        let tail = len - buffer.len() as u64;
        let (mut last, times) = match place {
            SpoolPlace::Own { file, .. } => {
                files.ended[file].write_all_at(&buffer, tail).map_err(failed)?;
                return Ok(Spooled { file, offset: 0, len });
            }
            SpoolPlace::Logged { last, times } => (last, times),
        };
        let (file, offset) = match files.common {
            Some(common) => common,
            None => {
                files.ended.push(spools.create()?);
                (files.ended.len() - 1, 0)
            }
        };
        files.common = Some((file, offset + len));
        let common = &files.ended[file];
        common.write_all_at(&buffer, offset + tail).map_err(failed)?;
        if let Some((log, _)) = &files.log {
            buffer.resize(spools.buffer, 0);
            for time in (0..times).rev() {
                let mut before = [0; 8];
                log.read_exact_at(&mut before, last).map_err(failed)?;
                log.read_exact_at(&mut buffer, last + 8).map_err(failed)?;
                common.write_all_at(&buffer, offset + time * buffer.len() as u64).map_err(failed)?;
                last = u64::from_le_bytes(before);
            }
        }
        Ok(Spooled { file, offset, len })
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::from(error).context("a temporary file next to the output")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn many_spools_take_few_files() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = made.clone();
        let spill: Spill = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(tempfile::tempfile()?)
        });
        let spools = Spools::new(&spill, 1500, &Session::new(1, 1 << 20));
        let mut open: Vec<Spool<'_>> = (0..1500).map(|_| spools.open()).collect();
        // Some spools are shorter than their buffers, some end within a later buffer, and some fill
        // several buffers exactly.
        let bytes = |spool: usize, round: usize| vec![(7 * spool + round).to_le_bytes()[0]; spool * 3 % 5000];
        for round in 0..5 {
            for (number, spool) in open.iter_mut().enumerate() {
                spool.push(&bytes(number, round)).unwrap();
            }
        }
        let ended: Vec<Spooled> = open.into_iter().map(|spool| spool.finish().unwrap()).collect();
        let files = spools.into_files();
        assert!(made.load(Ordering::Relaxed) <= MAX_OWN_FILES + 2 && files.len() <= MAX_OWN_FILES + 1);
        for (number, Spooled { file, offset, len }) in ended.into_iter().enumerate() {
            let mut found = vec![0; usize::try_from(len).unwrap()];
            files[file].read_exact_at(&mut found, offset).unwrap();
            let expected: Vec<u8> = (0..5).flat_map(|round| bytes(number, round)).collect();
            assert!(found == expected, "spool {number}");
        }
    }
}
