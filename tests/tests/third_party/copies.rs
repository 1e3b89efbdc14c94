//! Modified copies of the SDK, which represent older or later versions. A plugin, and optionally a
//! host, can be built from a copy.

use crate::outside;
use std::path::{Path, PathBuf};
use tensorferry_tests::files::files_below;
use tensorferry_tests::workspace::{self, root, workspace};

/// A folder in the target folder, and its contents.
pub(crate) struct Copy {
    name: String,
    members: &'static [&'static str],
    patches: Vec<(String, String, String)>,
}

/// Returns the major and minor revision of the ABI in the form that messages use.
pub(crate) fn version() -> String {
    let (major, minor) = numbers();
    format!("{major}.{minor}")
}

/// Returns the version of the ABI's crate after the next addition.
pub(crate) fn next_version() -> String {
    let (major, minor) = numbers();
    format!("{major}.{}.0", minor + 1)
}

fn numbers() -> (u64, u64) {
    let version = full_version();
    let mut numbers = version.split('.').map(|number| number.parse().expect("a version is numbers"));
    (numbers.next().expect("a major number"), numbers.next().expect("a minor number"))
}

fn full_version() -> String {
    let manifest =
        std::fs::read_to_string(root().join("sdk/abi/Cargo.toml")).expect("the ABI has a manifest");
    let line =
        manifest.lines().find_map(|line| line.strip_prefix("version = ")).expect("the ABI has a version");
    line.trim_matches('"').to_owned()
}

impl Copy {
    /// Copies the SDK.
    pub(crate) fn of_sdk(name: &str) -> Self {
        Self { name: name.to_owned(), members: &["sdk", "sdk/abi"], patches: Vec::new() }
    }

    /// Copies the SDK and the host.
    pub(crate) fn with_host(name: &str) -> Self {
        Self {
            members: &[
                "host/convert",
                "host/core",
                "host/publish",
                "host/records",
                "host/remote",
                "host/tensorferry",
                "host/tensors",
                "host/run",
                "host/page",
                "host/cli",
                "plugins/check",
                "sdk",
                "sdk/abi",
            ],
            ..Self::of_sdk(name)
        }
    }

    /// Changes the version of the ABI's crate.
    pub(crate) fn version(self, version: &str) -> Self {
        let ours = full_version();
        let (before, after) = (format!("version = \"{ours}\""), format!("version = \"{version}\""));
        let dependency = |version: &str| format!("path = \"sdk/abi\", {version}");
        self.patched(&[
            ("sdk/abi/Cargo.toml", &before, &after),
            ("Cargo.toml", &dependency(&before), &dependency(&after)),
        ])
    }

    /// Applies changes to the sources. Each change is a file, a string that must occur once, and
    /// the replacement.
    pub(crate) fn patched(mut self, patches: &[(&str, &str, &str)]) -> Self {
        let owned = |&(file, before, after): &(&str, &str, &str)| {
            (file.to_owned(), before.to_owned(), after.to_owned())
        };
        self.patches.extend(patches.iter().map(owned));
        self
    }

    /// Builds the trial plugin with this copy, and returns the library, which has a unique name.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.write();
        outside::build(&self.folder().join("trial"), &[])
    }

    /// Builds the program from this copy, with a unique name. It is built in the workspace's target
    /// folder, where its dependencies have already been built. The program is not optimized,
    /// because optimization would take a minute and the program runs only for seconds.
    pub(crate) fn program(&self) -> PathBuf {
        self.write();
        let name = format!("ferry_{}", self.name);
        let options = ["--package", "tensorferry-cli", "--bin", &name, "--config", "profile.dev.opt-level=0"];
        let programs = workspace::build(&self.folder(), &workspace().target, &options);
        programs.into_iter().next_back().expect("the copy has a program")
    }

    fn folder(&self) -> PathBuf {
        outside::target().join("copies").join(&self.name)
    }

    fn write(&self) {
        let manifest =
            std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
        let (_, shared) =
            manifest.split_once("[workspace.package]").expect("the first table lists the members");
        let members = format!("members = {:?}\nexclude = [\"trial\"]", self.members);
        let manifest = format!("[workspace]\nresolver = \"3\"\n{members}\n\n[workspace.package]{shared}");
        self.put("Cargo.toml", &manifest);
        self.put_file(root(), "Cargo.lock", "Cargo.lock");
        for folder in self.members.iter().filter(|member| **member != "sdk/abi") {
            self.put_folder(&root().join(folder), folder);
        }
        self.put_folder(&outside::folder().join("trial"), "trial");
        self.put_file(&outside::folder(), "Cargo.lock", "trial/Cargo.lock");
    }

    fn put_folder(&self, from: &Path, to: &str) {
        for file in files_below(from) {
            let name = file.to_str().expect("a source's name is UTF-8");
            // The copy includes embedded files other than code, such as recipes, pages and schemas.
            if !name.starts_with("target/") {
                self.put_file(from, name, &format!("{to}/{name}"));
            }
        }
    }

    fn put_file(&self, folder: &Path, name: &str, to: &str) {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        match String::from_utf8(bytes) {
            Ok(text) => self.put(to, &text),
            // Only the sample file of a template is binary.
            Err(binary) => self.put_bytes(to, binary.as_bytes()),
        }
    }

    /// Writes a file with the requested changes. Does not rewrite an unchanged file, because cargo
    /// compares timestamps.
    fn put(&self, name: &str, text: &str) {
        let mut text = text.to_owned();
        let fixed = [
            ("trial/Cargo.toml", "name = \"ferry_trial\"", format!("name = \"ferry_trial_{}\"", self.name)),
            ("trial/Cargo.toml", "path = \"../../../sdk\"", "path = \"../sdk\"".to_owned()),
            ("trial/Cargo.toml", "publish = false\n", "publish = false\n\n[workspace]\n".to_owned()),
            ("host/cli/Cargo.toml", "name = \"ferry\"", format!("name = \"ferry_{}\"", self.name)),
            // A copy contains no formats.
            (
                "host/cli/Cargo.toml",
                "tensorferry-formats = { workspace = true, optional = true }\n",
                String::new(),
            ),
            ("host/cli/Cargo.toml", "\"dep:tensorferry-formats\"", String::new()),
        ];
        let fixed = fixed.map(|(file, before, after)| (file.to_owned(), before.to_owned(), after));
        for (_, before, after) in fixed.iter().chain(&self.patches).filter(|(file, ..)| file == name) {
            assert!(
                text.contains(before),
                "{name} has changed: {before:?}, which is to be replaced, is missing"
            );
            text = text.replacen(before, after, 1);
        }
        self.put_bytes(name, text.as_bytes());
    }

    fn put_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.folder().join(name);
        if std::fs::read(&path).is_ok_and(|there| there == bytes) {
            return;
        }
        std::fs::create_dir_all(path.parent().expect("the path is in the copy"))
            .expect("the target folder is writable");
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
