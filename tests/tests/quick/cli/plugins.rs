//! Tests that plugins are found in the folders that the contract lists, and that untrusted plugins
//! are rejected. A library that crashes, hangs or makes false claims must not affect other plugins.

use std::collections::BTreeSet;
use std::env::consts::DLL_EXTENSION;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::workspace::{root, workspace};
use tensorferry_tests::{Ferry, Outcome, args};

/// Returns a command that runs the program from a folder without any plugins.
fn alone(folder: &Path) -> Command {
    let program = folder.join("ferry");
    std::fs::copy(&workspace().program, &program).unwrap();
    let mut command = Command::new(program);
    command.env_remove("FERRY_PLUGIN_PATH").env("HOME", folder).env("XDG_DATA_HOME", folder.join("data"));
    command.env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

/// Links existing build results into a plugin with the formats of one crate in this workspace, as
/// an author would distribute it.
fn library(format: &str) -> PathBuf {
    static LINKING: Mutex<()> = Mutex::new(());
    let _guard = LINKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace().target.join("tmp/plugins");
    let library = folder.join(format!("libferry_{format}.{DLL_EXTENSION}"));
    let name = format!("tensorferry_{format}");
    let crates = [&*name, "tensorferry_sdk"].map(|name| (name, workspace().rlib(name)));
    let time = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    if crates.iter().all(|(_, path)| time(&library) > time(path)) {
        return library;
    }
    std::fs::create_dir_all(&folder).unwrap();
    let (package, source) = (name.replace('_', "-"), folder.join(format!("{format}.rs")));
    let export = format!("tensorferry_sdk::export_plugin!(named {package:?}, from {name}::formats);");
    std::fs::write(&source, export).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")).args(["--edition=2024", "--crate-type=cdylib"]);
    for (name, path) in crates {
        rustc.arg("--extern").arg(format!("{name}={}", path.display()));
        rustc.arg("-L").arg(path.parent().unwrap().join("deps"));
    }
    // Another process may have the old file open.
    let new = library.with_extension("new");
    run(rustc.args(["-Cstrip=debuginfo", "-o"]).args([&new, &source])).expect(0);
    std::fs::rename(new, &library).unwrap();
    library
}

/// Builds a library whose constructor records in a file that the library was opened, and then runs
/// the C code `does`.
fn with_constructor(ferry: &Ferry, name: &str, does: &str) -> PathBuf {
    let source = format!(
        r#"
        extern "C" fn open() {{
            use std::io::Write;
            let path = std::env::var_os("FERRY_TEST_OPENED").unwrap();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            file.unwrap().write_all(b"x").unwrap();
            {does}
        }}
        #[used]
        #[unsafe(link_section = ".init_array")]
        static OPEN: extern "C" fn() = open;
        "#
    );
    let path = ferry.write(&format!("{name}.rs"), source);
    let library = ferry.at(format!("lib{name}.{DLL_EXTENSION}"));
    let mut rustc = Command::new("rustc");
    run(rustc
        .args(["--edition=2024", "--crate-type=cdylib", "-Aunconditional_panic", "-o"])
        .args([&library, &path]))
    .expect(0);
    library
}

/// A plugin folder with a library from [`with_constructor`], a cache, and the file that records how
/// often the library was opened.
struct Hostile {
    ferry: Ferry,
    library: PathBuf,
}

impl Hostile {
    fn new(does: &str) -> Self {
        let ferry = Ferry::new();
        let built = with_constructor(&ferry, "hostile", does);
        let library = ferry.plugin_folder().join(built.file_name().unwrap());
        // Copy the library, so that it has its own timestamps.
        std::fs::copy(built, &library).unwrap();
        Self { ferry, library }
    }

    fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = self.ferry.command(arguments);
        command
            .env("FERRY_TEST_OPENED", self.ferry.at("opened"))
            .env("XDG_CACHE_HOME", self.ferry.at("cache"));
        command
    }

    fn run(&self, arguments: &[&OsStr]) -> Outcome {
        run(&mut self.command(arguments))
    }

    fn opened(&self) -> usize {
        std::fs::read(self.ferry.at("opened")).map_or(0, |marks| marks.len())
    }

    /// Runs a conversion between formats that are not in the library.
    fn converts(&self) -> Outcome {
        let input = self.ferry.safetensors("in.safetensors", &[("w", "U8", &[1], &[7])]);
        let output = self.ferry.at("out.pt");
        self.run(&args!["convert", "--force", input, output]).expect(0)
    }
}

