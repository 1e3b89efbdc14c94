//! `ferry doctor`: describes the installation for a bug report. It works if plugins are missing or
//! refused, and if a settings file is invalid.

use super::args::Arguments;
use super::run::cluster;
use super::terminal::{self, bytes, printable};
use super::{formats, plugin, plugin_folders, user_folders};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use tensorferry::{Registry, Session, remote};
use tensorferry_run::available_memory;
use tensorferry_sdk::Result;

/// Optional parts of the program, and whether it was built with them.
const FEATURES: [(&str, bool); 2] =
    [("bundled", cfg!(feature = "bundled")), ("remote", cfg!(feature = "remote"))];

pub(super) fn run(as_json: bool, arguments: &Arguments, session: &Session) -> Result<()> {
    let mut problems = Vec::new();
    let registry = plugin_folders::load(arguments).unwrap_or_else(|error| {
        problems.push(error.to_string());
        Registry::new()
    });
    problems.extend(registry.check_any().err().map(|error| error.to_string()));
    let credentials = remote::credentials(&arguments.store).unwrap_or_else(|error| {
        problems.push(error.to_string());
        Vec::new()
    });
    let installation = Installation { arguments, session, registry, credentials, problems };
    terminal::answer(as_json, || installation.document(), || installation.text())
}

/// The facts that take time to find, or that may be missing.
struct Installation<'a> {
    arguments: &'a Arguments,
    session: &'a Session,
    registry: Registry,
    /// Names of settings, variables and files. No values.
    credentials: Vec<String>,
    /// Errors that most commands would report.
    problems: Vec<String>,
}

impl Installation<'_> {
    fn document(&self) -> Value {
        let mut document = plugin::document(&self.registry);
        let place = |(name, path): (&str, Option<PathBuf>)| {
            let exists = path.as_ref().is_some_and(|path| path.exists());
            (name.replace(' ', "_"), json!({ "path": path, "exists": exists }))
        };
        let folders = plugin_folders::folders(&self.arguments.plugin_dir);
        let folders =
            folders.iter().map(|folder| json!({ "path": folder.path, "exists": folder.path.is_dir() }));
        let (interpreter, fault) = python();
        let more = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "system": system(),
            "features": Map::from_iter(FEATURES.map(|(name, is_on)| (name.to_owned(), is_on.into()))),
            "paths": places().map(place).into_iter().collect::<Map<_, _>>(),
            "python": { "interpreter": interpreter, "fault": fault },
            "folders": folders.collect::<Vec<_>>(),
            "limits": formats::named(&self.session.limits).collect::<std::collections::BTreeMap<_, _>>(),
            "threads": self.session.threads,
            "processors": processors(),
            "memory": self.session.memory,
            "available_memory": available_memory(),
            "credentials": self.credentials,
            "variables": variables(),
            "problems": self.problems,
        });
        if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
            document.extend(more);
        }
        document
    }

    fn text(&self) -> String {
        let features: Vec<&str> =
            FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        let mut text = format!("ferry {} on {}\n", env!("CARGO_PKG_VERSION"), system());
        let _ = writeln!(text, "features: {}", or_none(&features.join(", ")));
        text += "\nPaths\n";
        for (name, path) in places() {
            let shown = path.as_ref().map(|path| terminal::shown(path));
            let absent = if path.is_some_and(|path| path.exists()) { "" } else { " (missing)" };
            let _ = writeln!(text, "  {name:14}  {}{absent}", shown.as_deref().unwrap_or("unknown"));
        }
        let (interpreter, fault) = python();
        let _ = writeln!(text, "  {:14}  {}", "Python for Ray", printable(&fault.unwrap_or(interpreter)));
        text += "\nPlugin folders\n";
        text += &plugin::folders_text(&plugin_folders::folders(&self.arguments.plugin_dir));
        text += "\nPlugins\n";
        for line in plugin::text(&self.registry).lines() {
            let _ = writeln!(text, "  {line}");
        }
        text += "\nResources\n";
        let _ = writeln!(text, "  {:>8} threads on {} processors", self.session.threads, processors());
        let _ = writeln!(text, "  {:>8} buffer budget (--memory)", bytes(self.session.memory));
        if let Some(memory) = available_memory() {
            let _ = writeln!(text, "  {:>8} available memory", bytes(memory));
        }
        text += "\n";
        text += &formats::bounds(&self.session.limits);
        for (title, names) in [
            ("Credentials found (values are not shown)", &self.credentials),
            ("Environment variables (values are not shown)", &variables()),
            ("Problems", &self.problems),
        ] {
            let _ = writeln!(text, "\n{title}");
            for name in names {
                let _ = writeln!(text, "  {}", printable(name));
            }
            if names.is_empty() {
                text += "  none\n";
            }
        }
        text
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Describes the system, as in `linux x86_64 (6.1.0-13-amd64)`.
fn system() -> String {
    let kernel = rustix::system::uname();
    let release = printable(&kernel.release().to_string_lossy());
    format!("{} {} ({release})", std::env::consts::OS, std::env::consts::ARCH)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the files and folders that the program uses.
fn places() -> [(&'static str, Option<PathBuf>); 5] {
    [
        ("program", std::env::current_exe().ok()),
        ("plugin cache", user_folders::plugin_cache()),
        ("allow list", user_folders::allow_list()),
        ("store settings", remote::settings_file()),
        ("temporary", Some(std::env::temp_dir())),
    ]
}

/// Returns the Python interpreter for `--on ray`, and why it cannot be used.
fn python() -> (String, Option<String>) {
    let python = cluster::interpreter();
    let fault = cluster::check(&python).err().map(|error| error.message().to_owned());
    (python.to_string_lossy().into_owned(), fault)
}

/// Returns the names of ferry's environment variables that are set.
fn variables() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("FERRY_")).collect();
    names.sort();
    names
}
