//! Tests that numpy and `ferry` read the same contents from each other's files.

use std::path::Path;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::seen::{Seen, tensors};
use tensorferry_tests::{Ferry, args, python};

/// Reads a file with `numpy.load`. `views` contains the ml_dtypes names of the arrays that are
/// stored as untyped bytes.
fn loaded(path: &Path, views: &[String]) -> Seen {
    let mut arguments = args![path].to_vec();
    arguments.extend(views.iter().map(std::ffi::OsStr::new));
    let tensors = tensors(&python::script("numpy_see.py", arguments).json());
    Seen { tensors, ties: std::collections::BTreeSet::new() }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn numpy_loads_every_dtype_of_its_own() {
    let ferry = Ferry::new();
    let case = case("numpy", "npz_all_dtypes");
    let input = case.folder.join("model.npz");
    assert_eq!(loaded(&input, &[]).tensors, case.all());
    for order in ["order=c", "order=fortran", "compression=deflate"] {
        let output = ferry.at("out.npz");
        ferry.convert(&input, &output, &["-o", order, "--verify", "--strict", "--force"]);
        assert_eq!(loaded(&output, &[]).tensors, case.all(), "{order}");
    }
    // A single array is written to an .npy file in either order of elements.
    for order in ["order=c", "order=fortran"] {
        let array = ferry.at("c_f8.npy");
        ferry.convert(&input, &array, &["--step", "select:c_f8", "-o", order, "--verify", "--force"]);
        assert_eq!(loaded(&array, &[]).tensors["c_f8"], case.all()["c_f8"], "{order}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn numpy_loads_the_dtypes_of_ml_dtypes() {
    let ferry = Ferry::new();
    let input = case("safetensors", "all_dtypes").input();
    let known = |dtype: &str| match dtype {
        "BF16" => Some("bfloat16"),
        "F8_E4M3" => Some("float8_e4m3fn"),
        "F8_E5M2" => Some("float8_e5m2"),
        "F8_E4M3FNUZ" => Some("float8_e4m3fnuz"),
        "F8_E5M2FNUZ" => Some("float8_e5m2fnuz"),
        "F8_E8M0" => Some("float8_e8m0fnu"),
        _ => None,
    };
    let expected = ferry.tensors(&input);
    let views: Vec<String> = expected
        .iter()
        .filter_map(|(name, (dtype, ..))| known(dtype).map(|word| format!("{name}={word}")))
        .collect();
    assert!(views.len() >= 3, "{views:?}");
    let [named, void] = ferry.paths(["named.npz", "void.npz"]);
    ferry.convert(&input, &named, &["-o", "ml_dtypes=name", "--verify"]);
    ferry.convert(&input, &void, &["-o", "ml_dtypes=void"]);
    let held = ferry.tensors(&named);
    assert!(held.len() > views.len() && held.iter().all(|(name, facts)| expected[name] == *facts));
    assert_eq!(loaded(&named, &[]).tensors, held);
    assert_eq!(loaded(&void, &views).tensors, held);
}
