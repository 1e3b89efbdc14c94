//! Plugins are found where the contract says, and a folder that cannot be trusted is refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::workspace::workspace;

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
    let outcome =
        run(Command::new(&workspace().program).arg("formats").env_remove("FERRY_PLUGIN_PATH")).expect(0);
    assert!(outcome.stdout.contains("safetensors") && outcome.stdout.contains("torch"), "{outcome}");
}

#[test]
fn they_are_found_by_the_environment() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let outcome =
        run(alone(folder.path()).arg("formats").env("FERRY_PLUGIN_PATH", ferry.plugin_folder())).expect(0);
    assert!(outcome.stdout.contains("safetensors") && outcome.stdout.contains("torch"), "{outcome}");
}

#[test]
fn they_are_found_in_the_users_data_folder() {
    let folder = tempdir().unwrap();
    let plugins = folder.path().join("data/ferry/plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    for library in &workspace().plugins {
        std::fs::copy(library, plugins.join(library.file_name().unwrap())).unwrap();
    }
    let outcome = run(alone(folder.path()).arg("formats")).expect(0);
    assert!(outcome.stdout.contains("safetensors") && outcome.stdout.contains("torch"), "{outcome}");
}

#[test]
fn without_any_a_conversion_says_where_it_looked() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.safetensors");
    std::fs::write(&input, tensorferry_tests::model::safetensors(&[("w", "U8", &[1], &[7])])).unwrap();
    let output = folder.path().join("out.pt");
    run(alone(folder.path()).arg("convert").arg(&input).arg(&output)).expect(5).says(&["plugin"]);
    assert!(!output.exists());
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let ferry = Ferry::new();
    std::fs::set_permissions(ferry.plugin_folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let input = tensorferry_tests::fixtures::cases("safetensors", "odd_names").pop().unwrap().input();
    let folder = tempdir().unwrap();
    let outcome =
        run(alone(folder.path()).arg("--plugin-dir").arg(ferry.plugin_folder()).arg("inspect").arg(input));
    let folder = ferry.plugin_folder().file_name().unwrap().to_string_lossy().into_owned();
    outcome.expect(5).says(&[&folder]);
}

#[test]
fn a_plugin_that_is_none_is_refused_with_the_reason() {
    let ferry = Ferry::with_plugins(&[] as &[&Path]);
    let library = ferry.plugin_folder().join(format!("libferry_text.{}", std::env::consts::DLL_EXTENSION));
    std::fs::write(&library, "not a library").unwrap();
    let outcome = ferry.run(["plugin", "list"]);
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("libferry_text"), "{outcome}");
    let outcome = ferry.run(["plugin".as_ref(), "check".as_ref(), library.as_os_str()]).expect(5);
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("libferry_text"), "{outcome}");
}

#[test]
fn a_good_plugin_passes_the_check() {
    let ferry = Ferry::new();
    for library in &workspace().plugins {
        let outcome = ferry.run(["plugin".as_ref(), "check".as_ref(), library.as_os_str()]).expect(0);
        assert_ne!(outcome.stdout, "", "{outcome}");
    }
    let list = ferry.run(["plugin", "list"]).expect(0).stdout;
    assert!(list.contains("tensorferry-safetensors") && list.contains("tensorferry-torch"), "{list}");
}
