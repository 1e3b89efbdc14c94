//! The program with the feature `bundled` contains all formats, for `cargo install`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::workspace::{cargo, workspace};
use tensorferry_tests::{Ferry, args};

/// Builds the program with the dependencies of the workspace, which the tests have already built,
/// and copies it to a folder without libraries.
fn program(ferry: &Ferry) -> PathBuf {
    let target = workspace().target.join("bundled");
    let mut build = cargo();
    // Two folders, so that this program does not replace the one that other tests run.
    build.env("CARGO_BUILD_BUILD_DIR", &workspace().target).arg("build").arg("--target-dir").arg(&target);
    run(build.args(["--workspace", "--bin", "ferry", "--features", "tensorferry-cli/bundled", "--quiet"]))
        .expect(0);
    let program = ferry.write("bin/ferry", "");
    std::fs::copy(target.join("debug/ferry"), &program).unwrap();
    program
}

#[test]
#[ignore = "builds the program again"]
fn a_program_with_all_formats_needs_no_library() {
    let ferry = Ferry::new();
    let program = program(&ferry);
    let alone = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new(&program);
        command.current_dir(ferry.home()).env_remove("FERRY_PLUGIN_PATH").env("HOME", ferry.home());
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        run(command.args(arguments)).expect(0)
    };
    let formats = |of: &dyn Fn(&serde_json::Value) -> bool| {
        let document = alone(&args!["formats", "--json"]).json();
        document["formats"].as_array().unwrap().iter().filter(|format| of(format)).count()
    };
    let all = formats(&|format| format["library"].is_null());
    assert!(all >= 20 && formats(&|format| !format["library"].is_null()) == 0);

    let input = case("torch", "zip_module_state_dict").input();
    alone(&args!["convert", input, "bundled.safetensors"]);
    let loaded = ferry.at("loaded.safetensors");
    ferry.convert(&input, &loaded, &[]);
    assert!(std::fs::read(ferry.at("bundled.safetensors")).unwrap() == std::fs::read(loaded).unwrap());
    // The processes that run jobs have the formats, too.
    ferry.write("zoo.toml", "[[job]]\ninput = \"bundled.safetensors\"\noutput = \"run.npz\"\n");
    alone(&args!["run", "zoo.toml"]).prints(&["1 job: 1 done"]);
    alone(&args!["doctor"]).prints(&[
        "features: bundled, remote",
        "bundled with the program",
        "Problems\n  none",
    ]);

    // A library next to the program replaces the formats in the program.
    let library = Path::new("bin").join(format!("{DLL_PREFIX}ferry_formats{DLL_SUFFIX}"));
    std::fs::copy(&workspace().formats, ferry.at(library)).unwrap();
    assert_eq!(formats(&|format| !format["library"].is_null()), all);
    let list = alone(&args!["plugin", "list"]);
    assert!(!list.stdout.contains("note: ") && !list.stdout.contains("bundled with the program"), "{list}");
}
