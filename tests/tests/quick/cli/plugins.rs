//! Plugins are found where the contract says, and a folder that cannot be trusted is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::workspace::workspace;
use tensorferry_tests::{Ferry, args};

/// The program where no plugin lies beside it.
fn alone(folder: &Path) -> Command {
    let program = folder.join("ferry");
    std::fs::copy(&workspace().program, &program).unwrap();
    let mut command = Command::new(program);
    command.env_remove("FERRY_PLUGIN_PATH").env("HOME", folder).env("XDG_DATA_HOME", folder.join("data"));
    command
}

#[test]
fn they_are_found_beside_the_program() {
    run(Command::new(&workspace().program).arg("formats").env_remove("FERRY_PLUGIN_PATH"))
        .expect(0)
        .prints(&["safetensors", "torch"]);
}

#[test]
fn they_are_found_by_the_environment() {
    let ferry = Ferry::new();
    run(alone(ferry.home()).arg("formats").env("FERRY_PLUGIN_PATH", ferry.plugin_folder()))
        .expect(0)
        .prints(&["safetensors", "torch"]);
}

#[test]
fn they_are_found_in_the_users_data_folder() {
    let ferry = Ferry::new();
    for library in &workspace().plugins {
        let name = library.file_name().unwrap().to_str().unwrap();
        std::fs::copy(library, ferry.write(&format!("data/ferry/plugins/{name}"), [])).unwrap();
    }
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
    let ferry = Ferry::new();
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
    let library = ferry.plugin_folder().join(format!("libferry_text.{}", std::env::consts::DLL_EXTENSION));
    std::fs::write(&library, "not a library").unwrap();
    let outcome = ferry.run(["plugin", "list"]);
    assert!(outcome.said().contains("libferry_text"), "{outcome}");
    let outcome = ferry.run(args!["plugin", "check", library]).expect(5);
    assert!(outcome.said().contains("libferry_text"), "{outcome}");
}

#[test]
fn a_good_plugin_passes_the_check() {
    let ferry = Ferry::new();
    for library in &workspace().plugins {
        let outcome = ferry.run(args!["plugin", "check", library]).expect(0);
        assert_ne!(outcome.stdout, "", "{outcome}");
    }
    ferry.run(["plugin", "list"]).expect(0).prints(&["tensorferry-safetensors", "tensorferry-torch"]);
}
