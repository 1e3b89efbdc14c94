//! Tests that the NumPy reader handles arbitrary bytes in arrays and in archives of arrays without
//! a panic.

use crate::drive_any;
use tensorferry_tests::fixtures::cases;

fn seeds(prefix: &str) -> Vec<Vec<u8>> {
    let files = cases("numpy", prefix).into_iter().map(|case| case.input());
    files.map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_arrays_and_archives() {
    let (arrays, archives) =
        ([seeds("npy_"), seeds("bad_npy_")].concat(), [seeds("npz_"), seeds("bad_npz_")].concat());
    assert_eq!((arrays.len(), archives.len()), (28, 19));
    drive_any("numpy_array", &arrays);
    drive_any("numpy_archive", &archives);
}
