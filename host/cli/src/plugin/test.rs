//! `ferry plugin test`: holds a library to the rules of [`tensorferry_sdk::conformance`], across the boundary. That is done in a
//! process of its own, so that a library which crashes, hangs or eats memory is told as such.
//!
//! Every format runs the same suite in its own tests. The child process reports each action before
//! it performs it, so that the parent can name the input that caused a crash, a hang or excessive
//! memory use.

mod examine;
mod process;
mod report;
mod sample;

pub(crate) use examine::run as examine;

use super::found;
use crate::args::TestPlugin;
use crate::{plugin_folders, terminal};
use report::Document;
use tensorferry_sdk::{Error, Result};

/// The exit code of a library that breaks a rule.
const NOT_CONFORMANT: u8 = 1;

/// Tests a library; the exit code.
pub(super) fn run(command: &TestPlugin) -> Result<u8> {
    // What is wrong with an argument is told before anything is opened.
    command.samples.iter().try_for_each(|path| sample::load(path).map(drop))?;
    let registry = plugin_folders::look_again(&command.library);
    found::all_usable(&registry, &command.library)?;
    let Some(identity) = registry.libraries().first().and_then(|library| library.outcome.as_ref().ok())
    else {
        return Err(Error::io("no library there").file(command.library.display().to_string()));
    };
    let formats = process::examine(command)?;
    let document = Document {
        library: command.library.clone(),
        name: identity.name.clone(),
        version: identity.version.clone(),
        is_conformant: formats.iter().all(report::Format::is_conformant),
        formats,
    };
    terminal::answer(command.json, || &document, || document.text(command))?;
    Ok(if document.is_conformant { 0 } else { NOT_CONFORMANT })
}
