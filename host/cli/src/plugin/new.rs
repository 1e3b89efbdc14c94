//! `ferry plugin new`: creates a plugin project from a template. The templates are plugins for a
//! format named `tray`. This name is replaced by the user's name in all files.

use crate::args::{NewPlugin, PluginKind, PluginLanguage};
use crate::terminal;
use std::fs::{DirBuilder, create_dir_all};
use std::path::Path;
use tensorferry::Registry;
use tensorferry_sdk::{Error, Result, mirror};

/// A template file: its path in the project, and its content.
type TemplateFile = (&'static str, &'static [u8]);

/// Embeds files from a template folder in the program.
macro_rules! template {
    ($folder:literal: $($to:literal from $from:literal),+ $(,)?) => {
        &[$(($to, include_bytes!(concat!("../../templates/", $folder, "/", $from)) as &[u8])),+]
    };
}

const RUST_TENSORS: &[TemplateFile] = template!("rust-tensors":
    "Cargo.toml" from "Cargo.toml.in",
    "README.md" from "../README.md",
    "src/lib.rs" from "src/lib.rs",
    "src/read.rs" from "src/read.rs",
    "src/write.rs" from "src/write.rs",
    "tests/conformance.rs" from "tests/conformance.rs",
    "sample/sample.tray" from "../samples/tensors.tray",
);

const RUST_RECORDS: &[TemplateFile] = template!("rust-records":
    "Cargo.toml" from "Cargo.toml.in",
    "README.md" from "../README.md",
    "src/lib.rs" from "src/lib.rs",
    "src/column.rs" from "src/column.rs",
    "src/read.rs" from "src/read.rs",
    "src/write.rs" from "src/write.rs",
    "tests/conformance.rs" from "tests/conformance.rs",
    "sample/sample.tray" from "../samples/records.tray",
);

const C_TENSORS: &[TemplateFile] = template!("c-tensors":
    "Makefile" from "Makefile",
    "README.md" from "../README.md",
    "tray.c" from "tray.c",
    "sample/sample.tray" from "../samples/tensors.tray",
);

const C_RECORDS: &[TemplateFile] = template!("c-records":
    "Makefile" from "Makefile",
    "README.md" from "../README.md",
    "tray.c" from "tray.c",
    "tray.h" from "tray.h",
    "columns.h" from "columns.h",
    "cursor.h" from "cursor.h",
    "read.c" from "read.c",
    "write.c" from "write.c",
    "sample/sample.tray" from "../samples/records.tray",
);

/// Writes the project to a new folder in the current directory. The folder is named after the
/// plugin.
pub(super) fn run(command: &NewPlugin, registry: &Registry) -> Result<()> {
    let name = Name::checked(&command.name, registry)?;
    let folder = Path::new(&command.name);
    let failed = |path: &Path, e: std::io::Error| Error::from(e).file(path.display().to_string());
    let files = match (command.lang, command.kind) {
        (PluginLanguage::Rust, PluginKind::Tensors) => RUST_TENSORS,
        (PluginLanguage::Rust, PluginKind::Records) => RUST_RECORDS,
        (PluginLanguage::C, PluginKind::Tensors) => C_TENSORS,
        (PluginLanguage::C, PluginKind::Records) => C_RECORDS,
    };
    let sdk = Dependency { folder: command.sdk.as_deref().map(sdk_folder).transpose()? };
    let forms = name.forms(&sdk, command);
    DirBuilder::new().create(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::usage("the file or folder already exists").file(folder.display().to_string())
        }
        _ => failed(folder, error),
    })?;
    let write = |path: &str, bytes: &[u8]| {
        let path = folder.join(path);
        let written =
            path.parent().map_or(Ok(()), create_dir_all).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|error| failed(&path, error))
    };
    for (path, bytes) in files {
        let path = replaced(path.as_bytes(), &forms);
        write(&String::from_utf8_lossy(&path), &replaced(bytes, &forms))?;
    }
    let next = match command.lang {
        PluginLanguage::C => {
            write("ferry_plugin.h", mirror::c_header().as_bytes())?;
            "make && make test"
        }
        PluginLanguage::Rust => "cargo test",
    };
    let folder = terminal::shown(folder);
    terminal::print(&format!(
        "created a plugin in {folder}; next, run `cd {folder} && {next}` and read its README.md\n"
    ))
}

/// The name of a format, in the spellings that the templates need.
struct Name {
    /// The ID, which is also the file extension: `my-format`.
    id: String,
    /// The name of the Rust crate: `my_format`.
    snake: String,
    /// The name of the Rust type: `MyFormat`.
    camel: String,
    /// The spelling in the magic bytes: `MYFORMAT`.
    upper: String,
}

