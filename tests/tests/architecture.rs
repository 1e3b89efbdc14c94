//! What ARCHITECTURE.md promises about the crates.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Command;
use tensorferry_tests::ferry::{names_in, run};
use tensorferry_tests::workspace::root;

#[test]
fn the_host_depends_on_no_plugin() {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap());
    tree.args(["tree", "--package", "tensorferry-cli", "--edges", "normal,build", "--prefix", "none"]);
    let tree = run(tree.arg("--manifest-path").arg(root().join("Cargo.toml"))).expect(0).stdout;
    assert!(tree.contains("tensorferry-sdk"), "{tree}");
    let plugins = names_in(&root().join("plugins"));
    assert!(plugins.len() >= 2, "{plugins:?}");
    for plugin in plugins {
        assert!(!tree.contains(&format!("tensorferry-{plugin} ")), "{tree}");
    }
}
