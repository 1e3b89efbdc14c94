//! Tests hand-built documents, each of which violates one rule.

use tensorferry_flax::Flax;
use tensorferry_sdk::{ErrorKind, Format, MemoryContext, MemorySource, Result, Score};
use tensorferry_test_kit::tensors::with_view;

fn read(bytes: &[u8]) -> Result<usize> {
    with_view(&Flax, &MemorySource::file("x.msgpack", bytes), &[], |view| view.catalog().tensors().len())
}

/// Returns a msgpack extension with this type and payload.
fn extension(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[0xc7, u8::try_from(payload.len()).unwrap(), kind], payload].concat()
}

fn entry(value: &[u8]) -> Vec<u8> {
    [b"\x81\xa1a", value].concat()
}

#[test]
fn an_array_in_a_file_of_the_formats_name_is_certain() {
    let array = entry(&extension(1, b"\x93\x91\x02\xa4int8\xc4\x02ab"));
    let score = |name: &str, bytes: &[u8]| {
        Flax.probe(&MemorySource::file(name, bytes), &MemoryContext::default()).unwrap()
    };
    assert_eq!(score("x.msgpack", &array), Some(Score::CERTAIN));
    assert_eq!(score("x", &array), Some(Score::LIKELY));
    assert_eq!(score("x.msgpack", &entry(b"\xc0")), Some(Score::MAYBE));
    assert_eq!(score("x", &entry(b"\xc0")), Some(Score::NO));
}

#[test]
fn each_rule_is_held() {
    let array = |payload: &[u8]| entry(&extension(1, payload));
    assert_eq!(read(&array(b"\x93\x91\x02\xa4int8\xc4\x02ab")).unwrap(), 1);
    let cases: [(&str, Vec<u8>, ErrorKind); 18] = [
        ("invalid first byte", entry(b"\xc1"), ErrorKind::Malformed),
        ("duplicate keys", b"\x82\xa1a\xc0\xa1a\xc0".to_vec(), ErrorKind::Malformed),
        ("neither a string nor an integer", b"\x81\xc4\x01a\xc0".to_vec(), ErrorKind::Malformed),
        ("not UTF-8", b"\x81\xa1\xff\xc0".to_vec(), ErrorKind::Malformed),
        ("past the end of the file", entry(b"\xdd\xff\xff\xff\xff"), ErrorKind::Malformed),
        ("past the end of the file", entry(b"\xdb\x7f\xff\xff\xff"), ErrorKind::Malformed),
        ("past the end of the file", entry(b"\xc9\xff\xff\xff\xff\x01"), ErrorKind::Malformed),
        ("payload is not a list of three", array(b"\x92\x91\x02\xa4int8"), ErrorKind::Malformed),
        ("dimension is not a whole number", array(b"\x93\x91\xff\xa4int8\xc4\x01a"), ErrorKind::Malformed),
        ("dimension is not a whole number", array(b"\x93\x91\xa11\xa4int8\xc4\x01a"), ErrorKind::Malformed),
        ("elements are not bytes", array(b"\x93\x91\x01\xa4int8\xa1a"), ErrorKind::Malformed),
        ("end at different offsets", array(b"\x93\x91\x01\xa4int8\xc4\x01aa"), ErrorKind::Malformed),
        ("disagree", array(b"\x93\x91\x03\xa4int8\xc4\x02ab"), ErrorKind::Malformed),
        ("unknown dtype", array(b"\x93\x91\x01\xa4str8\xc4\x01a"), ErrorKind::Unsupported),
        ("too many dimensions", array(b"\x93\xdc\x00\x41\xa4int8"), ErrorKind::Malformed),
        ("not two floats", entry(&extension(2, b"\x92\x01\x02")), ErrorKind::Malformed),
        ("the end of the file", b"\x81".to_vec(), ErrorKind::Malformed),
        ("past the end of the file", Vec::new(), ErrorKind::Malformed),
    ];
    for (words, bytes, kind) in cases {
        let error = read(&bytes).map(|_| format!("{} was read", bytes.escape_ascii())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let reported = error.to_string();
        assert!(reported.contains(words) && reported.contains("x.msgpack"), "{words}: {reported}");
    }
}

#[test]
fn chunks_are_joined_in_the_order_of_their_numbers() {
    let part = |key: &str, byte: u8| {
        let key = [&[0xa0 + u8::try_from(key.len()).unwrap()], key.as_bytes()].concat();
        [key, extension(1, &[b"\x93\x91\x01\xa5uint8\xc4\x01", &[byte][..]].concat())].concat()
    };
    let document = |dim: u8, parts: &[Vec<u8>]| {
        let mut bytes = b"\x83\xb9__msgpack_chunked_array__\xc3\xa5shape\x81\xa10".to_vec();
        bytes.extend([dim]);
        bytes.extend(b"\xa6chunks");
        bytes.extend([0x80 + u8::try_from(parts.len()).unwrap()]);
        bytes.extend(parts.concat());
        bytes
    };
    let parts: Vec<Vec<u8>> = [10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9]
        .iter()
        .map(|&number: &u8| part(&number.to_string(), number))
        .collect();
    let whole = with_view(&Flax, &MemorySource::file("x.msgpack", document(11, &parts)), &[], |view| {
        view.tensor_named("").unwrap()
    });
    assert_eq!(whole.unwrap(), ("U8".to_owned(), vec![11], (0..11).collect()));
    for wrong in [
        document(12, &parts),
        document(10, &[&parts[..1], &parts[2..]].concat()),
        document(1, &[]),
        document(2, &[part("0", 0), part("01", 1)]),
    ] {
        assert_eq!(read(&wrong).unwrap_err().kind(), ErrorKind::Malformed);
    }
    // Flax does not join chunks inside a list.
    let in_list = [b"\x91".to_vec(), document(1, &[part("0", 7)])].concat();
    let names = with_view(&Flax, &MemorySource::file("x.msgpack", in_list), &[], |view| {
        view.catalog().tensors()[0].name.clone()
    });
    assert_eq!(names.unwrap(), "0.chunks.0");
}

#[test]
fn every_cut_and_every_flip_is_an_error_or_a_read() {
    let array = extension(1, b"\x93\x92\x02\x01\xa4int8\xc4\x02ab");
    let bytes = [b"\x82\xa1a".to_vec(), array, b"\xa1b\x92\xc0\xcb\x00\x00\x00\x00\x00\x00\x00\x00".to_vec()]
        .concat();
    assert_eq!(read(&bytes).unwrap(), 1);
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len}");
    }
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let _ = read(&flipped);
    }
}

#[test]
fn a_file_whose_arrays_are_elsewhere_is_refused() {
    for text in ["PLACEHOLDER://a.w", "AGGREGATED://a.w", "//GDAPlaceholder:a.w", "//ArrayPlaceholder:a.w"] {
        let len = u8::try_from(text.len()).unwrap();
        let bytes = [b"\x82\xa1a\x01\xa1w\xd9", &[len][..], text.as_bytes()].concat();
        let error = read(&bytes).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Usage && format!("{error:?}").contains("pass the folder"),
            "{error}"
        );
    }
}
