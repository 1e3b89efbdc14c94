//! `ferry plugin`: lists the libraries that were found, or checks some.

use super::terminal::{self, printable};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use tensorferry::engine::formats::registry::{PluginLibrary, Registry};
use tensorferry::engine::formats::search::PluginFolder;
use tensorferry_sdk::{Error, Result};

pub(super) fn list(registry: &Registry, folders: &[PluginFolder], as_json: bool) -> Result<()> {
    if as_json {
        let folders: Vec<&Path> = folders.iter().map(|folder| folder.path.as_path()).collect();
        let mut document = document(registry);
        document["folders"] = json!(folders);
        return terminal::print_json(&document);
    }
    let mut text = text(registry);
    let _ = writeln!(text, "looked in");
    for folder in folders {
        let absent = if folder.path.is_dir() { "" } else { " (not there)" };
        let _ = writeln!(text, "  {}{absent}", terminal::shown(&folder.path));
    }
    terminal::print(&text)
}

/// Loads what is there, and fails if a library is refused.
pub(super) fn check(path: &Path, as_json: bool) -> Result<()> {
    let registry =
        if path.is_dir() { Registry::load([PluginFolder::new(path)]) } else { Registry::load_file(path) };
    terminal::answer(as_json, || document(&registry), || text(&registry))?;
    let refused =
        registry.libraries().iter().find_map(|found| found.outcome.as_ref().err().map(|why| (found, why)));
    if let Some((found, why)) = refused {
        return Err(Error::io(format!("plugin refused: {why}")).file(found.path.display().to_string()));
    }
    if registry.libraries().is_empty() {
        let why = registry.notes().first().cloned().unwrap_or_else(|| "no library there".to_owned());
        return Err(Error::io(why).file(path.display().to_string()));
    }
    Ok(())
}

fn formats_of(registry: &Registry, index: usize) -> Vec<&str> {
    let formats = registry.formats().iter().filter(|format| format.library() == Some(index));
    formats.map(|format| format.description.id.as_str()).collect()
}

fn document(registry: &Registry) -> Value {
    let record = |(index, found): (usize, &PluginLibrary)| match &found.outcome {
        Ok(identity) => json!({
            "library": found.path,
            "loaded": true,
            "name": identity.name,
            "version": identity.version,
            "sdk_version": identity.sdk_version,
            "abi_revision": format!("{}.{}", identity.revision.0, identity.revision.1),
            "formats": formats_of(registry, index),
        }),
        Err(why) => json!({ "library": found.path, "loaded": false, "refused": why.to_string() }),
    };
    let list: Vec<Value> = registry.libraries().iter().enumerate().map(record).collect();
    json!({ "plugins": list, "notes": registry.notes() })
}

fn text(registry: &Registry) -> String {
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
                formats_of(registry, index).join(", "),
            ),
            Err(why) => writeln!(text, "refused  {path}\n  {}", printable(&why.to_string())),
        };
    }
    for note in registry.notes() {
        let _ = writeln!(text, "note: {}", printable(note));
    }
    text
}
