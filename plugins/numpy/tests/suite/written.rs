//! Checks that the writer creates the same bytes as `np.save`, and that it reports dtypes that
//! numpy does not support.

use crate::common::{array, dict};
use std::io::{Cursor, Read as _};
use tensorferry_numpy::Numpy;
use tensorferry_sdk::{CatalogSink, Dtype, ErrorKind, LossKind, MemorySource};
use tensorferry_test_kit::tensors::{one, with_view, write_file};

#[test]
fn one_tensor_is_the_array_that_numpy_saves() {
    let bytes: Vec<u8> = (0..12).collect();
    let fill = |catalog: &mut dyn CatalogSink| one(catalog, "w", Dtype::I16, &[2, 3], &bytes);
    let output = write_file(&Numpy, fill, &[], "w.npy").unwrap();
    // numpy reserves space for a larger first dimension: 20 spaces between the dict and the
    // padding.
    assert_eq!(output.files["w.npy"], array(&dict("'<i2'", "(2, 3)"), &bytes));
    assert!(output.layout.losses().is_empty());

    let output = write_file(&Numpy, fill, &[("order", "fortran")], "other.npy").unwrap();
    let turned = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11];
    assert_eq!(output.files["other.npy"], array(&dict("'<i2'", "(2, 3)").replace("False", "True"), &turned));
    assert_eq!(output.layout.losses()[0].kind, LossKind::Name);
}

#[test]
fn an_array_file_holds_one_tensor() {
    let several = |catalog: &mut dyn CatalogSink| {
        one(catalog, "a", Dtype::U8, &[1], &[1])?;
        one(catalog, "b", Dtype::U8, &[1], &[1])
    };
    assert_eq!(write_file(&Numpy, several, &[], "x.npy").unwrap_err().kind(), ErrorKind::Usage);
    let half = |catalog: &mut dyn CatalogSink| one(catalog, "a", Dtype::BF16, &[1], &[1, 2]);
    let refused = write_file(&Numpy, half, &[], "x.npy").unwrap_err();
    assert!(refused.to_string().contains("-o ml_dtypes=name"), "{refused}");
}

#[test]
fn an_archive_is_one_that_others_unpack_with_elements_aligned() {
    let output = write_file(
        &Numpy,
        |catalog| {
            one(catalog, "a/b", Dtype::F64, &[3], &[7; 24])?;
            one(catalog, "", Dtype::BOOL, &[], &[1])?;
            one(catalog, "nul\0", Dtype::U8, &[1], &[1])
        },
        &[],
        "m.npz",
    )
    .unwrap();
    let omitted: Vec<&str> = output.layout.losses().iter().map(|loss| &*loss.what).collect();
    assert_eq!(omitted, ["nul\0"]);
    let mut zip = zip::ZipArchive::new(Cursor::new(output.files["m.npz"].clone())).unwrap();
    let mut content = Vec::new();
    let mut member = zip.by_name("a/b.npy").unwrap();
    assert_eq!(member.data_start().unwrap() % 64, 0);
    member.read_to_end(&mut content).unwrap();
    drop(member);
    assert_eq!(content, array(&dict("'<f8'", "(3,)"), &[7; 24]));
    assert!(zip.by_name(".npy").is_ok());
    assert_eq!(zip.len(), 2);
}

#[test]
fn dtypes_of_ml_dtypes_are_left_out_named_or_void() {
    let fill = |catalog: &mut dyn CatalogSink| {
        one(catalog, "half", Dtype::BF16, &[2], &[1, 2, 3, 4])?;
        one(catalog, "eighth", Dtype::F8_E5M2, &[2], &[5, 6])
    };
    let left_out = write_file(&Numpy, fill, &[], "m.npz").unwrap();
    assert_eq!(left_out.layout.omitted().len(), 2);

    let read = |bytes: &[u8], options: &[(&str, &str)]| {
        with_view(&Numpy, &MemorySource::file("m.npz", bytes), options, |view| {
            ["half", "eighth"].map(|name| view.tensor_named(name).unwrap())
        })
        .unwrap()
    };
    let expected =
        [("BF16".to_owned(), vec![2], vec![1, 2, 3, 4]), ("F8_E5M2".to_owned(), vec![2], vec![5, 6])];
    let named = write_file(&Numpy, fill, &[("ml_dtypes", "name")], "m.npz").unwrap();
    assert!(named.layout.losses().is_empty());
    assert_eq!(read(&named.files["m.npz"], &[]), expected);

    let void = write_file(&Numpy, fill, &[("ml_dtypes", "void")], "m.npz").unwrap();
    assert!(void.layout.losses().iter().all(|loss| loss.requested && loss.kind == LossKind::Precision));
    assert_eq!(read(&void.files["m.npz"], &[("v1", "f8_e5m2"), ("v2", "bf16")]), expected);
}

#[test]
fn a_deflated_archive_holds_the_same_arrays() {
    let noise: Vec<u8> = (0..4000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    let fill = |catalog: &mut dyn CatalogSink| {
        one(catalog, "a/b", Dtype::F64, &[100, 100], &[7; 80_000])?;
        one(catalog, "noise", Dtype::U32, &[4000], &noise)?;
        one(catalog, "empty", Dtype::F32, &[0, 3], &[])?;
        one(catalog, "scalar", Dtype::BOOL, &[], &[1])
    };
    let output = write_file(&Numpy, fill, &[("compression", "deflate")], "m.npz").unwrap();
    let archive = &output.files["m.npz"];
    assert!(archive.len() < 20_000, "{}", archive.len());
    assert!(output.layout.losses().is_empty());
    let stored = write_file(&Numpy, fill, &[], "m.npz").unwrap();
    let arrays = |bytes: &[u8]| {
        with_view(&Numpy, &MemorySource::file("m.npz", bytes), &[], |view| {
            ["a/b", "noise", "empty", "scalar"].map(|name| view.tensor_named(name).unwrap())
        })
        .unwrap()
    };
    assert_eq!(arrays(archive), arrays(&stored.files["m.npz"]));
    // Each entry must declare method 8 (deflate), because other programs check the method.
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    for index in 0..zip.len() {
        let (mut entry, mut content) = (zip.by_index(index).unwrap(), Vec::new());
        assert_eq!(entry.compression(), zip::CompressionMethod::Deflated);
        entry.read_to_end(&mut content).unwrap();
    }
    let nothing = write_file(&Numpy, |_| Ok(()), &[("compression", "deflate")], "m.npz").unwrap();
    assert_eq!(nothing.files["m.npz"].len(), 22);
}

#[test]
fn what_is_deflated_is_an_archive_in_order() {
    let fill = |catalog: &mut dyn CatalogSink| one(catalog, "a", Dtype::U8, &[1], &[1]);
    let both = [("compression", "deflate"), ("order", "fortran")];
    assert_eq!(write_file(&Numpy, fill, &both, "m.npz").unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(write_file(&Numpy, fill, &both[..1], "a.npy").unwrap_err().kind(), ErrorKind::Usage);
}
