//! `ferry plugin list` and `ferry plugin check`.

use super::terminal::{self, printable};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use tensorferry::engine::formats::registry::{Found, PluginFolder, Plugins};
use tensorferry_sdk::{Error, Result};

pub(super) fn list(plugins: &Plugins, folders: &[PluginFolder], as_json: bool) -> Result<()> {
    if as_json {
        let folders: Vec<&Path> = folders.iter().map(|folder| folder.path.as_path()).collect();
        let mut document = document(plugins);
        document["folders"] = json!(folders);
        return terminal::print_json(&document);
    }
    let mut text = text(plugins);
    let _ = writeln!(text, "looked in");
    for folder in folders {
        let absent = if folder.path.is_dir() { "" } else { " (not there)" };
        let _ = writeln!(text, "  {}{absent}", printable(&folder.path.display().to_string()));
    }
    terminal::print(&text)
}

/// Loads what is there, and fails if a library is refused.
pub(super) fn check(path: &Path, as_json: bool) -> Result<()> {
    let plugins =
        if path.is_dir() { Plugins::load(&[PluginFolder::new(path)]) } else { Plugins::load_file(path) };
    if as_json {
        terminal::print_json(&document(&plugins))?;
    } else {
        terminal::print(&text(&plugins))?;
    }
    let refused =
        plugins.found().iter().find_map(|found| found.outcome.as_ref().err().map(|why| (found, why)));
    if let Some((found, why)) = refused {
        return Err(Error::io(format!("plugin refused: {why}")).file(found.path.display().to_string()));
    }
    if plugins.found().is_empty() {
        let why = plugins.notes().first().cloned().unwrap_or_else(|| "no library there".to_owned());
        return Err(Error::io(why).file(path.display().to_string()));
    }
    Ok(())
}

fn formats_of(plugins: &Plugins, index: usize) -> Vec<&str> {
    let formats = plugins.formats().iter().filter(|format| format.plugin == index);
    formats.map(|format| format.description.id.as_str()).collect()
}

fn document(plugins: &Plugins) -> Value {
    let record = |(index, found): (usize, &Found)| match &found.outcome {
        Ok(identity) => json!({
            "library": found.path,
            "loaded": true,
            "name": identity.name,
            "version": identity.version,
            "sdk_version": identity.sdk_version,
            "abi_revision": format!("{}.{}", identity.revision.0, identity.revision.1),
            "formats": formats_of(plugins, index),
        }),
        Err(why) => json!({ "library": found.path, "loaded": false, "refused": why.to_string() }),
    };
    let list: Vec<Value> = plugins.found().iter().enumerate().map(record).collect();
    json!({ "plugins": list, "notes": plugins.notes() })
}

fn text(plugins: &Plugins) -> String {
    let mut text = String::new();
    for (index, found) in plugins.found().iter().enumerate() {
        let path = printable(&found.path.display().to_string());
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
                formats_of(plugins, index).join(", "),
            ),
            Err(why) => writeln!(text, "refused  {path}\n  {}", printable(&why.to_string())),
        };
    }
    for note in plugins.notes() {
        let _ = writeln!(text, "note: {}", printable(note));
    }
    text
}