impl Name {
    fn checked(id: &str, registry: &Registry) -> Result<Self> {
        let is_sane = id.starts_with(|first: char| first.is_ascii_lowercase())
            && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !id.contains("--")
            && !id.ends_with('-');
        if !is_sane {
            let error = Error::usage(format!("{id:?} is not a valid format id"));
            return Err(error.hint("use lowercase letters, digits and single dashes, as in my-format2"));
        }
        if registry.formats().iter().any(|known| known.is_built_in() && known.description.id == id) {
            return Err(Error::usage(format!("{id} is a built-in format")).hint("choose another name"));
        }
        let camel = |word: &str| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        };
        Ok(Self {
            id: id.to_owned(),
            snake: id.replace('-', "_"),
            camel: id.split('-').map(camel).collect(),
            upper: id.replace('-', "").to_ascii_uppercase(),
        })
    }

    /// Returns the replacements for a template: the spellings of the name, the SDK dependency, and
    /// the commands in the README.
    fn forms(&self, sdk: &Dependency, command: &NewPlugin) -> Forms {
        let Self { id, snake, camel, upper } = self;
        let (source, folder, build) = match command.lang {
            PluginLanguage::C => (format!("{id}.c"), "build", "make\nmake test".to_owned()),
            PluginLanguage::Rust => {
                let folder = "target/release";
                let test = format!("ferry plugin test {folder}/libferry_{snake}.so sample/sample.{id}");
                ("src/lib.rs".to_owned(), folder, format!("cargo test\ncargo build --release\n{test}"))
            }
        };
        let other = match command.kind {
            PluginKind::Tensors => "sample.safetensors",
            PluginKind::Records => "sample.parquet",
        };
        vec![
            ("ferry_tray", format!("ferry_{snake}")),
            ("tray", id.clone()),
            ("Tray", camel.clone()),
            ("TRAY", upper.clone()),
            ("@sdk@", sdk.text(&[])),
            ("@sdk-records@", sdk.text(&["arrow-60"])),
            ("@source@", source),
            ("@build@", build),
            ("@folder@", folder.to_owned()),
            ("@other@", other.to_owned()),
        ]
    }
}

/// The placeholders of a template, with their replacements.
type Forms = Vec<(&'static str, String)>;

/// Replaces the placeholders in a template.
fn replaced(text: &[u8], forms: &Forms) -> Vec<u8> {
    // The replacement works on bytes, because samples are not text. All placeholders are replaced
    // in one pass, so that a placeholder inside a name is not replaced again.
    let (mut result, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&first, others)) = rest.split_first() {
        let form = forms.iter().find(|(from, _)| rest.starts_with(from.as_bytes()));
        result.extend_from_slice(form.map_or(std::slice::from_ref(&first), |(_, to)| to.as_bytes()));
        rest = form.map_or(others, |(from, _)| &rest[from.len()..]);
    }
    result
}

/// The plugin's dependency on the SDK: the published version or a local folder.
struct Dependency {
    folder: Option<String>,
}

impl Dependency {
    /// Returns the dependency as it appears in `Cargo.toml`.
    fn text(&self, features: &[&str]) -> String {
        let version = tensorferry_sdk::VERSION;
        let (major_minor, _) = version.rsplit_once('.').unwrap_or((version, ""));
        match (&self.folder, features) {
            (None, []) => format!("{major_minor:?}"),
            (None, _) => format!("{{ version = {major_minor:?}, features = {features:?} }}"),
            (Some(folder), []) => format!("{{ path = {folder:?} }}"),
            (Some(folder), _) => format!("{{ path = {folder:?}, features = {features:?} }}"),
        }
    }
}

fn sdk_folder(folder: &Path) -> Result<String> {
    let shown = || folder.display().to_string();
    let folder = folder.canonicalize().map_err(|e| Error::from(e).file(shown()))?;
    if !folder.join("Cargo.toml").is_file() {
        return Err(Error::usage("not the folder of the SDK crate: Cargo.toml is missing").file(shown()));
    }
    folder
        .into_os_string()
        .into_string()
        .map_err(|_| Error::usage("the SDK's folder is not UTF-8").file(shown()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_name_stands_in_every_form_and_place() {
        let name = Name::checked("my-format2", &Registry::new()).unwrap();
        let sdk = Dependency { folder: Some("/a \"b".to_owned()) };
        let command = |lang| NewPlugin { name: String::new(), lang, kind: PluginKind::Tensors, sdk: None };
        let forms = name.forms(&sdk, &command(PluginLanguage::Rust));
        let text = replaced(b"\x89TRAY tray.tray TrayFormat ferry_tray libferry_tray array @sdk@", &forms);
        let expected: &[u8] =
            b"\x89MYFORMAT2 my-format2.my-format2 MyFormat2Format ferry_my_format2 libferry_my_format2 array { path = \"/a \\\"b\" }";
        assert_eq!(text, expected);
        let nested = Name::checked("tray-ferry", &Registry::new()).unwrap();
        let forms = nested.forms(&sdk, &command(PluginLanguage::C));
        assert_eq!(replaced(b"ferry_tray @source@", &forms), b"ferry_tray_ferry tray-ferry.c");
    }

    #[test]
    fn names_that_are_no_ids_are_refused() {
        for name in ["", "A", "a_b", "1a", "-a", "a-", "a--b", "../a", "\u{e9}"] {
            assert!(Name::checked(name, &Registry::new()).is_err(), "{name:?}");
        }
        let linked = Registry::new().with_all(tensorferry_sdk::memory::formats());
        assert!(Name::checked("tensors-in-memory", &linked).is_err());
    }
}
