//! Tests the kit for plugin authors in the same way as a new author would use it. The commands of
//! the guide and of each template's README run unchanged, starting in an empty folder, with the SDK
//! in its published form.

use crate::outside;
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tensorferry_tests::ferry::run;
use tensorferry_tests::workspace::{cargo, root, workspace};
use tensorferry_tests::{Ferry, Outcome};

/// The environment of a plugin author, with an empty folder, a home folder, and `ferry` on the
/// PATH.
struct Author {
    folder: TempDir,
}

impl Author {
    fn new() -> Self {
        let author = Self { folder: workspace().folder("author-") };
        let programs = author.at("programs");
        std::fs::create_dir_all(&programs).unwrap();
        symlink(&workspace().program, programs.join("ferry")).unwrap();
        std::fs::create_dir_all(author.at("work/.cargo")).unwrap();
        let mut config = "[patch.crates-io]\n".to_owned();
        for (name, folder) in packaged() {
            writeln!(config, "{name} = {{ path = {folder:?} }}").unwrap();
        }
        std::fs::write(author.at("work/.cargo/config.toml"), config).unwrap();
        author
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a shell script, which ends at the first command that fails.
    fn runs(&self, folder: &str, script: &str) -> Outcome {
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-euxc").arg(script).current_dir(self.at(folder));
        shell.env("PATH", format!("{}:{path}", self.at("programs").display()));
        shell.env("HOME", self.at("home")).env("XDG_CACHE_HOME", self.at("home/.cache"));
        shell.env(outside::PROFILE.0, outside::PROFILE.1);
        for variable in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "FERRY_PLUGIN_PATH", "CARGO_TARGET_DIR"] {
            shell.env_remove(variable);
        }
        // Cargo's registry stays in the real home folder.
        let home = std::env::var("HOME").unwrap_or_default();
        shell.env("CARGO_HOME", std::env::var("CARGO_HOME").unwrap_or(format!("{home}/.cargo")));
        shell.env("RUSTUP_HOME", std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup")));
        run(&mut shell)
    }

    /// Links the shared target folder, which already contains the built dependencies, into a
    /// plugin's crate.
    fn shares_target(&self, plugin: &str) {
        std::fs::create_dir_all(outside::target()).unwrap();
        symlink(outside::target(), self.at(&format!("work/{plugin}/target"))).unwrap();
    }
}

/// Returns the unpacked crates of the kit in their published form.
fn packaged() -> Vec<(&'static str, PathBuf)> {
    let target = workspace().target.join("kit");
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir"]);
    run(package.arg(&target).args(["-p", "tensorferry-abi", "-p", "tensorferry-sdk"])).expect(0);
    let unpacked = |name: &str| {
        let files = std::fs::read_dir(target.join("package")).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            file.starts_with(name) && file.ends_with(".crate")
        };
        let file = files.filter(is_it).max().unwrap_or_else(|| panic!("{name} was not packed"));
        let mut tar = Command::new("tar");
        run(tar.arg("-C").arg(target.join("package")).arg("-xzf").arg(&file)).expect(0);
        file.with_extension("")
    };
    ["tensorferry-abi", "tensorferry-sdk"].map(|name| (name, unpacked(name))).into()
}

