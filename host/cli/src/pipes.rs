//! `-`: standard input or output instead of a file. Formats read and write by position, so piped
//! data goes through a temporary file.

use super::terminal;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tensorferry_sdk::{Error, Result};

/// A path, and the temporary folder that contains it, if any. The folder is removed on drop.
pub(super) struct PipedPath {
    pub(super) path: PathBuf,
    folder: Option<TempDir>,
}

/// Returns whether a path stands for standard input or output.
pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the path of INPUT; for `-`, that of a temporary file with everything from standard
/// input.
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

/// Returns the path of OUTPUT; for `-`, that of a temporary file for [`PipedPath::print`].
pub(super) fn output(path: &Path) -> Result<PipedPath> {
    if is_pipe(path) { temporary("stdout") } else { Ok(PipedPath { path: path.to_owned(), folder: None }) }
}

fn temporary(name: &str) -> Result<PipedPath> {
    let folder = tempfile::Builder::new().prefix("ferry-").tempdir().map_err(Error::from)?;
    Ok(PipedPath { path: folder.path().join(name), folder: Some(folder) })
}

impl PipedPath {
    /// Copies the temporary file, if any, to standard output.
    pub(super) fn print(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let is_one =
            std::fs::read_dir(folder.path()).map_err(Error::from)?.count() == 1 && self.path.is_file();
        if !is_one {
            let error = Error::usage("the output has several files, and standard output holds only one");
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
            // `ferry convert ... - | head`
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(Error::from),
        }
    }
}
