//! Tests the reader's options for untyped elements and for fields of structured arrays.

use crate::common::{array, dict};
use tensorferry_numpy::Numpy;
use tensorferry_sdk::{ErrorKind, MemorySource};
use tensorferry_test_kit::tensors::with_view;

fn read(
    bytes: Vec<u8>,
    options: &[(&str, &str)],
    name: &str,
) -> Result<(String, Vec<u64>, Vec<u8>), tensorferry_sdk::Error> {
    with_view(&Numpy, &MemorySource::file("a.npy", bytes), options, |view| view.tensor_named(name))?
}

#[test]
fn unnamed_bytes_are_what_the_user_says() {
    let two = || array(&dict("'<V2'", "(3,)"), &[1, 2, 3, 4, 5, 6]);
    let refused = read(two(), &[], "a").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("-i v2=bf16"), "{refused}");
    let data = || vec![1, 2, 3, 4, 5, 6];
    assert_eq!(read(two(), &[("v2", "bf16")], "a").unwrap(), ("BF16".to_owned(), vec![3], data()));
    assert_eq!(read(two(), &[("void", "bytes")], "a").unwrap(), ("U8".to_owned(), vec![3, 2], data()));
    let one = array(&dict("'|V1'", "(2, 3)").replace("False", "True"), &[1, 2, 3, 4, 5, 6]);
    let turned = ("F8_E5M2".to_owned(), vec![2, 3], vec![1, 3, 5, 2, 4, 6]);
    assert_eq!(read(one, &[("v1", "f8_e5m2")], "a").unwrap(), turned);
    // Conversion from column-major to row-major order moves whole elements, and keeps the bytes of
    // each element together.
    let three =
        array(&dict("'|V3'", "(2, 2)").replace("False", "True"), &[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
    let bytes = read(three, &[("void", "bytes")], "a").unwrap();
    assert_eq!(bytes, ("U8".to_owned(), vec![2, 2, 3], vec![1, 1, 1, 3, 3, 3, 2, 2, 2, 4, 4, 4]));
}

#[test]
fn fields_become_tensors() {
    let descr = "[('id', '>i2'), ('', '|V1'), ('w', [('x', '|u1', (2,)), ('s', '|S2')])]";
    let row = |n: u8| [0, n, 9, n + 1, n + 2, b'a', if n > 1 { b'b' } else { 0 }];
    let rows = || array(&dict(descr, "(2,)"), &[row(1), row(5)].concat());
    let refused = read(rows(), &[], "a").unwrap_err();
    assert!(refused.to_string().contains("-i structured=fields"), "{refused}");
    let field = |name: &str| read(rows(), &[("structured", "fields")], name).unwrap();
    assert_eq!(field("a.id"), ("I16".to_owned(), vec![2], vec![1, 0, 5, 0]));
    assert_eq!(field("a.w.x"), ("U8".to_owned(), vec![2, 2], vec![2, 3, 6, 7]));
    let strings = [&1_u64.to_le_bytes()[..], b"a", &2_u64.to_le_bytes(), b"ab"].concat();
    assert_eq!(field("a.w.s"), ("STR".to_owned(), vec![2], strings));
}

#[test]
fn a_field_without_a_name_is_padding_only_if_it_has_no_type() {
    let descr =
        "[('', '<i2'), ('', '|V1'), ('', '|V1', (2,)), ('s', ('|u1', (2,)), (2,)), ('', [('p', '|i1')])]";
    let row = |n: u8| [n, 0, 9, 9, 9, n, n + 1, n + 2, n + 3, n + 4];
    let rows = || array(&dict(descr, "(2,)"), &[row(1), row(5)].concat());
    let field = |name: &str| read(rows(), &[("structured", "fields")], name).unwrap();
    assert_eq!(field("a."), ("I16".to_owned(), vec![2], vec![1, 0, 5, 0]));
    assert_eq!(field("a.s"), ("U8".to_owned(), vec![2, 2, 2], vec![1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(field("a..p"), ("I8".to_owned(), vec![2], vec![5, 9]));
    let names =
        with_view(&Numpy, &MemorySource::file("a.npy", rows()), &[("structured", "fields")], |view| {
            view.catalog().tensors().len()
        });
    assert_eq!(names.unwrap(), 3);
    // The joined names of the two fields are the same.
    let twice = "[('x.y', '|u1'), ('x', [('y', '|u1')])]";
    let twice = || array(&dict(twice, "(1,)"), &[3, 4]);
    for (name, value) in [("a.x.y", 3), ("a.x.y#2", 4)] {
        let field = read(twice(), &[("structured", "fields")], name).unwrap();
        assert_eq!(field, ("U8".to_owned(), vec![1], vec![value]));
    }
}

#[test]
fn arrays_of_one_file_are_numbered() {
    let first = array(&dict("'|u1'", "(2,)"), &[1, 2]);
    let second = array(&dict("'<i2'", "()"), &[3, 0]);
    let seen = |bytes: Vec<u8>| {
        with_view(&Numpy, &MemorySource::file("a.npy", bytes), &[], |view| {
            let tensors = view.catalog().tensors().iter();
            let tensors: Vec<_> =
                tensors.map(|t| (t.name.clone(), view.tensor_named(&t.name).unwrap().2)).collect();
            (tensors, view.catalog().losses().iter().map(|loss| loss.why.clone()).collect::<Vec<_>>())
        })
    };
    let (tensors, losses) = seen([&first[..], &second, &first].concat()).unwrap();
    let tensors: Vec<_> = tensors.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    assert_eq!(tensors, [("a.0", &[1, 2][..]), ("a.1", &[3, 0]), ("a.2", &[1, 2])]);
    assert_eq!(losses, [""; 0]);
    let (tensors, losses) = seen([&first[..], b"more"].concat()).unwrap();
    assert_eq!((&*tensors[0].0, losses.len()), ("a", 1));
    assert!(losses[0].contains("4 bytes follow") && !losses[0].contains("numpy.load"), "{losses:?}");
    let cut = seen([&first[..], &second[..second.len() - 1]].concat()).unwrap_err().to_string();
    assert!(cut.contains("array 1") && cut.contains("incomplete"), "{cut}");
}

#[test]
fn fields_of_columns_are_turned() {
    let elements: Vec<u8> = (0..6).flat_map(|n| [n, 10 + n]).collect();
    let rows = array(&dict("[('a', '|u1'), ('b', '|i1')]", "(2, 3)").replace("False", "True"), &elements);
    let b = read(rows, &[("structured", "fields")], "a.b").unwrap();
    assert_eq!(b, ("I8".to_owned(), vec![2, 3], vec![10, 12, 14, 11, 13, 15]));
}
