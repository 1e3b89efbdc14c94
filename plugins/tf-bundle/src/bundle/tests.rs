#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::TfBundle;
use crate::slice_key::encode as slice_key;
use crate::testing::{
    BIG_HEADER, BundleBytes, HEADER, Tensor, change, limits, reading, shape, slice, string_bytes, strings,
    table, tensors,
};
use std::collections::BTreeMap;
use tensorferry_proto::wire::put_varint;
use tensorferry_proto::{BundleEntryProto, BundleHeaderProto, DataType, Message, TensorShapeProto};
use tensorferry_sdk::{Catalog, Entry, ErrorKind, Limits, MemoryContext, MemorySource, Result, TensorId};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::random::Random;

type Tensors = BTreeMap<String, Tensor>;

fn read_source(source: &MemorySource, limits: &Limits) -> Result<(Catalog, Tensors)> {
    reading(&TfBundle, source, limits, |view| Ok((view.catalog().clone(), tensors(view)?)))
}

fn read(bundle: &BundleBytes) -> Result<Tensors> {
    read_source(&bundle.source(), &Limits::default()).map(|(_, tensors)| tensors)
}

/// Returns the error from reading a bundle. The error must name the tensor `t`.
fn error_of_t(bundle: &BundleBytes) -> String {
    let error = read(bundle).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    let error = error.to_string();
    assert!(error.contains("tensor \"t\""), "{error}");
    error
}

const FLOAT: DataType = DataType::DtFloat;

#[test]
fn numbers_are_read_from_their_files() {
    let mut bundle = BundleBytes::new(&[&HEADER[..], &[0x08, 2]].concat(), 2);
    let bytes: Vec<u8> = (0..24).collect();
    bundle.entry(b"a", FLOAT, &[2, 3], &bytes, 0);
    bundle.entry(b"b/c", DataType::DtInt4, &[3], &[1, 2, 13], 1);
    bundle.entry(b"empty", FLOAT, &[0, 5], &[], 0);
    bundle.entry(b"scalar", DataType::DtComplex64, &[], &[7; 8], 1);
    let tensors = read(&bundle).unwrap();
    assert_eq!(tensors["a"], ("F32".into(), vec![2, 3], bytes));
    assert_eq!(tensors["b/c"], ("I4_UNPACKED".into(), vec![3], vec![1, 2, 13]));
    assert_eq!(tensors["empty"], ("F32".into(), vec![0, 5], vec![]));
    assert_eq!(tensors["scalar"], ("C64".into(), vec![], vec![7; 8]));
    assert_eq!(tensors.len(), 4);
}

