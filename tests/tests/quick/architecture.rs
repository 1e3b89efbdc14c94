//! What ARCHITECTURE.md promises about the crates: which may use which, that no modules use each other in
//! circles, and that the host knows no format.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::paths_below;
use tensorferry_tests::layers::circles_in;
use tensorferry_tests::rust::modules;
use tensorferry_tests::workspace::{self, root};

/// Which group of crates may use which others: folders, of which the longest that fits counts.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("sdk/abi", &[]),
    ("sdk", &["sdk/abi"]),
    ("proto", &[]),
    ("plugins", &["sdk", "proto", "plugins"]),
    // No plugin, but a program that `ferry run` writes beside its reports.
    ("plugins/check", &[]),
    // Libraries are opened by the boundary's own types.
    ("host/core", &["sdk", "sdk/abi"]),
    ("host/run", &["sdk", "host/core"]),
    // It knows no model, and no engine.
    ("host/page", &[]),
    ("host/cli", &["sdk", "host/core", "host/run", "host/page", "plugins/check"]),
    // The wheel's program is in its module.
    ("host/python", &["sdk", "host/core", "host/run", "host/cli", "plugins/check"]),
    ("host/remote", &["sdk", "host/core"]),
    ("host/run", &["sdk", "host/core", "host/remote"]),
    ("host", &["sdk", "host/core"]),
    ("tests/kit", &["sdk"]),
    ("tests", &["sdk", "tests/kit", "proto", "plugins", "plugins/check", "host/core", "host/run"]),
];

fn cargo(arguments: &[&str]) -> String {
    run(workspace::cargo().args(arguments).arg("--offline")).expect(0).stdout
}

/// The crates of the workspace: the folder of each, and its entry in cargo's metadata.
fn crates() -> Vec<(PathBuf, Value)> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--no-deps"])).unwrap();
    let folder = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().strip_prefix(root()).unwrap().to_owned()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    let found: Vec<_> = packages.map(|package| (folder(package), package.clone())).collect();
    assert!(found.len() >= 13, "{found:?}");
    found
}

fn group(folder: &Path) -> (&'static str, &'static [&'static str]) {
    let fits = MAY_USE.iter().filter(|(group, _)| folder.starts_with(group));
    *fits.max_by_key(|(group, _)| group.len()).unwrap_or_else(|| panic!("no group for {}", folder.display()))
}

#[test]
fn crates_depend_one_way() {
    let mut arrows = 0;
    for (folder, package) in crates() {
        let (own, others) = group(&folder);
        for dependency in package["dependencies"].as_array().unwrap() {
            // Tests of a crate may use any other.
            if let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"] != "dev") {
                let (used, _) = group(Path::new(path).strip_prefix(root()).unwrap());
                assert!(
                    others.contains(&used),
                    "{} uses {path}: {own} may use {others:?} only",
                    folder.display()
                );
                arrows += 1;
            }
        }
    }
    assert!(arrows >= 15, "{arrows}");
}

#[test]
fn no_modules_use_each_other_in_circles() {
    let mut wrong = Vec::new();
    for (folder, _) in crates() {
        // A library that exports a format is three lines, and has no such folder.
        let sources = root().join(&folder).join("src");
        for circle in if sources.is_dir() { circles_in(&sources) } else { Vec::new() } {
            let arrows = circle.arrows.iter().map(|arrow| format!("\n    {arrow}")).collect::<String>();
            let of = circle.folder.join("::");
            wrong.push(format!("{} {of}: {}{arrows}", folder.display(), circle.modules.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} circles:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_host_names_no_format() {
    let formats = Ferry::new().run(["formats", "--json"]).expect(0).json();
    let ids: Vec<&str> =
        formats["formats"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert!(ids.len() >= 10, "{ids:?}");
    let mut read = 0;
    for name in paths_below(&root().join("host")) {
        let path = Path::new(&name);
        let is_test = path
            .with_extension("")
            .iter()
            .any(|part| ["tests", "examples", "bench"].iter().any(|own| part == *own));
        let is_source =
            path.extension().is_some_and(|suffix| ["rs", "py", "toml"].iter().any(|own| suffix == *own));
        if is_test || !is_source {
            continue;
        }
        let text = std::fs::read_to_string(root().join("host").join(path)).unwrap();
        let texts: Vec<String> = if name.ends_with(".rs") {
            modules(Vec::new(), &text).0.into_values().flat_map(|module| module.texts).collect()
        } else {
            text.split('"').map(str::to_owned).collect()
        };
        let named = texts.iter().find(|text| ids.contains(&text.as_str()));
        assert_eq!(named, None, "host/{name}");
        read += 1;
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_program_of_tensors_builds_no_arrow() {
    let tree = cargo(&[
        "tree",
        "--package",
        "tensorferry",
        "--no-default-features",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    assert!(tree.starts_with("tensorferry v") && tree.contains("tensorferry-sdk v"), "{tree}");
    let arrow = tree.lines().find(|line| line.starts_with("arrow") || line.starts_with("parquet"));
    assert_eq!(arrow, None, "{tree}");
}

/// What clippy says of the standard library (`incompatible_msrv`), of what we depend on.
#[test]
fn no_dependency_needs_a_newer_compiler_than_ours() {
    // What other platforms need has not been downloaded.
    let about = cargo(&["--version", "--verbose"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = cargo(&["metadata", "--format-version=1", "--filter-platform", host]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let version = |package: &Value| -> Option<Vec<u32>> {
        let text = package["rust_version"].as_str()?;
        Some(text.split('.').map(|number| number.parse().unwrap()).collect())
    };
    let packages = metadata["packages"].as_array().unwrap();
    let ours = packages.iter().find(|package| package["name"] == "tensorferry").and_then(version).unwrap();
    let newer: Vec<&Value> = packages
        .iter()
        .filter(|package| version(package).is_some_and(|theirs| theirs > ours))
        .map(|package| &package["name"])
        .collect();
    assert!(newer.is_empty() && packages.len() > 100, "{newer:?}");
}
