//! `ferry plugin trust`: edits the user's list of allowed libraries.

use crate::allow_list::{self, AllowList};
use crate::terminal;
use std::path::{Path, PathBuf};
use tensorferry::formats::sha256;
use tensorferry_sdk::{Error, Result};

pub(super) fn run(libraries: &[PathBuf], remove: bool) -> Result<()> {
    let known = allow_list::read()?;
    let is_new = known.is_none();
    let mut list = known.unwrap_or_default();
    if libraries.is_empty() {
        return show(is_new, &list);
    }
    for library in libraries {
        let sum = sha256(library).map_err(|e| Error::from(e).file(library.display().to_string()))?;
        if remove {
            list.remove(&sum).ok_or_else(|| {
                Error::usage("not on the list of allowed plugins").file(library.display().to_string())
            })?;
        } else {
            list.insert(sum, full(library).display().to_string());
        }
    }
    let path = allow_list::write(&list)?;
    if is_new {
        let path = terminal::shown(&path);
        let what = "from now on, ferry loads only its own plugins and those on this list";
        terminal::message("note", &format!("{path}: {what}; remove the file to allow all"));
    }
    show(false, &list)
}

fn show(is_absent: bool, list: &AllowList) -> Result<()> {
    if is_absent {
        return terminal::print("no list: every plugin is allowed\n");
    }
    let line = |(sum, name): (&String, &String)| format!("{sum}  {}\n", terminal::printable(name));
    terminal::print(&list.iter().map(line).collect::<String>())
}

fn full(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
