//! Tests that the Keras reader handles arbitrary bytes in HDF5 files and in archives of HDF5 files
//! without a panic.

use crate::drive_any;
use tensorferry_tests::fixtures::cases;

fn seeds(ending: &str) -> Vec<Vec<u8>> {
    let files = cases("keras", "")
        .into_iter()
        .map(|case| case.input())
        .filter(|file| file.to_str().unwrap().ends_with(ending));
    files.map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_files_and_archives() {
    let (files, archives) = (seeds(".h5"), seeds(".keras"));
    assert_eq!((files.len(), archives.len()), (20, 8));
    drive_any("keras_h5", &files);
    drive_any("keras_archive", &archives);
}
