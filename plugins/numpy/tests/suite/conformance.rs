//! Runs the SDK's conformance suite on this format.

use crate::common::{array, dict};
use std::io::{Cursor, Write as _};
use tensorferry_numpy::Numpy;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_sdk::{Dtype, Storage};
use tensorferry_test_kit::tensors::write_file;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Returns an archive of these members. Programs other than numpy may write such archives.
fn archive(members: &[(&str, CompressionMethod, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, method, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(*method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn numpy_conforms() {
    let numbers = array(&dict("'>i2'", "(2, 3)"), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let fortran = array(&dict("'<f4'", "(2, 2)").replace("False", "True"), &[7; 16]);
    let strings = array(&dict("'|S2'", "(2,)"), b"a\0bc");
    let packed = archive(&[
        ("w.npy", CompressionMethod::Stored, numbers.clone()),
        ("z/s.npy", CompressionMethod::Deflated, strings),
        ("note.txt", CompressionMethod::Stored, b"note".to_vec()),
    ]);
    let own = write_file(
        &Numpy,
        |catalog| {
            let storage = catalog.storage(Storage::inline([5; 24]))?;
            catalog.tensor("a", Dtype::F32, &[2, 3], storage, 0)?;
            catalog.tensor("b", Dtype::U8, &[], storage, 3).map(drop)
        },
        &[],
        "own.npz",
    );
    let samples = [
        Sample::file("w.npy", numbers).holding(&["w"]),
        Sample::file("f.npy", fortran).holding(&["f"]),
        Sample::file("packed.npz", packed).holding(&["w", "z/s"]),
        Sample::file("own.npz", own.unwrap().files.remove("own.npz").unwrap()).holding(&["a", "b"]),
    ];
    let report = check(&Numpy, &samples);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