#[test]
fn a_library_that_crashes_is_opened_once_and_quarantined_until_it_changes() {
    for (does, how) in [
        ("std::process::abort()", "signal 6"),
        ("unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) }", "signal 11"),
        ("std::process::exit(0)", "exit code 0"),
    ] {
        let hostile = Hostile::new(does);
        hostile.converts().says(&["note", "libhostile", "quarantined", how]);
        assert_eq!(hostile.opened(), 1, "{does}");
        let second = hostile.converts();
        assert!(!second.stderr.contains("quarantined"), "{second}");
        let list =
            hostile.run(&args!["plugin", "list"]).expect(0).prints(&["refused", "libhostile", how, "check"]);
        assert!(list.stdout.contains("tensorferry 0."), "{list}");
        let document = hostile.run(&args!["plugin", "list", "--json"]).expect(0).json();
        let plugins = document["plugins"].as_array().unwrap();
        let quarantined: Vec<_> = plugins.iter().filter(|plugin| plugin["quarantined"] == true).collect();
        assert_eq!(quarantined.len(), 1, "{document}");
        assert_eq!(hostile.opened(), 1, "{does}: opened again");

        // A library that the user checks by name, or that has changed, is opened again.
        hostile.run(&args!["plugin", "check", hostile.library]).expect(5).says(&[how]);
        assert_eq!(hostile.opened(), 2);
        let bytes = std::fs::read(&hostile.library).unwrap();
        std::fs::write(&hostile.library, bytes).unwrap();
        hostile.converts().says(&["quarantined"]);
        assert_eq!(hostile.opened(), 3);
    }
}

#[test]
fn a_library_that_never_comes_back_is_quarantined() {
    let hostile = Hostile::new("loop { std::thread::park() }");
    let input = hostile.ferry.safetensors("in.safetensors", &[("w", "U8", &[1], &[7])]);
    // The test uses a shorter timeout than the ten seconds in normal use.
    let mut first = hostile.command(&args!["convert", input, hostile.ferry.at("out.pt")]);
    let first = run(first.env("FERRY_FAULT_SCAN_SECONDS", "2")).expect(0);
    first.says(&["note", "libhostile", "quarantined", "did not return"]);
    hostile.converts();
    hostile.run(&args!["plugin", "list"]).expect(0).prints(&["libhostile", "did not return within 2 s"]);
    assert_eq!(hostile.opened(), 1);
}

