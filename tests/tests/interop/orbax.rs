//! Tests that Orbax restores the checkpoints that `ferry` writes, on one device and sharded over
//! four devices.

use tensorferry_tests::fixtures::case;
use tensorferry_tests::seen::tensors;
use tensorferry_tests::{Ferry, args, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn orbax_restores_what_was_written() {
    let ferry = Ferry::new();
    let written = ferry.at("ckpt/");
    for (section, name) in
        [("safetensors", "all_dtypes"), ("orbax", "pytree_ocdbt"), ("flax", "params_nested")]
    {
        let input = case(section, name).input();
        ferry.convert(&input, &written, &["--to", "orbax", "--part", ".", "--verify", "--force"]);
        let expected = ferry.tensors(&written);
        assert!(expected.len() >= 5, "{expected:?}");
        for devices in ["1", "4"] {
            let path = ferry.at("ckpt");
            let seen = tensors(&python::script("orbax_see.py", args![path, devices]).json());
            assert_eq!(seen, expected, "{name} on {devices}");
        }
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn typed_keys_are_restored_as_such() {
    let ferry = Ferry::new();
    python::script("orbax_keys.py", args!["make", ferry.home()]);
    for made in ["ocdbt", "zarr", "v1"] {
        let written = ferry.at("again/");
        ferry.convert(
            &ferry.at(made),
            &written,
            &["--to", "orbax", "--part", ".", "--strict", "--verify", "--force"],
        );
        python::script("orbax_keys.py", args!["check", ferry.at("again")]);
    }
}
