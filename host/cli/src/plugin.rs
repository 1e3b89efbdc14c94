//! `ferry plugin`: lists, checks, tests, installs, removes, trusts and creates plugins.

mod found;
mod install;
mod new;
mod test;
mod trust;

pub(super) use test::examine;

use super::args::{Arguments, PluginCommand};
use super::plugin_folders;
use super::terminal::{self, printable};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use tensorferry::{PluginFolder, PluginLibrary, Refusal, Registry};
use tensorferry_sdk::Result;

/// Runs the command and returns the exit code.
pub(super) fn run(command: &PluginCommand, arguments: &Arguments) -> Result<u8> {
    let done = match command {
        PluginCommand::Test(command) => return test::run(command),
        PluginCommand::New(command) => new::run(command, &plugin_folders::load(arguments)?),
        PluginCommand::List { json } => list(arguments, *json),
        PluginCommand::Check { path, json } => check(path, *json),
        PluginCommand::Install { library, force } => install::install(library, *force),
        PluginCommand::Remove { name } => install::remove(name),
        PluginCommand::Trust { libraries, remove } => trust::run(libraries, *remove),
    };
    done.map(|()| 0)
}

fn list(arguments: &Arguments, as_json: bool) -> Result<()> {
    let (registry, folders) =
        (plugin_folders::load(arguments)?, plugin_folders::folders(&arguments.plugin_dir));
    if as_json {
        let folders: Vec<&Path> = folders.iter().map(|folder| folder.path.as_path()).collect();
        let mut document = document(&registry);
        document["folders"] = json!(folders);
        return terminal::print_json(&document);
    }
    terminal::print(&format!("{}searched folders\n{}", text(&registry), folders_text(&folders)))
}

pub(super) fn folders_text(folders: &[PluginFolder]) -> String {
    let line = |folder: &PluginFolder| {
        let absent = if folder.path.is_dir() { "" } else { " (missing)" };
        format!("  {}{absent}\n", terminal::shown(&folder.path))
    };
    folders.iter().map(line).collect()
}

/// Loads the libraries at `path`. Returns an error if one of them is rejected.
fn check(path: &Path, as_json: bool) -> Result<()> {
    let registry = plugin_folders::look_again(path);
    terminal::answer(as_json, || document(&registry), || text(&registry))?;
    found::all_usable(&registry, path)
}

pub(super) fn document(registry: &Registry) -> Value {
    let record = |(index, found): (usize, &PluginLibrary)| match &found.outcome {
        Ok(identity) => json!({
            "library": found.path,
            "loaded": true,
            "name": identity.name,
            "version": identity.version,
            "sdk_version": identity.sdk_version,
            "abi_revision": format!("{}.{}", identity.revision.0, identity.revision.1),
            "formats": found::formats_of(registry, Some(index)),
            "built_in": found.built_in,
            "sha256": found.sha256,
        }),
        Err(why) => json!({
            "library": found.path,
            "loaded": false,
            "refused": why.to_string(),
            "quarantined": matches!(why, Refusal::Quarantined(_)),
            "sha256": found.sha256,
        }),
    };
    let list: Vec<Value> = registry.libraries().iter().enumerate().map(record).collect();
    json!({ "plugins": list, "bundled": found::formats_of(registry, None), "notes": registry.notes() })
}

pub(super) fn text(registry: &Registry) -> String {
    let mut text = String::new();
    for (index, found) in registry.libraries().iter().enumerate() {
        let path = terminal::shown(&found.path);
        let _ = match &found.outcome {
            Ok(identity) => writeln!(
                text,
                "{} {}  {}\n  ABI {}.{}, SDK {}; formats {}",
                printable(&identity.name),
                printable(&identity.version),
                path,
                identity.revision.0,
                identity.revision.1,
                printable(&identity.sdk_version),
                found::formats_of(registry, Some(index)).join(", "),
            ),
            Err(why) => writeln!(text, "refused  {path}\n  {}", printable(&why.to_string())),
        };
    }
    let bundled = found::formats_of(registry, None);
    if !bundled.is_empty() {
        let _ = writeln!(text, "bundled with the program\n  formats {}", bundled.join(", "));
    }
    for note in registry.notes() {
        let _ = writeln!(text, "note: {}", printable(note));
    }
    text
}
