//! Checks the rules in ARCHITECTURE.md: the allowed dependencies between crates, the absence of
//! cycles between modules, and that the host does not depend on any format.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::paths_below;
use tensorferry_tests::layers::cycles_in;
use tensorferry_tests::rust::modules;
use tensorferry_tests::workspace::{self, root};

/// Groups of crates, and the groups that each group may use. A group is a folder, and a crate
/// belongs to the longest matching folder.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("sdk/abi", &[]),
    ("sdk", &["sdk/abi"]),
    ("proto", &[]),
    ("plugins", &["sdk", "proto", "plugins", "plugins/shared"]),
    ("plugins/all", &["sdk", "plugins"]),
    ("plugins/shared", &["sdk", "proto", "plugins/shared"]),
    // This crate is not a plugin. The crate contains a program that `ferry run` writes next to its
    // reports.
    ("plugins/check", &[]),
    // Loading libraries requires the types of the plugin boundary.
    ("host/core", &["sdk", "sdk/abi"]),
    ("host/publish", &["sdk", "host/core"]),
    ("host/tensors", &["sdk", "host/core"]),
    ("host/convert", &["sdk", "host/core", "host/publish", "host/tensors"]),
    ("host/records", &["sdk", "host/core", "host/publish", "host/tensors", "host/convert"]),
    (
        "host/tensorferry",
        &["sdk", "host/core", "host/publish", "host/tensors", "host/convert", "host/records", "host/remote"],
    ),
    ("host/remote", &["sdk", "host/core"]),
    // host/README.md lists the items of the layers that this crate uses.
    ("host/run", &["sdk", "host/tensorferry", "host/core", "host/publish", "host/convert", "host/remote"]),
    // The page crate does not depend on models or formats.
    ("host/page", &[]),
    // Only the feature `bundled` uses the formats.
    (
        "host/cli",
        &["sdk", "host/tensorferry", "host/core", "host/run", "host/page", "plugins/all", "plugins/check"],
    ),
    ("host/python", &["sdk", "host/tensorferry", "host/run", "host/cli", "plugins/check"]),
    ("host", &["sdk"]),
    ("tests/kit", &["sdk"]),
    (
        "tests",
        &[
            "sdk",
            "sdk/abi",
            "tests/kit",
            "proto",
            "plugins",
            "plugins/check",
            "host/tensorferry",
            "host/core",
            "host/run",
        ],
    ),
];

fn cargo(arguments: &[&str]) -> String {
    run(workspace::cargo().args(arguments).arg("--offline")).expect(0).stdout
}

/// Returns the folder of each crate in the workspace, and the crate's entry in cargo's metadata.
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
    *fits.max_by_key(|(group, _)| group.len()).unwrap_or_else(|| panic!("{} has no group", folder.display()))
}

#[test]
fn crates_depend_one_way() {
    let mut arrows = 0;
    for (folder, package) in crates() {
        let (own, others) = group(&folder);
        for dependency in package["dependencies"].as_array().unwrap() {
            // The tests of a crate may depend on any other crate.
            if let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"] != "dev") {
                let (used, _) = group(Path::new(path).strip_prefix(root()).unwrap());
                assert!(
                    others.contains(&used),
                    "{} uses {path}: {own} may use only {others:?}",
                    folder.display()
                );
                arrows += 1;
            }
        }
    }
    assert!(arrows >= 15, "{arrows}");
}

