//! Handles the path `-`, which means standard input or standard output. Formats read and write at
//! arbitrary positions, so piped data goes through a temporary file.

use super::terminal;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tensorferry_sdk::{Error, Result};

/// The path of an input or output. If the path is in a temporary folder, the folder is removed when
/// this value is dropped.
pub(super) struct PipedPath {
    pub(super) path: PathBuf,
    folder: Option<TempDir>,
}

/// Returns whether a path means standard input or output.
pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the path from which to read INPUT. For `-`, copies the standard input to a temporary
/// file and returns the path of that file.
pub(super) fn input(path: &Path) -> Result<PipedPath> {
    if !is_pipe(path) {
        return Ok(PipedPath { path: path.to_owned(), folder: None });
    }
    let mut from = std::io::stdin().lock();
    if from.is_terminal() {
        return Err(Error::usage("standard input is a terminal").hint("pipe a file into ferry, or name one"));
    }
    let piped = temporary("stdin")?;
    let named = |error: std::io::Error| Error::from(error).file(piped.path.display().to_string());
    let mut file = std::fs::File::create(&piped.path).map_err(named)?;
    std::io::copy(&mut from, &mut file).map_err(named)?;
    Ok(piped)
}

/// Returns the path to which to write OUTPUT. For `-`, returns the path of a temporary file, which
/// [`PipedPath::print`] prints later.
pub(super) fn output(path: &Path) -> Result<PipedPath> {
    if is_pipe(path) { temporary("stdout") } else { Ok(PipedPath { path: path.to_owned(), folder: None }) }
}

fn temporary(name: &str) -> Result<PipedPath> {
    let folder = tempfile::Builder::new().prefix("ferry-").tempdir().map_err(Error::from)?;
    Ok(PipedPath { path: folder.path().join(name), folder: Some(folder) })
}

impl PipedPath {
    /// Copies the temporary file, if one exists, to standard output.
    pub(super) fn print(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let is_one =
            std::fs::read_dir(folder.path()).map_err(Error::from)?.count() == 1 && self.path.is_file();
        if !is_one {
            let error =
                Error::usage("the output has several files, but standard output can receive only one");
            return Err(error.hint("name a folder as the output"));
        }
        let mut file = std::fs::File::open(&self.path).map_err(Error::from)?;
        let stdout = std::io::stdout();
        let printed = if stdout.is_terminal() {
            let mut to = terminal::TerminalLines::default();
            std::io::copy(&mut file, &mut to).and_then(|_| to.flush())
        } else {
            let mut to = stdout.lock();
            std::io::copy(&mut file, &mut to).and_then(|_| to.flush())
        };
        match printed {
            // The reader of the pipe has exited, as in `ferry convert ... - | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(Error::from),
        }
    }
}
