//! Writes a page to a file. The file is staged next to its target and published atomically.

use std::io::{Read, Write};
use std::path::Path;
use tensorferry::places::{Destination, DestinationKind, FileKind, Stage, StagedFile, check_free, recover};
use tensorferry::request::CommitOptions;
use tensorferry_page::{Reach, html};
use tensorferry_sdk::{Error, Result};

/// The bytes at the start of every page.
const PAGE_START: &[u8] = b"<!DOCTYPE html>";

/// The target path of a page. Either no file exists at this path, or that file may be overwritten.
pub(crate) struct PageFile {
    destination: Destination,
    name: String,
    options: CommitOptions,
}

impl PageFile {
    /// Checks whether a page may be written to the path. The caller checks the path before it reads
    /// any input.
    pub(crate) fn at(path: &Path, force: bool) -> Result<Self> {
        let shown = path.display().to_string();
        let absolute = std::path::absolute(path).map_err(|error| Error::from(error).file(&shown))?;
        let name = absolute.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::usage("the page has no file name").file(&shown))?.to_owned();
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        let destination = Destination { folder, kind: DestinationKind::Beside { name: name.clone() } };
        check_free(&destination, std::iter::once(name.as_str()), force)?;
        if absolute.is_file() && !is_page(&absolute) {
            let problem = Error::usage("the file is not a page, so --force does not overwrite it");
            return Err(problem.file(shown).hint("choose another name, such as OUT.html"));
        }
        Ok(Self { destination, name, options: CommitOptions { force, sync: false } })
    }

    /// Writes the page for a document, and returns its size in bytes.
    pub(crate) fn write(self, title: &str, document: &serde_json::Value) -> Result<u64> {
        let page = html(title, document, Reach::Nothing);
        recover(&self.destination)?;
        let stage = Stage::begin(&self.destination)?;
        let mut file = stage.create(&self.name, None)?;
        file.write_all(page.as_bytes())?;
        drop(file);
        stage.commit(&[StagedFile::new(self.name, FileKind::Data)], self.options)?;
        Ok(page.len() as u64)
    }
}

fn is_page(path: &Path) -> bool {
    let mut beginning = [0; PAGE_START.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == *PAGE_START
}
