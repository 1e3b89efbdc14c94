//! Runs `tests/differential`, which compares random files of other libraries with their conversions
//! by `ferry`. The values must be the same.

use std::path::Path;
use std::process::Command;
use tensorferry_tests::python;
use tensorferry_tests::workspace::workspace;

/// `FERRY_TEST_DIFFERENTIAL` sets the number of cases, and `FERRY_TEST_DIFFERENTIAL_SEED` the first
/// seed.
#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn no_difference_is_unexplained() {
    let setting = |name, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let cases = setting("FERRY_TEST_DIFFERENTIAL", "600");
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential");
    let state = workspace().target.join("differential.json");
    let _ = std::fs::remove_file(&state);
    let mut command = Command::new(python::interpreter());
    command.arg("-B").arg(rig).arg("--ferry").arg(&workspace().program).args(["--cases", &cases]);
    command.args(["--seed", &setting("FERRY_TEST_DIFFERENTIAL_SEED", "1")]).arg("--state").arg(&state);
    let ended = command.output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    println!("{printed}");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    let wanted: u64 = cases.parse().unwrap();
    assert!(found["cases"].as_u64().unwrap() >= wanted);
    // Every pair must be compared. Otherwise, a library that writes nothing would go unnoticed.
    let pairs = |counts: &serde_json::Value| {
        let names = counts.as_object().unwrap().keys().filter_map(|key| key.split(' ').next());
        names.map(str::to_owned).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(pairs(&found["counts"]) as u64 >= wanted.min(250) / 3, "{printed}");
}
