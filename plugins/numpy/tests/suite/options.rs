//! What a user may ask the reader for: bytes that numpy does not name, fields of structured arrays.

use crate::common::{array, dict, with_view};
use tensorferry_sdk::{ErrorKind, MemorySource};

fn read(
    bytes: Vec<u8>,
    options: &[(&str, &str)],
    name: &str,
) -> Result<(String, Vec<u64>, Vec<u8>), tensorferry_sdk::Error> {
    with_view(&MemorySource::file("a.npy", bytes), options, |view| view.tensor_named(name))?
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
    // Bytes of an element stay together where the order of the elements changes.
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
fn fields_of_columns_are_turned() {
    let elements: Vec<u8> = (0..6).flat_map(|n| [n, 10 + n]).collect();
    let rows = array(&dict("[('a', '|u1'), ('b', '|i1')]", "(2, 3)").replace("False", "True"), &elements);
    let b = read(rows, &[("structured", "fields")], "a.b").unwrap();
    assert_eq!(b, ("I8".to_owned(), vec![2, 3], vec![10, 12, 14, 11, 13, 15]));
}
