//! Tests of third-party programs that use the engine as a library. One program links its formats,
//! and the other loads them.

use super::outside;
use std::path::Path;
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::{Ferry, args, workspace};

#[test]
#[ignore = "builds crates outside the workspace"]
fn a_program_links_formats_or_loads_them() {
    let folder = outside::folder().join("program");
    let programs = outside::products(&folder, &["--locked"]);
    let program = |name: &str| programs.iter().find(|path| path.ends_with(name)).unwrap();
    let (linked, loaded) = (program("linked"), program("loaded"));
    let ferry = Ferry::with_plugins(&[&workspace::workspace().formats]);
    let input = case("torch", "zip_views").input();
    let [ours, by_linked, by_loaded] = ferry.paths(["ours.safetensors", "a.safetensors", "b.safetensors"]);
    ferry.convert(&input, &ours, &[]);
    let expected = format!("{} tensors\n", ferry.tensors(&ours).len());

    // The folder of the program contains no libraries to load.
    let alone = ferry.at("alone");
    std::fs::copy(linked, &alone).unwrap();
    let outcome = run(Command::new(alone).env_clear().args(args![input, by_linked])).expect(0);
    assert_eq!(outcome.stdout, expected);
    let outcome = run(Command::new(loaded).args(args![ferry.plugin_folder(), input, by_loaded])).expect(0);
    assert_eq!(outcome.stdout, expected);
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert!(bytes(&by_linked) == bytes(&ours) && bytes(&by_loaded) == bytes(&ours));

    // Without a plugin folder, no formats are found, and the error names the searched folders.
    let [nowhere, nothing] = ferry.paths(["nowhere", "c.safetensors"]);
    let outcome = run(Command::new(loaded).args(args![nowhere, input, nothing])).expect(1);
    assert!(outcome.stderr.contains("no format plugin was found"), "{outcome}");
}