#[test]
fn big_endian_numbers_are_reversed_by_component() {
    let mut bundle = BundleBytes::new(&BIG_HEADER, 2);
    bundle.entry(b"c", DataType::DtComplex64, &[1], &[1, 2, 3, 4, 5, 6, 7, 8], 0);
    bundle.entry(b"i", DataType::DtInt16, &[2], &[1, 2, 3, 4], 1);
    let tensors = read(&bundle).unwrap();
    assert_eq!(tensors["c"].2, [4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(tensors["i"].2, [2, 1, 4, 3]);
}

#[test]
fn strings_are_read_in_both_byte_orders() {
    let long = vec![b'x'; 200_000];
    let texts: [&[u8]; 4] = [b"a", b"", &long, b"\xff\x00"];
    for (header, is_big) in [(&HEADER[..], false), (&BIG_HEADER, true)] {
        let mut bundle = BundleBytes::new(header, if is_big { 2 } else { 1 });
        bundle.strings(b"t", &[2, 2], &texts, is_big, 0);
        bundle.strings(b"none", &[0], &[], is_big, 0);
        bundle.strings(b"one", &[], &[b"hello"], is_big, 0);
        let source = bundle.source();
        let (_, tensors) = read_source(&source, &Limits::default()).unwrap();
        assert_eq!(tensors["t"], ("STR".into(), vec![2, 2], strings(&texts)));
        assert_eq!(tensors["none"], ("STR".into(), vec![0], vec![]));
        let context = MemoryContext::default();
        let index = BundleIndex::read(&source, "b", &context).unwrap();
        assert_eq!(index.string_scalar(&source, b"one", &context).unwrap().unwrap(), b"hello");
        assert_eq!(index.string_scalar(&source, b"two", &context).unwrap(), None);
        assert!(index.string_scalar(&source, b"t", &context).is_err());
    }
}

#[test]
fn damaged_strings_are_found() {
    let (good, crc) = string_bytes(&[b"abc", b"de"], false);
    let damaged = |change: &dyn Fn(&mut Vec<u8>), crc: u32| {
        let (mut bundle, mut bytes) = (BundleBytes::default(), good.clone());
        change(&mut bytes);
        let proto = bundle.bytes(DataType::DtString, &[2], &bytes, crc, 0);
        bundle.insert(b"t", &proto);
        error_of_t(&bundle)
    };
    let cases: [(&dyn Fn(&mut Vec<u8>), u32, &str); 7] = [
        (&|bytes| bytes[0] = 4, crc, "checksum of the string lengths does not match"),
        (&|bytes| bytes[3] ^= 1, crc, "checksum of the string lengths does not match"),
        (&|bytes| bytes[7] ^= 1, crc, "checksum of the strings does not match"),
        (&|_| (), crc ^ 1, "checksum of the strings does not match"),
        (&|bytes| bytes.push(0), crc, "add up"),
        (&|bytes| bytes.truncate(5), crc, "too short"),
        (&|bytes| bytes.fill(0xff), crc, "varint"),
    ];
    for (change, crc, what) in cases {
        let error = damaged(change, crc);
        assert!(error.contains(what), "{error}");
    }
    // These string lengths add up to more than the number of stored bytes.
    for (count, lengths) in [(1 << 40, [1, 1]), (2, [u64::MAX, 1]), (2, [u64::MAX - 10, 20])] {
        let mut bytes = Vec::new();
        lengths.iter().for_each(|len| put_varint(&mut bytes, *len));
        bytes.extend(b"1234ab");
        let mut bundle = BundleBytes::default();
        let proto = bundle.bytes(DataType::DtString, &[count], &bytes, 0, 0);
        bundle.insert(b"t", &proto);
        error_of_t(&bundle);
    }
}

#[test]
fn slices_are_blocks_of_their_tensor() {
    let mut bundle = BundleBytes::default();
    // Three parts of a tensor with the shape [2, 3]: row 0; row 1, column 0; row 1, columns 1 and
    // 2.
    let parts =
        [(slice(&[(0, 1), (0, -1)]), 3), (slice(&[(1, 1), (0, 1)]), 1), (slice(&[(1, 1), (1, 2)]), 2)];
    let all: Vec<_> = parts.iter().map(|(slice, _)| slice.clone()).collect();
    let mut next = 0;
    for (part, elements) in &parts {
        let bytes: Vec<u8> = (next..next + elements * 2).collect();
        next += elements * 2;
        bundle.entry(&slice_key(b"t", part), DataType::DtHalf, &[1, i64::from(*elements)], &bytes, 0);
    }
    // The slices may be in any order.
    bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &[all[2].clone(), all[0].clone(), all[1].clone()]);
    let (catalog, tensors) = read_source(&bundle.source(), &Limits::default()).unwrap();
    assert_eq!(tensors["t"], ("F16".into(), vec![2, 3], (0..12).collect()));
    assert_eq!((tensors.len(), catalog.losses()), (1, &[][..]));

    bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &all[..2]);
    assert!(error_of_t(&bundle).contains("gap"));
    bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &[&all[..], &all[..1]].concat());
    assert!(error_of_t(&bundle).contains("overlap"));
    bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &[slice(&[(0, -1), (0, 2)])]);
    assert!(error_of_t(&bundle).contains("missing from the index (tensor \"t\", found -:0,2)"));
    bundle.sliced(b"t", FLOAT, &[2, 3], &all);
    assert!(error_of_t(&bundle).contains("does not match its tensor"));
    for bad in [
        slice(&[(0, -1)]),
        slice(&[(-1, 1), (0, 3)]),
        slice(&[(0, -2), (0, 3)]),
        slice(&[(1, i64::MAX), (0, 3)]),
    ] {
        bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &[bad]);
        assert!(error_of_t(&bundle).contains("does not fit"));
    }
    bundle.sliced(b"t", DataType::DtHalf, &[2, 3], &all);
    let changes: [(&dyn Fn(&mut BundleEntryProto), &str); 4] = [
        (&|proto| proto.shape = Some(shape(&[3, 1])), "does not match its tensor"),
        (&|proto| proto.slices = vec![slice(&[(0, -1), (0, -1)])], "does not match its tensor"),
        (&|proto| proto.size = 5, "does not match its dtype"),
        (&|proto| proto.offset = 1 << 30, "ends too early"),
    ];
    let key = slice_key(b"t", &all[0]);
    let good = BundleEntryProto::decode(&bundle.entries[&key][..]).unwrap();
    for (change, what) in changes {
        let mut proto = good.clone();
        change(&mut proto);
        bundle.insert(&key, &proto);
        let error = error_of_t(&bundle);
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn sliced_strings_come_in_the_order_of_the_tensor() {
    let mut bundle = BundleBytes::default();
    let left = slice(&[(0, -1), (0, 1)]);
    let right = slice(&[(0, -1), (1, 2)]);
    bundle.strings(&slice_key(b"t", &left), &[2, 1], &[b"a", b"d"], false, 0);
    bundle.strings(&slice_key(b"t", &right), &[2, 2], &[b"bb", b"", b"e", b"f"], false, 0);
    bundle.sliced(b"t", DataType::DtString, &[2, 3], &[right, left.clone()]);
    let tensors = read(&bundle).unwrap();
    assert_eq!(tensors["t"].2, strings(&["a", "bb", "", "d", "e", "f"]));
    bundle.sliced(b"t", DataType::DtString, &[2, 3], &[left]);
    assert!(error_of_t(&bundle).contains("gap"));
}

#[test]
fn what_no_tensor_can_be_is_a_loss() {
    let mut bundle = BundleBytes::default();
    bundle.entry(b"v", DataType::DtVariant, &[], b"abc", 0);
    let newer = BundleEntryProto { dtype: 99, size: 8, ..BundleEntryProto::default() };
    bundle.insert(b"w", &newer);
    bundle.entry(b"t", DataType::DtBool, &[1], &[1], 0);
    bundle.entry(&slice_key(b"gone", &slice(&[(0, 1)])), DataType::DtBool, &[1], &[1], 0);
    let (catalog, tensors) = read_source(&bundle.source(), &Limits::default()).unwrap();
    assert_eq!(tensors.len(), 1);
    let losses: Vec<String> = catalog.losses().iter().map(ToString::to_string).collect();
    assert!(losses[0].starts_with("tensor \"v\": its dtype DT_VARIANT"), "{losses:?}");
    assert!(losses[1].starts_with("tensor \"w\": its dtype 99"), "{losses:?}");
    assert!(losses[2].starts_with("tensor \"gone 0,1\""), "{losses:?}");
}

#[test]
fn entries_at_one_place_are_tied() {
    let mut bundle = BundleBytes::default();
    let proto = bundle.bytes(FLOAT, &[1], &[1, 2, 3, 4], crc32c::crc32c(&[1, 2, 3, 4]), 0);
    bundle.insert(b"a", &proto);
    bundle.insert(b"b", &proto);
    bundle.entry(b"c", FLOAT, &[1], &[1, 2, 3, 4], 0);
    bundle.entry(b"d", FLOAT, &[1], &[1, 2, 3, 5], 0);
    let source = bundle.source();
    let (catalog, _) = read_source(&source, &Limits::default()).unwrap();
    assert_eq!(catalog.ties(), [TensorId(0), TensorId(0), TensorId(2), TensorId(3)]);
    let context = MemoryContext::default();
    let index = BundleIndex::read(&source, "b", &context).unwrap();
    let same = |a: &[u8], b: &[u8]| {
        let find = |key| index.find(key).unwrap();
        index.same_content(&source, find(a), find(b), &context).unwrap()
    };
    assert!(same(b"a", b"b") && same(b"a", b"c") && !same(b"c", b"d"));
}

#[test]
fn entries_fit_their_files() {
    let with = |change: &dyn Fn(&mut BundleEntryProto)| {
        let mut bundle = BundleBytes::default();
        let mut proto = bundle.bytes(FLOAT, &[2], &[0; 8], crc32c::crc32c(&[0; 8]), 0);
        change(&mut proto);
        bundle.insert(b"t", &proto);
        error_of_t(&bundle)
    };
    let unknown = TensorShapeProto { unknown_rank: true, ..TensorShapeProto::default() };
    let cases: [(&dyn Fn(&mut BundleEntryProto), &str); 13] = [
        (&|proto| proto.offset = 4, "(tensor \"t\", offset 4"),
        (&|proto| proto.offset = i64::MAX, "ends too early"),
        (&|proto| proto.offset = -1, "negative"),
        (&|proto| proto.size = -8, "size"),
        (&|proto| proto.size = 4, "expected 8 bytes for F32 of shape [2], found 4"),
        (&|proto| proto.shard_id = 1, "out of range"),
        (&|proto| proto.shard_id = -1, "out of range"),
        (&|proto| proto.shape = Some(shape(&[-1])), "negative"),
        (&|proto| proto.shape = Some(shape(&[1 << 40, 1 << 40])), "64 bits"),
        (&|proto| proto.shape = Some(shape(&[1 << 62])), "64 bits"),
        (&|proto| proto.shape = Some(shape(&[1; 300])), "too many dimensions"),
        (&|proto| proto.shape = Some(unknown.clone()), "rank"),
        (&|proto| proto.dtype = DataType::DtString.into(), "string"),
    ];
    for (change, what) in cases {
        let error = with(change);
        assert!(error.contains(what), "{error}");
    }
    // The shape and the size match, but the file is too short.
    let error = with(&|proto| {
        (proto.shape, proto.size) = (Some(shape(&[1 << 60])), 1 << 62);
    });
    assert!(error.contains("ends too early"), "{error}");
    for no_message in [&b"\xff\xff\xff"[..], b"\x08\x01\x12\x7f"] {
        let mut bundle = BundleBytes::default();
        bundle.entries.insert(b"t".to_vec(), no_message.to_vec());
        error_of_t(&bundle);
    }
}

#[test]
fn data_files_are_there() {
    let mut bundle = BundleBytes::default();
    bundle.entry(b"empty", FLOAT, &[0], &[], 0);
    let mut files = bundle.files("b");
    files.remove("b.data-00000-of-00001");
    let entry = || Entry::Prefix("b".to_owned());
    let empty = MemorySource::new(entry(), files);
    assert_eq!(read_source(&empty, &Limits::default()).unwrap().1.len(), 1);

    bundle.entry(b"t", FLOAT, &[1], &[0; 4], 0);
    let mut files = bundle.files("b");
    let data = files.remove("b.data-00000-of-00001").unwrap();
    let read = |files: &Files| {
        read_source(&MemorySource::new(entry(), files.clone()), &Limits::default()).map_err(|e| e.to_string())
    };
    let error = read(&files).unwrap_err();
    assert!(error.starts_with("b.data-00000-of-00001: ") && error.contains("tensor \"t\""), "{error}");
    // In a merged bundle, the file count in the file names differs from the count in the header.
    files.insert("b.data-00000-of-00003".to_owned(), data.clone());
    assert_eq!(read(&files).unwrap().1["t"].2, [0; 4]);
    files.insert("b.data-00000-of-00004".to_owned(), data);
    assert!(read(&files).is_err());
}

#[test]
fn the_header_is_understood() {
    let with =
        |header: &[u8]| read(&BundleBytes::new(header, 1)).map(drop).map_err(|e| (e.kind(), e.to_string()));
    let header = BundleHeaderProto::decode(&HEADER[..]).unwrap();
    let version = |min_consumer: i32, bad_consumers: &[i32]| {
        let mut header = header.clone();
        let version = header.version.get_or_insert_default();
        (version.min_consumer, version.bad_consumers) = (min_consumer, bad_consumers.to_vec());
        with(&header.encode_to_vec()).map_err(|(kind, _)| kind)
    };
    assert_eq!(with(&HEADER), Ok(()));
    assert_eq!(version(1, &[2]), Ok(()));
    assert_eq!(version(2, &[]), Err(ErrorKind::Unsupported));
    assert_eq!(version(0, &[1]), Err(ErrorKind::Unsupported));
    let byte_order = BundleHeaderProto { endianness: 2, ..header.clone() };
    assert!(with(&byte_order.encode_to_vec()).unwrap_err().1.contains("byte order"));
    assert!(with(&[0xff]).unwrap_err().1.contains("header"));
    let mut without_files = BundleBytes::default();
    let negative = BundleHeaderProto { num_shards: -1, ..header.clone() };
    without_files.entries.insert(Vec::new(), negative.encode_to_vec());
    without_files.entry(b"t", FLOAT, &[1], &[0; 4], 0);
    assert!(error_of_t(&without_files).contains("out of range"));
    let mut headless = BundleBytes::default();
    headless.entries.clear();
    assert!(read(&headless).unwrap_err().to_string().contains("no header"));
    headless.entry(b"t", FLOAT, &[1], &[0; 4], 0);
    assert!(error_of_t(&headless).contains("does not begin with its header"));
}

#[test]
fn keys_are_any_bytes() {
    let mut bundle = BundleBytes::default();
    bundle.entry(b"a\xff", DataType::DtBool, &[1], &[1], 0);
    bundle.entry("größe".as_bytes(), DataType::DtBool, &[1], &[0], 0);
    let tensors = read(&bundle).unwrap();
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["a\\xff", "größe"]);
}