/// Returns the commands of a page, which are the concatenation of its shell blocks.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks: Vec<String> = blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect();
    assert!(blocks.len() > 2, "{page}");
    blocks
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_guides_commands_do_what_it_says() {
    let guide = std::fs::read_to_string(root().join("sdk/README.md")).unwrap();
    let author = Author::new();
    let script = commands(&guide).concat();
    // The plugin is first built in the folder that `cd` enters.
    let script = script.replacen("cd hoard\n", "cd hoard\nln -s \"$TARGET\" target\n", 1);
    let target = outside::target();
    std::fs::create_dir_all(&target).unwrap();
    let outcome = author.runs("work", &format!("TARGET={:?}\n{script}", target.display())).expect(0);
    assert_eq!(outcome.stdout.matches("conformant: all").count(), 2, "{outcome}");
    outcome.prints(&["held    R13", "hoard: Hoard tensors", "installed ferry-plugin-hoard ", "removed "]);
    let edited = std::fs::read_to_string(author.at("work/hoard/src/lib.rs")).unwrap();
    assert!(edited.contains("(14, Dtype::C64),"), "{edited}");
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn each_templates_readme_says_what_works() {
    let author = Author::new();
    for (arguments, name) in [
        ("my-rows2 --kind records", "my-rows2"),
        ("my-tensors", "my-tensors"),
        ("my-c --lang c", "my-c"),
        ("c-rows --lang c --kind records", "c-rows"),
    ] {
        author.runs("work", &format!("ferry plugin new {arguments}")).expect(0);
        if !arguments.contains("--lang c") {
            author.shares_target(name);
        }
        let readme = std::fs::read_to_string(author.at(&format!("work/{name}/README.md"))).unwrap();
        let outcome = author.runs(&format!("work/{name}"), &commands(&readme).concat()).expect(0);
        outcome.prints(&["conformant: all", "installed ferry-plugin-"]);
        // The template's own name must not occur anywhere.
        let left = author.runs(
            &format!("work/{name}"),
            "! grep -riE 'tray|@[a-z-]+@' --exclude-dir=target --exclude-dir=build .",
        );
        left.expect(0);
    }
}

/// A third-party library, and samples of its formats.
struct Case {
    library: PathBuf,
    samples: Vec<PathBuf>,
    formats: &'static [&'static str],
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn plugins_in_every_language_conform() {
    let ferry = Ferry::new();
    let nrrd = crate::c::nrrd("c", "");
    let libraries = ["rows", "trial"].map(outside::library);
    libraries.iter().chain([&nrrd]).for_each(|library| ferry.add_plugin(library));
    let input = ferry.safetensors("a.safetensors", &[("data", "I16", &[2, 2], &[1, 2, 3, 4, 5, 6, 7, 8])]);
    let lines = ferry.write("a.jsonl", "{\"id\": 1, \"word\": \"a\"}\n{\"id\": 2, \"word\": \"bc\"}\n");
    let made = |from: &Path, name: &str| {
        let path = ferry.at(name);
        // The built-in formats also write files with these names.
        let format = name.rsplit('.').next().unwrap();
        ferry.convert(from, &path, &["--to", format]);
        path
    };
    let [rows, trial] = libraries;
    let cases = [
        Case { library: rows, samples: vec![made(&lines, "a.rows")], formats: &["rows"] },
        Case { library: trial, samples: vec![outside::sample()], formats: &["trial"] },
        Case { library: nrrd, samples: vec![made(&input, "a.nrrd")], formats: &["nrrd"] },
    ];
    for Case { library, samples, formats } in cases {
        let mut command = ferry.command(["plugin", "test", "--json"]);
        let outcome = run(command.arg(&library).args(&samples));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let document = outcome.json();
        assert_eq!(document["conformant"], true);
        let tested: Vec<_> =
            document["formats"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
        assert_eq!(tested, formats);
        for format in document["formats"].as_array().unwrap() {
            assert!(
                format["damaged"].as_u64() > Some(100) && format["written"].as_u64() > Some(10),
                "{format}"
            );
            let rules = format["rules"].as_array().unwrap();
            assert!(rules.len() > 30 && rules.iter().all(|rule| rule["number"] != "-"), "{format}");
        }
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn each_misbehaviour_is_caught_by_its_rule() {
    let library = outside::library("misbehave");
    let ferry = Ferry::new();
    let sample = ferry.write("in.misbehave", b"MISBEHAVEsome bytes");
    // Each case is the request, the rule that it breaks, and the reason.
    let cases = [
        ("probe", "B3", "panicked in Format.probe"),
        ("reader", "B3", "panicked in Format.tensor_reader"),
        ("read", "B3", "panicked in TensorReader.read"),
        ("decode", "B3", "panicked in TensorDecoder.decode"),
        ("writer", "B3", "panicked in Format.tensor_writer"),
        ("plan", "B3", "panicked in TensorWriter.plan"),
        ("stream", "B3", "panicked in TensorPlan.stream"),
        ("seal", "B3", "panicked in TensorPlan.seal"),
        ("drop-reader", "B5", "panicked in drop"),
        ("drop-writer", "B5", "panicked in drop"),
        ("drop-plan", "B5", "panicked in drop"),
        ("drop-format", "B5", "panicked in drop"),
        ("extent", "R3", "ends too early"),
        ("decode-short", "R8", "different length"),
        ("decode-long", "R8", "different length"),
        ("left-out", "W4", "leaves a tensor out"),
        ("deferred", "W4", "deferred bytes"),
    ];
    for (request, number, says) in cases {
        let mut command = ferry.command(["plugin", "test", "--json"]);
        let outcome = run(command.arg(&library).arg(&sample).env("FERRY_MISBEHAVE", request));
        assert_eq!(outcome.code, Some(1), "{request}: {outcome}");
        let document = outcome.json();
        let rules = document["formats"][0]["rules"].as_array().unwrap();
        let found =
            rules.iter().filter(|rule| rule["number"] == number).any(|rule| rule.to_string().contains(says));
        assert!(found, "{request}: rule {number} with {says:?} is not in {document}");
    }
    for request in ["init", "init-panic", "describe", "init-abort", "init-loop"] {
        let mut command = ferry.command(["plugin", "test"]);
        run(command.arg(&library).arg(&sample).env("FERRY_MISBEHAVE", request)).expect(5).says(&["refused"]);
    }
    for (name, says) in
        [("abort", "signal 6"), ("loop", "did not return within 10 s"), ("eat", "GiB of memory")]
    {
        let sample = ferry.write(&format!("{name}.misbehave"), format!("MISBEHAVE!{name}"));
        let kept = ferry.at(format!("kept-{name}"));
        let mut command = ferry.command(["plugin", "test", "--keep"]);
        let outcome = run(command.arg(&kept).arg(&library).arg(&sample)).expect(1);
        outcome.prints(&["BROKEN  B2", says, "see it: ferry --plugin-dir"]);
        let file = kept.join("misbehave/B2").join(sample.file_name().unwrap());
        assert_eq!(std::fs::read(file).unwrap(), std::fs::read(&sample).unwrap());
    }
}
