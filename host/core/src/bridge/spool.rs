//! A spool is a file without a name that takes bytes one after the other, and is read by position later.

use crate::context::session::Session;
use crate::tensors::stored::Spill;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{BufWriter, Write};
use tensorferry_sdk::{Error, Result};

/// Makes spools.
pub(super) struct Spools<'a> {
    spill: &'a Spill,
    buffer: usize,
}

/// A file that takes bytes.
pub(super) struct Spool {
    writer: BufWriter<File>,
    len: u64,
}

impl<'a> Spools<'a> {
    /// For at most `count` spools, which share an eighth of the run's memory as buffers.
    pub(super) fn new(spill: &'a Spill, count: usize, session: &Session) -> Self {
        let share = session.memory / 8 / (count.max(1) as u64);
        let buffer = usize::try_from(share).unwrap_or(usize::MAX).clamp(4 << 10, 1 << 20);
        // Each is an open file, and what shells allow (1024) is few for a wide table.
        let limit = getrlimit(Resource::Nofile);
        let wanted = count as u64 + 256;
        if limit.current.is_some_and(|current| current < wanted) {
            let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
            // Where it fails, opening says so.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
        }
        Self { spill, buffer }
    }

    /// An empty spool.
    ///
    /// # Errors
    /// I/o.
    pub(super) fn open(&self) -> Result<Spool> {
        let file = (self.spill)().map_err(|error| {
            error.context(
                "a temporary file for each column (fewer columns: map:select; more files: ulimit -n)",
            )
        })?;
        Ok(Spool { writer: BufWriter::with_capacity(self.buffer, file), len: 0 })
    }
}

impl Spool {
    /// Takes bytes.
    ///
    /// # Errors
    /// I/o.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(failed)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Takes the same bytes again and again.
    ///
    /// # Errors
    /// I/o.
    pub(super) fn fill(&mut self, bytes: &[u8], times: u64) -> Result<()> {
        (0..times).try_for_each(|_| self.push(bytes))
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The file, complete.
    ///
    /// # Errors
    /// I/o.
    pub(super) fn finish(self) -> Result<File> {
        self.writer.into_inner().map_err(|error| failed(error.into_error()))
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::from(error).context("a temporary file beside the output")
}