#[test]
fn no_modules_import_each_other_in_cycles() {
    let mut wrong = Vec::new();
    for (folder, _) in crates() {
        for cycle in cycles_in(&root().join(&folder).join("src")) {
            let arrows = cycle.arrows.iter().map(|arrow| format!("\n    {arrow}")).collect::<String>();
            let of = cycle.folder.join("::");
            wrong.push(format!("{} {of}: {}{arrows}", folder.display(), cycle.modules.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} cycles:\n{}", wrong.len(), wrong.join("\n"));
}

/// The layers of the host. Their interfaces are not stable, so only crates of this workspace may
/// use their public items.
const LAYERS: [&str; 5] = ["convert", "core", "publish", "records", "tensors"];

#[test]
fn no_item_of_a_layer_is_public_without_a_user() {
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let crates = std::fs::read_dir(root().join("host")).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<PathBuf> = crates.filter(|path| path.join("src").is_dir()).collect();
    let mut texts: BTreeMap<PathBuf, Vec<(String, String)>> = BTreeMap::new();
    for folder in crates.into_iter().chain([root().join("tests")]) {
        let sources = paths_below(&folder).into_iter().filter(|name| name.ends_with(".rs"));
        let read = |name: String| (name.clone(), std::fs::read_to_string(folder.join(name)).unwrap());
        texts.insert(folder.clone(), sources.map(read).collect());
    }
    let mut unused = Vec::new();
    let mut items = 0;
    for layer in LAYERS.map(|name| root().join("host").join(name)) {
        let others = texts.iter().filter(|(folder, _)| **folder != layer);
        let others: BTreeSet<String> =
            others.flat_map(|(_, texts)| texts).flat_map(|(_, text)| words(text)).collect();
        for (name, text) in texts[&layer].iter().filter(|(name, _)| name.starts_with("src")) {
            for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("pub ")) {
                let item = line
                    .trim_start_matches("const ")
                    .strip_prefix("fn ")
                    .or_else(|| line.strip_prefix("static "));
                let item =
                    item.and_then(|item| item.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                items += usize::from(item.is_some());
                unused.extend(
                    item.filter(|item| !others.contains(*item)).map(|item| format!("{name}: {item}")),
                );
            }
        }
    }
    assert!(unused.is_empty() && items > 500, "{items} items, of which these are not used: {unused:#?}");
}

/// Type names that are intentionally public more than once. They are the types that every format
/// defines, the name that Arrow's C interface requires, and the tensors of programs and of plugins,
/// which are never used together.
const SHARED_TYPE_NAMES: [&str; 6] =
    ["ArrowArrayStream", "ReadOptions", "Reader", "Tensor", "WriteOptions", "Writer"];

/// Checks that a type name is unique in its crate, and that a public type name is unique in `host`
/// and `sdk`.
#[test]
fn each_type_name_means_one_thing() {
    let declared = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("pub").map_or(line, |rest| {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
        });
        let rest = rest.trim_start().trim_start_matches("unsafe ");
        let kinds = ["struct ", "enum ", "trait ", "union "];
        let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (!name.is_empty()).then(|| (name.to_owned(), line.starts_with("pub ")))
    };
    let mut public: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut repeated = Vec::new();
    let mut count = 0;
    for (folder, _) in crates() {
        let name = folder.display().to_string();
        if name.starts_with("tests") {
            continue;
        }
        let sources = paths_below(&root().join(&folder).join("src"));
        let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for source in sources.into_iter().filter(|source| source.ends_with(".rs")) {
            let text = std::fs::read_to_string(root().join(&folder).join("src").join(&source)).unwrap();
            for (item, is_public) in
                text.lines().take_while(|line| *line != "#[cfg(test)]").filter_map(declared)
            {
                count += 1;
                own.entry(item.clone()).or_default().push(source.clone());
                let is_shared = SHARED_TYPE_NAMES.contains(&&*item);
                if is_public && !is_shared && (name.starts_with("host") || name.starts_with("sdk")) {
                    public.entry(item).or_default().insert(name.clone());
                }
            }
        }
        let twice = own.into_iter().filter(|(_, sources)| sources.len() > 1);
        repeated.extend(twice.map(|(item, sources)| format!("{name}: {item} in {sources:?}")));
    }
    let twice = public.into_iter().filter(|(_, crates)| crates.len() > 1);
    repeated.extend(twice.map(|(item, crates)| format!("{item} is public in {crates:?}")));
    assert!(repeated.is_empty() && count > 1_500, "{count} types: {repeated:#?}");
}

#[test]
fn no_python_files_import_each_other_in_cycles() {
    let package = root().join("host/python/python/tensorferry");
    let names = paths_below(&package);
    let modules: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix(".py")).collect();
    let mut imports: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for &module in &modules {
        let folder = module.rsplit_once('/').map_or("", |(folder, _)| folder);
        let text = std::fs::read_to_string(package.join(module).with_extension("py")).unwrap();
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("from ."));
        let found = lines.filter_map(|line| line.split_once(" import ")).flat_map(|(from, names)| {
            // Two dots refer to the parent folder. Longer runs of dots are not used.
            let (folder, from) = from.strip_prefix('.').map_or((folder, from), |from| ("", from));
            let names = if from.is_empty() { names.split(", ").collect() } else { vec![from] };
            let at =
                |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            names.into_iter().map(at).collect::<Vec<_>>()
        });
        imports.insert(module, found.filter(|name| modules.contains(name.as_str())).collect());
    }
    assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 20, "{imports:?}");
    for &module in &modules {
        let (mut open, mut reached) = (vec![module], BTreeSet::new());
        while let Some(next) = open.pop() {
            open.extend(imports[next].iter().map(String::as_str).filter(|name| reached.insert(*name)));
        }
        assert!(!reached.contains(module), "{module}.py imports itself through {reached:?}");
    }
}

/// Checks that libraries without examples set `doctest = false`, because cargo otherwise runs
/// rustdoc for each of them.
#[test]
fn examples_in_documentation_are_tests() {
    let (mut left_out, mut tested) = (0, 0);
    for (folder, package) in crates() {
        let targets = package["targets"].as_array().unwrap();
        let is_library = |target: &&Value| target["kind"].as_array().unwrap().contains(&"lib".into());
        let Some(library) = targets.iter().find(is_library) else { continue };
        let sources = root().join(&folder).join("src");
        let texts = paths_below(&sources).into_iter().map(|name| (sources.join(&name), name));
        let examples: Vec<String> = texts
            .filter(|(_, name)| name.ends_with(".rs"))
            .filter(|(path, _)| has_example(&std::fs::read_to_string(path).unwrap()))
            .map(|(_, name)| name)
            .collect();
        let is_tested = library["doctest"] == true;
        assert_eq!(
            is_tested,
            !examples.is_empty(),
            "{}: doctest = {is_tested}: {examples:?}",
            folder.display()
        );
        *if is_tested { &mut tested } else { &mut left_out } += 1;
    }
    assert!(left_out > 20 && tested >= 4, "{left_out}, {tested}");
}

/// Returns whether documentation contains code that rustdoc treats as Rust.
fn has_example(text: &str) -> bool {
    let doc =
        |line: &str| ["//! ", "/// "].iter().find_map(|mark| line.strip_prefix(mark).map(str::to_owned));
    let mut is_inside = false;
    text.lines().filter_map(|line| doc(line.trim_start())).any(|line| {
        let fence = line.trim_start().strip_prefix("```");
        is_inside ^= fence.is_some();
        let rust = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];
        is_inside && fence.is_some_and(|words| rust.contains(&words.split(',').next().unwrap().trim()))
    })
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

/// Checks that no dependency requires a newer compiler than this workspace. For the standard
/// library, clippy's `incompatible_msrv` checks the same.
#[test]
fn no_dependency_needs_a_newer_compiler_than_ours() {
    // Packages for other platforms have not been downloaded.
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