#[test]
fn without_a_cache_everything_works() {
    let hostile = Hostile::new("std::process::abort()");
    // A file; a folder that others may write to; a folder that cannot be created.
    let file = hostile.ferry.write("file", "");
    let open = hostile.ferry.at("open/ferry/plugins");
    std::fs::create_dir_all(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let input = hostile.ferry.safetensors("in.safetensors", &[("w", "U8", &[1], &[7])]);
    let output = hostile.ferry.at("out.pt");
    for (number, cache) in
        [file.as_path(), &hostile.ferry.at("open"), Path::new("/proc/none")].into_iter().enumerate()
    {
        let mut command = hostile.command(&args!["convert", "--force", input, output]);
        run(command.env("XDG_CACHE_HOME", cache)).expect(0).says(&["quarantined"]);
        assert_eq!(hostile.opened(), number + 1);
    }
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
}

#[test]
fn a_damaged_cache_is_no_error() {
    let ferry = Ferry::new();
    let cache = ferry.at("cache");
    let formats = || run(ferry.command(["formats"]).env("XDG_CACHE_HOME", &cache)).expect(0);
    let first = formats();
    let entries = cache.join("ferry/plugins");
    // The library may have been linked or written a moment ago. Such a new library is not cached,
    // so try again.
    while std::fs::read_dir(&entries).map_or(0, Iterator::count) < 1 {
        formats();
    }
    for entry in std::fs::read_dir(&entries).unwrap() {
        std::fs::write(entry.unwrap().path(), "{\"version\":1").unwrap();
    }
    assert_eq!(formats().stdout, first.stdout);
    assert_eq!(formats().stdout, first.stdout);
}

/// Tests that a conversion opens only the plugins that it uses, according to the dynamic loader's
/// reports.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn only_the_plugins_that_a_conversion_uses_are_opened() {
    let ferry = Ferry::with_plugins(&[library("jsonl")]);
    let input = ferry.safetensors("in.safetensors", &[("w", "U8", &[1], &[7])]);
    let (output, rows) = (ferry.at("out.pt"), ferry.write("rows.jsonl", "{\"id\": 1}\n"));
    let opened = |code, arguments: &[&OsStr]| -> BTreeSet<String> {
        let mut command = ferry.command(["--allow-shadow", "jsonl"]);
        let outcome = run(command.args(arguments).env("LD_DEBUG", "files")).expect(code);
        let names = outcome.stderr.split(|c: char| c == '/' || c.is_whitespace());
        names.filter(|name| name.starts_with("libferry_")).map(str::to_owned).collect()
    };
    let names = |libraries: &[&str]| -> BTreeSet<String> {
        libraries.iter().map(|library| format!("libferry_{library}.{DLL_EXTENSION}")).collect()
    };
    // The first run may have to fill the cache. A library that was linked a moment ago is not
    // cached, so try again.
    while !opened(0, &args!["formats"]).is_empty() {}
    assert_eq!(opened(0, &args!["convert", input, output]), names(&["formats"]));
    assert_eq!(opened(0, &args!["cat", "--from", "jsonl", rows]), names(&["jsonl"]));
    // The name does not determine the format, so all libraries are opened.
    let nameless = ferry.at("nameless");
    std::fs::copy(&rows, &nameless).unwrap();
    assert_eq!(opened(3, &args!["inspect", nameless]), names(&["formats", "jsonl"]));
}

#[test]
fn a_built_in_format_is_not_shadowed_without_being_told() {
    let ferry = Ferry::new();
    let copy = ferry.plugin_folder().join(format!("libother.{DLL_EXTENSION}"));
    std::fs::copy(library("safetensors"), &copy).unwrap();
    let used = |outcome: Outcome| {
        let document = outcome.expect(0).json();
        let formats = document["formats"].as_array().unwrap();
        let format = formats.iter().find(|format| format["id"] == "safetensors").unwrap();
        PathBuf::from(format["library"].as_str().unwrap())
    };
    assert_ne!(used(ferry.run(["formats", "--json"])), copy.canonicalize().unwrap());
    ferry.run(["plugin", "list"]).expect(0).prints(&[
        "libother",
        "safetensors is built in",
        "--allow-shadow",
    ]);
    let told = ["--allow-shadow", "safetensors", "formats", "--json"];
    assert_eq!(used(ferry.run(told)), copy.canonicalize().unwrap());
}

#[test]
fn a_library_that_others_may_exchange_is_refused() {
    let ferry = Ferry::new();
    let chmod = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // Other users may be able to write to the library itself, or to the target of a link.
    let written = ferry.plugin_folder().join(format!("libwritten.{DLL_EXTENSION}"));
    std::fs::copy(library("torch"), &written).unwrap();
    chmod(&written, 0o666);
    let elsewhere = ferry.write(&format!("open/libtarget.{DLL_EXTENSION}"), "");
    std::fs::copy(library("torch"), &elsewhere).unwrap();
    chmod(elsewhere.parent().unwrap(), 0o777);
    std::os::unix::fs::symlink(&elsewhere, ferry.plugin_folder().join(format!("liblink.{DLL_EXTENSION}")))
        .unwrap();
    let list = ferry.run(["plugin", "list"]).expect(0);
    assert_eq!(list.stdout.matches("not trusted: other users may write to").count(), 2, "{list}");
    ferry.run(["formats"]).expect(0).prints(&["safetensors"]);
    chmod(&written, 0o644);
    chmod(elsewhere.parent().unwrap(), 0o755);
    let list = ferry.run(["plugin", "list"]).expect(0);
    assert!(!list.stdout.contains("not trusted"), "{list}");
}

