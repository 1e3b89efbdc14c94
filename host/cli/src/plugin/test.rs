//! `ferry plugin test`: tests a built library against the rules of
//! [`tensorferry_sdk::conformance`], through the ABI. The tests run in a separate process, so that
//! ferry can report a library that crashes, hangs or allocates too much.

mod examine;
mod process;
mod report;
mod sample;

pub(crate) use examine::run as examine;

use super::found;
use crate::args::TestPlugin;
use crate::{plugin_folders, terminal};
use report::TestDocument;
use tensorferry_sdk::{Error, Result};

/// Exit code for a library that violates a rule.
const NOT_CONFORMANT: u8 = 1;

/// Tests a library and returns the exit code.
pub(super) fn run(command: &TestPlugin) -> Result<u8> {
    // Reports errors in the arguments before loading any library.
    command.samples.iter().try_for_each(|path| sample::load(path).map(drop))?;
    let registry = plugin_folders::look_again(&command.library);
    found::all_usable(&registry, &command.library)?;
    let Some(identity) = registry.libraries().first().and_then(|library| library.outcome.as_ref().ok())
    else {
        return Err(Error::io("no library found").file(command.library.display().to_string()));
    };
    let formats = process::examine(command)?;
    let document = TestDocument {
        library: command.library.clone(),
        name: identity.name.clone(),
        version: identity.version.clone(),
        is_conformant: formats.iter().all(report::Format::is_conformant),
        formats,
    };
    terminal::answer(command.json, || &document, || document.text(command))?;
    Ok(if document.is_conformant { 0 } else { NOT_CONFORMANT })
}