#[test]
fn limits_hold() {
    let mut bundle = BundleBytes::default();
    for index in 0..20 {
        bundle.entry(format!("{index:02}").as_bytes(), DataType::DtBool, &[1], &[1], 0);
    }
    let within =
        |limits: Limits| read_source(&bundle.source(), &limits).map(drop).map_err(|error| error.kind());
    assert_eq!(within(limits(|limits| limits.tensors = 19)), Err(ErrorKind::Limit));
    assert_eq!(within(limits(|limits| limits.header_bytes = 200)), Err(ErrorKind::Limit));
    assert_eq!(within(limits(|limits| limits.tensors = 20)), Ok(()));
}

/// Mutates entries and updates the checksums, so that the table itself remains valid.
#[test]
fn mutations_do_not_panic() {
    let mut bundle = BundleBytes::new(&[&HEADER[..], &[0x08, 2]].concat(), 2);
    bundle.entry(b"a", FLOAT, &[2, 3], &[1; 24], 0);
    bundle.strings(b"s", &[2], &[b"abc", b""], false, 1);
    for row in 0..2 {
        let part = slice(&[(row, 1), (0, -1)]);
        bundle.entry(&slice_key(b"t", &part), FLOAT, &[1, 2], &[3; 8], 1);
    }
    bundle.sliced(b"t", FLOAT, &[2, 2], &[slice(&[(0, 1), (0, -1)]), slice(&[(1, 1), (0, -1)])]);
    assert_eq!(read(&bundle).unwrap().len(), 3);
    let good: Vec<(Vec<u8>, Vec<u8>)> = bundle.entries.clone().into_iter().collect();
    let files = bundle.files("b");
    let mut random = Random::new(1);
    let mut read_well = 0;
    for _ in 0..5_000 {
        let mut entries = good.clone();
        for _ in 0..=random.below(2) {
            let at = random.below(entries.len());
            let (key, value) = &mut entries[at];
            let bytes = if random.below(4) == 0 && !key.is_empty() { key } else { value };
            change(&mut random, bytes);
        }
        entries.sort();
        let mut files = files.clone();
        files.insert("b.index".to_owned(), table(&entries, 3, 0));
        let source = MemorySource::folder(files);
        read_well += usize::from(read_source(&source, &Limits::default()).is_ok());
    }
    // Some mutations have no effect, because readers ignore the position in a sliced tensor's
    // entry.
    assert!((1..2_500).contains(&read_well), "{read_well}");
}