#[test]
fn a_plugin_is_installed_and_removed() {
    let ferry = Ferry::new();
    let run_alone = |arguments: &[&OsStr]| run(alone(ferry.home()).args(arguments));
    let installed = ferry.at(format!("data/ferry/plugins/libferry_torch.{DLL_EXTENSION}"));
    run_alone(&args!["plugin", "install", library("torch")])
        .expect(0)
        .prints(&["tensorferry-torch", "formats torch"]);
    run_alone(&args!["formats"]).expect(0).prints(&["torch"]);
    assert_eq!(installed.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    let sum = std::fs::read_to_string(format!("{}.sha256", installed.display())).unwrap();
    assert!(sum.len() > 64 && sum.ends_with(&format!("libferry_torch.{DLL_EXTENSION}\n")), "{sum}");
    run_alone(&args!["plugin", "install", library("torch")]).expect(2).says(&["--force"]);
    run_alone(&args!["plugin", "install", library("torch"), "--force"]).expect(0);

    // An installed library is opened only if its bytes are unchanged.
    let mut bytes = std::fs::read(&installed).unwrap();
    bytes.push(0);
    std::fs::write(&installed, bytes).unwrap();
    run_alone(&args!["plugin", "list"]).expect(0).prints(&["changed since it was installed"]);
    run_alone(&args!["formats"]).expect(5).says(&["changed since it was installed"]);
    run_alone(&args!["plugin", "install", library("torch"), "--force"]).expect(0);
    run_alone(&args!["formats"]).expect(0);

    run_alone(&args!["plugin", "remove", "safetensors"])
        .expect(2)
        .says(&["no such plugin", "libferry_torch"]);
    run_alone(&args!["plugin", "remove", "torch"]).expect(0).prints(&["libferry_torch"]);
    assert!(files_below(&ferry.at("data")).is_empty());
    let text = ferry.write(&format!("libtext.{DLL_EXTENSION}"), "not a library");
    run_alone(&args!["plugin", "install", text]).expect(5).says(&["refused"]);
    run_alone(&args!["plugin", "install", ferry.home()]).expect(2);
    assert!(files_below(&ferry.at("data")).is_empty());
}

#[test]
fn with_a_list_only_plugins_on_it_are_opened() {
    let ferry = Ferry::new();
    let run_alone = |arguments: &[&OsStr]| run(alone(ferry.home()).args(arguments));
    for format in ["torch", "safetensors"] {
        run_alone(&args!["plugin", "install", library(format)]).expect(0);
    }
    run_alone(&args!["plugin", "trust"]).expect(0).prints(&["no list"]);
    run_alone(&args!["plugin", "trust", library("torch")]).expect(0).says(&["from now on, ferry loads only"]);
    run_alone(&args!["plugin", "list"]).expect(0).prints(&["tensorferry-torch", "is not on the list"]);
    let formats = run_alone(&args!["formats"]).expect(0);
    assert!(formats.stdout.contains("torch") && !formats.stdout.contains("safetensors"), "{formats}");
    run_alone(&args!["plugin", "trust", library("safetensors")]).expect(0);
    run_alone(&args!["formats"]).expect(0).prints(&["torch", "safetensors"]);
    run_alone(&args!["plugin", "trust", "--remove", library("torch")]).expect(0);
    let formats = run_alone(&args!["formats"]).expect(0);
    assert!(!formats.stdout.contains("torch") && formats.stdout.contains("safetensors"), "{formats}");
    // Installing a plugin adds it to the list.
    run_alone(&args!["plugin", "install", "--force", library("torch")]).expect(0);
    run_alone(&args!["formats"]).expect(0).prints(&["torch", "safetensors"]);

    let list = ferry.at(".config/ferry/plugins.sha256");
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o666)).unwrap();
    run_alone(&args!["formats"]).expect(5).says(&["list of allowed plugins", "chmod go-w"]);
    // The program's own formats are not on the list.
    run(ferry.command(["formats"]).env("XDG_CONFIG_HOME", ferry.at("none"))).expect(0);
}

