//! Checks the public items of crates, and that each crate can be published.
//!
//! The expected items are in `public-api.txt` next to each crate's manifest. After an intended
//! change, update it with `FERRY_TEST_WRITE_API=1 cargo test -p tensorferry-tests --test
//! third_party published -- --ignored`.

use std::os::unix::fs::PermissionsExt;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::names_in;
use tensorferry_tests::workspace::{cargo, root, workspace};

/// Returns the public items of a crate from rustdoc's JSON. The JSON output is unstable and
/// therefore needs a compiler flag.
fn public_items(package: &str, features: &str) -> String {
    let target = &workspace().target;
    let folder = tempfile::tempdir().unwrap();
    let rustdoc = folder.path().join("rustdoc");
    std::fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    std::fs::set_permissions(&rustdoc, PermissionsExt::from_mode(0o755)).unwrap();
    let mut document = cargo();
    document.args([
        "rustdoc",
        "--quiet",
        "--lib",
        "--package",
        package,
        "--features",
        features,
        "--target-dir",
    ]);
    document.arg(target).args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    run(document.env("RUSTDOC", &rustdoc)).expect(0);
    let json = target.join("doc").join(package.replace('-', "_")).with_extension("json");
    let api =
        public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let api = api.omit_auto_derived_impls(true).build().unwrap_or_else(|error| panic!("{package}: {error}"));
    api.to_string()
}

fn promises(package: &str, folder: &str, features: &str) {
    let items = public_items(package, features);
    let path = root().join(folder).join("public-api.txt");
    if std::env::var_os("FERRY_TEST_WRITE_API").is_some() {
        std::fs::write(&path, &items).unwrap();
    }
    let promised = std::fs::read_to_string(&path).unwrap_or_default();
    let only = |of: &str, other: &str, sign: &str| -> String {
        let other: std::collections::HashSet<&str> = other.lines().collect();
        of.lines().filter(|line| !other.contains(line)).map(|line| format!("{sign} {line}\n")).collect()
    };
    let difference = only(&promised, &items, "-") + &only(&items, &promised, "+");
    assert!(
        difference.is_empty(),
        "{package} has different public items than {}:\n{difference}",
        path.display()
    );
}

#[test]
#[ignore = "documents crates"]
fn the_librarys_items_are_those_that_were_promised() {
    promises("tensorferry", "host/tensorferry", "arrow-60,mmap");
}

#[test]
#[ignore = "documents crates"]
fn the_kits_items_are_those_that_were_promised() {
    promises("tensorferry-sdk", "sdk", "records");
}

#[test]
#[ignore = "packs every crate that is published"]
fn every_crate_can_be_published() {
    let target = workspace().target.join("published");
    let mut publish = cargo();
    // Do not build the package, because that would take minutes, and because cargo would keep the
    // unpacked sources of a version.
    publish
        .args([
            "publish",
            "--workspace",
            "--dry-run",
            "--no-verify",
            "--allow-dirty",
            "--quiet",
            "--target-dir",
        ])
        .arg(&target);
    let outcome = run(&mut publish).expect(0);
    let packed = names_in(&target.join("package/tmp-registry"));
    let count = packed.iter().filter(|name| name.ends_with(".crate")).count();
    assert!(count >= 14, "{packed:?}\n{outcome}");
}
