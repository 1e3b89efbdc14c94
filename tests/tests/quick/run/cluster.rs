//! Tests that `ferry run --on ray` passes its jobs to Python, and reports missing components. The
//! tests of the Python package run with real Ray.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::{Ferry, args};

/// A fake Python interpreter. The fake interpreter answers the installation check with `ANSWER`.
/// For other commands, it prints its arguments and exits with 75.
const INTERPRETER: &str =
    "#!/bin/sh\n[ \"$1\" = -c ] && exit \"${ANSWER:-0}\"\nprintf '%s ' \"$@\"\nexit 75\n";

/// Returns a command without the tests' plugin folder, which would not exist on the nodes.
fn program(ferry: &Ferry) -> Command {
    let mut command = Command::new(ferry.command(args!["run"]).get_program());
    command.args(["run", "zoo.toml"]).current_dir(ferry.home());
    command
}

fn interpreter(ferry: &Ferry) -> std::path::PathBuf {
    let path = ferry.write("python", INTERPRETER);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn python_gets_the_words_and_gives_the_exit_code() {
    let ferry = Ferry::new();
    let python = interpreter(&ferry);
    let on = |arguments: &[&str]| run(program(&ferry).args(arguments).env("FERRY_PYTHON", &python));
    let plain = on(&["--on", "ray"]).expect(75);
    assert_eq!(plain.stdout, "-m tensorferry.ray -- zoo.toml ");
    let all =
        ["--on", "ray=10.0.0.1:6379", "--plan", "p", "--var", "a=b", "--only", "x*", "--quiet", "--json"];
    let all = on(&[&all[..], &["--threads", "2", "--memory", "1MiB"]].concat()).expect(75);
    let words = "-m tensorferry.ray --address 10.0.0.1:6379 --plan p --var a=b --only x* --cpus 2 --memory 1048576 \
                 --quiet --json -- zoo.toml ";
    assert_eq!(all.stdout, words);
}

#[test]
fn what_is_missing_is_said() {
    let ferry = Ferry::new();
    let python = interpreter(&ferry);
    for (answer, missing) in [("41", "package tensorferry"), ("42", "does not have Ray")] {
        let mut command = program(&ferry);
        let outcome = run(command.args(["--on", "ray"]).env("FERRY_PYTHON", &python).env("ANSWER", answer));
        let _ = outcome.expect(5).says(&[missing, "'ray[data]>=2.52'"]);
    }
    let outcome = run(program(&ferry).args(["--on", "ray"]).env("FERRY_PYTHON", "/nonexistent/python"));
    let _ = outcome.expect(5).says(&["/nonexistent/python cannot be started", "FERRY_PYTHON"]);
}

#[test]
fn what_a_cluster_does_not_get_is_refused() {
    let ferry = Ferry::new();
    let python = interpreter(&ferry);
    for (wrong, said) in [
        (["--on", "dask"], "`ray`"),
        (["--on", "ray=ray://head:10001"], "ray job submit"),
        (["--on=ray", "--shard=1/2"], "--shard"),
        (["--on=ray", "--dry-run"], "--dry-run"),
        (["--on=ray", "--jobs=2"], "--jobs is not passed to the nodes"),
        (["--on=ray", "--plugin-dir=plugins"], "--plugin-dir is not passed to the nodes"),
        (["--on=ray", "--store=endpoint=http://localhost"], "FERRY_STORE"),
        (["--plan=p", "--quiet"], "--on"),
    ] {
        let _ = run(program(&ferry).args(wrong).env("FERRY_PYTHON", &python)).expect(2).says(&[said]);
    }
}