#[test]
fn they_are_found_beside_the_program() {
    run(Command::new(&workspace().program).arg("formats").env_remove("FERRY_PLUGIN_PATH"))
        .expect(0)
        .prints(&["safetensors", "torch"]);
}

#[test]
fn they_are_found_by_the_environment() {
    let ferry = Ferry::with_plugins(&[&workspace().formats]);
    run(alone(ferry.home()).arg("formats").env("FERRY_PLUGIN_PATH", ferry.plugin_folder()))
        .expect(0)
        .prints(&["safetensors", "torch"]);
}

#[test]
fn they_are_found_in_the_users_data_folder() {
    let (ferry, library) = (Ferry::new(), &workspace().formats);
    let name = library.file_name().unwrap().to_str().unwrap();
    std::fs::copy(library, ferry.write(&format!("data/ferry/plugins/{name}"), [])).unwrap();
    run(alone(ferry.home()).arg("formats")).expect(0).prints(&["safetensors", "torch"]);
}

#[test]
fn without_any_a_conversion_says_where_it_looked() {
    let ferry = Ferry::new();
    let input = ferry.safetensors("in.safetensors", &[("w", "U8", &[1], &[7])]);
    let output = ferry.at("out.pt");
    run(alone(ferry.home()).args(args!["convert", input, output])).expect(5).says(&["plugin"]);
    assert!(!output.exists());
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let ferry = Ferry::with_plugins(&[&workspace().formats]);
    std::fs::set_permissions(ferry.plugin_folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let input = case("safetensors", "odd_names").input();
    let outcome =
        run(alone(ferry.home()).args(args!["--plugin-dir", ferry.plugin_folder(), "inspect", input]));
    let folder = ferry.plugin_folder().file_name().unwrap().to_str().unwrap();
    outcome.expect(5).says(&[folder]);
}

#[test]
fn a_plugin_that_is_none_is_refused_with_the_reason() {
    let ferry = Ferry::with_plugins(&[] as &[&Path]);
    let library = ferry.plugin_folder().join(format!("libferry_text.{DLL_EXTENSION}"));
    std::fs::write(&library, "not a library").unwrap();
    let outcome = ferry.run(["plugin", "list"]);
    assert!(outcome.said().contains("libferry_text"), "{outcome}");
    let outcome = ferry.run(args!["plugin", "check", library]).expect(5);
    assert!(outcome.said().contains("libferry_text"), "{outcome}");
}

#[test]
fn a_good_plugin_passes_the_check() {
    let ferry = Ferry::new();
    for (library, name) in
        [(&workspace().formats, "tensorferry 0."), (&library("torch"), "tensorferry-torch 0.")]
    {
        ferry.run(args!["plugin", "check", library]).expect(0).prints(&[name]);
    }
    ferry.run(["plugin", "list"]).expect(0).prints(&["tensorferry 0.", "formats arrow, csv"]);
}

/// Tests that `plugin new` writes all files of a plugin, and replaces nothing. The `third_party`
/// tests build such a plugin by running the commands in its README.
#[test]
fn a_new_plugin_is_written_whole_and_over_nothing() {
    let ferry = Ferry::new();
    let new =
        |arguments: &[&str]| run(ferry.command(["plugin", "new"]).args(arguments).current_dir(ferry.home()));
    new(&["my-format"]).expect(0).prints(&["my-format", "cargo test"]);
    let manifest = std::fs::read_to_string(ferry.at("my-format/Cargo.toml")).unwrap();
    for part in
        ["name = \"ferry-plugin-my-format\"", "name = \"ferry_my_format\"", "tensorferry-sdk = \"0.1\""]
    {
        assert!(manifest.contains(part), "{part:?} is not in {manifest}");
    }
    let sample = std::fs::read(ferry.at("my-format/sample/sample.my-format")).unwrap();
    assert!(sample.starts_with(b"\x89MYFORMAT\r\n\x1a\n"), "{sample:?}");
    new(&["my-format"]).expect(2).says(&["already", "my-format"]);
    new(&["Mine"]).expect(2).says(&["lowercase"]);
    new(&["torch"]).expect(2).says(&["built-in"]);

    let sdk = root().join("sdk");
    new(&["local", "--sdk", sdk.to_str().unwrap()]).expect(0);
    let manifest = std::fs::read_to_string(ferry.at("local/Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("tensorferry-sdk = {{ path = {sdk:?} }}")), "{manifest}");
    new(&["elsewhere", "--sdk", ferry.home().to_str().unwrap()]).expect(2).says(&["Cargo.toml is missing"]);
    assert!(!ferry.at("elsewhere").exists());

    new(&["inc", "--lang", "c"]).expect(0).prints(&["make test"]);
    let written = ["Makefile", "README.md", "ferry_plugin.h", "inc.c", "sample/sample.inc"];
    assert_eq!(files_below(&ferry.at("inc")), written.map(PathBuf::from));
    let header = std::fs::read_to_string(root().join("sdk/abi/include/ferry_plugin.h")).unwrap();
    assert_eq!(std::fs::read_to_string(ferry.at("inc/ferry_plugin.h")).unwrap(), header);
}

#[test]
fn ferrys_own_libraries_keep_every_rule() {
    let ferry = Ferry::new();
    let tensors = ferry.safetensors("a.safetensors", &[("w", "F32", &[2], &[1, 2, 3, 4, 5, 6, 7, 8])]);
    let rows = ferry.write("a.jsonl", "{\"id\": 1, \"word\": \"a\"}\n{\"id\": 2, \"word\": null}\n");
    let outcome = ferry.run(args!["plugin", "test", library("safetensors"), tensors]).expect(0);
    outcome.prints(&["tensorferry-safetensors", "held    R13", "held    W11", "conformant: all"]);
    let document = ferry.run(args!["plugin", "test", "--json", library("jsonl"), rows]).expect(0).json();
    let format = &document["formats"][0];
    assert_eq!((&document["conformant"], &format["rows"]), (&true.into(), &2.into()), "{document}");
    assert!(format["damaged"].as_u64() > Some(100), "{document}");
}

#[test]
fn a_test_of_a_plugin_says_what_is_missing() {
    let ferry = Ferry::new();
    let without = ferry.run(args!["plugin", "test", library("safetensors")]).expect(1);
    without.prints(&["BROKEN  D16", "not conformant: 1 of"]);
    let long = ferry.write("long.safetensors", vec![0; 2 << 20]);
    ferry
        .run(args!["plugin", "test", library("safetensors"), long])
        .expect(2)
        .says(&["1 MiB", "long.safetensors"]);
    let absent = ferry.at("absent");
    ferry.run(args!["plugin", "test", library("safetensors"), absent]).expect(5).says(&["absent"]);
    let other = ferry.write("other.safetensors", "no such file");
    let outcome = ferry.run(args!["plugin", "test", library("safetensors"), other]).expect(1);
    outcome.prints(&["BROKEN  R3", "see it: ferry plugin test", "--keep broken"]);
    let kept = ferry.at("kept");
    let outcome = ferry.run(args!["plugin", "test", library("safetensors"), other, "--keep", kept]).expect(1);
    outcome.prints(&["inspect --from safetensors", "R3-1/other.safetensors"]);
    assert_eq!(files_below(&kept), [PathBuf::from("safetensors/R3-1/other.safetensors")]);
    ferry.run(args!["plugin", "test", other, other]).expect(5).says(&["refused"]);
}
