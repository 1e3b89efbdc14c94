#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use tensorferry_proto::{DataType, Message as _, TensorProto};
use tensorferry_sdk::{Dtype, FileId, Limits, MemorySource};

/// Returns the logical bytes of a message, read from memory and from a file.
fn logical(message: &[u8], dtype: Dtype, elements: u64) -> Result<Vec<u8>> {
    let source = MemorySource::file("x.pb", message);
    let from = |mut wire: Wire<'_>| {
        let whole = wire.whole();
        let values = Values::find(&mut wire, &whole, dtype, elements)?;
        let mut bytes = Vec::new();
        values.write(&mut wire, &mut bytes, &Limits::default())?;
        assert_eq!(bytes.len() as u64, values.len());
        if let Some(range) = values.stored_range() {
            assert_eq!(wire.bytes(range, u64::MAX)?, bytes);
        }
        if let Some(element) = values.constant(&mut wire, &Limits::default())? {
            assert_eq!(element.repeat(usize::try_from(elements).unwrap()), bytes);
        }
        Ok(bytes)
    };
    let memory = from(Wire::of_memory(message, "x.pb"));
    let file = from(Wire::of_file(&source, FileId(0)));
    assert_eq!(memory.as_ref().ok(), file.as_ref().ok());
    file
}

fn of(proto: &TensorProto, data_type: DataType, elements: u64) -> Result<Vec<u8>> {
    logical(&proto.encode_to_vec(), crate::dtype::of_number(data_type.into()).unwrap(), elements)
}

fn ints(values: &[i32]) -> TensorProto {
    TensorProto { int_val: values.to_vec(), ..TensorProto::default() }
}

#[test]
fn integers_take_their_low_bytes() {
    use DataType::{
        DtInt2, DtInt4, DtInt8, DtInt16, DtInt32, DtQint16, DtQuint8, DtUint4, DtUint8, DtUint16,
    };
    let proto = ints(&[-3, 1]);
    assert_eq!(of(&proto, DtInt8, 2).unwrap(), [0xfd, 1]);
    assert_eq!(of(&proto, DtQuint8, 2).unwrap(), [0xfd, 1]);
    assert_eq!(of(&proto, DtInt16, 2).unwrap(), [0xfd, 0xff, 1, 0]);
    assert_eq!(of(&proto, DtQint16, 2).unwrap(), [0xfd, 0xff, 1, 0]);
    assert_eq!(of(&proto, DtInt32, 2).unwrap(), [0xfd, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    assert_eq!(of(&proto, DtInt4, 2).unwrap(), [0x0d, 1]);
    assert_eq!(of(&proto, DtUint4, 2).unwrap(), [0x0d, 1]);
    assert_eq!(of(&proto, DtInt2, 2).unwrap(), [1, 1]);
    assert_eq!(of(&ints(&[300, 255]), DtUint8, 2).unwrap(), [0x2c, 0xff]);
    assert_eq!(of(&ints(&[65535]), DtUint16, 1).unwrap(), [0xff, 0xff]);
}

#[test]
fn each_dtype_has_its_list() {
    let proto = TensorProto {
        half_val: vec![0x3f80, 0x4000],
        float_val: vec![1.0, -2.0],
        double_val: vec![1.0, 2.0],
        scomplex_val: vec![1.0, 2.0, 3.0, 4.0],
        dcomplex_val: vec![1.0, 2.0],
        int64_val: vec![-1],
        bool_val: vec![true, false],
        uint32_val: vec![7],
        uint64_val: vec![u64::MAX],
        float8_val: vec![1, 2],
        ..TensorProto::default()
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let doubles = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    assert_eq!(of(&proto, DataType::DtBfloat16, 2).unwrap(), [0x80, 0x3f, 0, 0x40]);
    assert_eq!(of(&proto, DataType::DtHalf, 2).unwrap(), [0x80, 0x3f, 0, 0x40]);
    assert_eq!(of(&proto, DataType::DtFloat, 2).unwrap(), floats(&[1.0, -2.0]));
    assert_eq!(of(&proto, DataType::DtDouble, 2).unwrap(), doubles(&[1.0, 2.0]));
    assert_eq!(of(&proto, DataType::DtComplex64, 2).unwrap(), floats(&[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(of(&proto, DataType::DtComplex128, 1).unwrap(), doubles(&[1.0, 2.0]));
    assert_eq!(of(&proto, DataType::DtInt64, 1).unwrap(), [0xff; 8]);
    assert_eq!(of(&proto, DataType::DtBool, 2).unwrap(), [1, 0]);
    assert_eq!(of(&proto, DataType::DtUint32, 1).unwrap(), [7, 0, 0, 0]);
    assert_eq!(of(&proto, DataType::DtUint64, 1).unwrap(), [0xff; 8]);
    assert_eq!(of(&proto, DataType::DtFloat8E5m2, 2).unwrap(), [1, 2]);
    assert_eq!(of(&proto, DataType::DtFloat4E2m1fn, 2).unwrap(), [1, 2]);
}

#[test]
fn the_last_value_is_repeated() {
    let proto = TensorProto { scomplex_val: vec![1.0, 2.0], ..TensorProto::default() };
    let pair = [1_f32.to_le_bytes(), 2_f32.to_le_bytes()].concat();
    assert_eq!(of(&proto, DataType::DtComplex64, 3).unwrap(), pair.repeat(3));
    assert_eq!(of(&ints(&[5, 6]), DataType::DtInt8, 5).unwrap(), [5, 6, 6, 6, 6]);
    assert_eq!(of(&ints(&[]), DataType::DtInt16, 2).unwrap(), [0; 4]);
    let many = of(&ints(&[1, 2]), DataType::DtInt32, 100_000).unwrap();
    assert_eq!((many.len(), many[4], many[399_996]), (400_000, 2, 2));
    let strings = TensorProto { string_val: vec![b"a".to_vec(), b"bc".to_vec()], ..TensorProto::default() };
    let expected = [&[1, 0, 0, 0, 0, 0, 0, 0, b'a'][..], &b"\x02\0\0\0\0\0\0\0bc".repeat(2)].concat();
    assert_eq!(of(&strings, DataType::DtString, 3).unwrap(), expected);
    assert_eq!(of(&ints(&[]), DataType::DtString, 2).unwrap(), [0; 16]);
}

#[test]
fn a_content_goes_before_a_list() {
    let content = |bytes: &[u8]| TensorProto { tensor_content: bytes.to_vec(), ..ints(&[9]) };
    assert_eq!(of(&content(&[1, 2]), DataType::DtInt8, 2).unwrap(), [1, 2]);
    assert!(of(&content(&[1, 2, 3]), DataType::DtInt8, 2).is_err());
    let strings = content(b"\x01\x00\x02abc");
    let expected = b"\x01\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0bc";
    assert_eq!(of(&strings, DataType::DtString, 3).unwrap(), expected);
    for wrong in [
        &b"\x01\x00\x02ab"[..],
        b"\x01\x00\x02abcd",
        b"\x01",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01",
    ] {
        assert!(of(&content(wrong), DataType::DtString, 3).is_err());
    }
    let long = vec![b'x'; 100_000];
    let bytes = [&[0xa0, 0x8d, 0x06][..], &long].concat();
    let expected = [&100_000_u64.to_le_bytes()[..], &long].concat();
    assert_eq!(of(&content(&bytes), DataType::DtString, 1).unwrap(), expected);
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let odd = TensorProto { scomplex_val: vec![1.0, 2.0, 3.0], ..TensorProto::default() };
    assert!(of(&odd, DataType::DtComplex64, 2).unwrap_err().message().contains("inside an element"));
    assert!(of(&ints(&[1, 2]), DataType::DtInt8, 1).unwrap_err().message().contains("more values"));
    assert!(of(&ints(&[1]), DataType::DtInt64, u64::MAX).is_err());
    assert!(of(&ints(&[1]), DataType::DtString, u64::MAX).is_err());
    // An `int_val` stored as eight bytes, and one whose last packed varint is not terminated.
    assert!(logical(&[0x39, 1, 0, 0, 0, 0, 0, 0, 0], Dtype::I32, 1).is_err());
    assert!(logical(&[0x3a, 2, 1, 0x80], Dtype::I32, 2).is_err());
    assert!(logical(&[[0x3a, 11].as_slice(), &[0xff; 10], &[1]].concat(), Dtype::I32, 2).is_err());
}

#[test]
fn packed_and_single_values_mix() {
    assert_eq!(logical(&[0x38, 5, 0x3a, 2, 6, 7, 0x38, 8], Dtype::U8, 5).unwrap(), [5, 6, 7, 8, 8]);
    let floats = [&[0x2d][..], &1_f32.to_le_bytes(), &[0x2a, 4], &2_f32.to_le_bytes()].concat();
    assert_eq!(logical(&floats, Dtype::F32, 2).unwrap(), [1_f32.to_le_bytes(), 2_f32.to_le_bytes()].concat());
    // A field of type `bytes` is not a list, so only its last occurrence is used.
    assert_eq!(logical(&[0x92, 1, 1, 9, 0x92, 1, 2, 1, 2], Dtype::F8_E4M3, 2).unwrap(), [1, 2]);
}

#[test]
fn shapes_are_read_and_checked() {
    let header = |bytes: &[u8]| {
        let mut wire = Wire::of_memory(bytes, "x.pb");
        let whole = wire.whole();
        Header::read(&mut wire, &whole)
    };
    let good = header(&[0x08, 1, 0x12, 6, 0x12, 2, 0x08, 3, 0x12, 0]).unwrap();
    assert_eq!(good, Header { dtype: 1, shape: vec![3, 0] });
    let negative = [0x12, 13, 0x12, 11, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert!(header(&negative).unwrap_err().message().contains("negative"));
    assert!(header(&[0x12, 2, 0x18, 1]).unwrap_err().message().contains("no shape"));
    assert!(header(&[0x0a, 0]).unwrap_err().message().contains("does not allow"));
    let many = [&[0x12, 0xfe, 0x03][..], &[0x12, 0].repeat(255)].concat();
    assert!(header(&many).unwrap_err().message().contains("too many dimensions"));
}

#[test]
fn no_values_make_it_panic() {
    let proto = TensorProto {
        int_val: vec![-1, 300],
        string_val: vec![b"abc".to_vec()],
        float_val: vec![1.0],
        ..TensorProto::default()
    };
    let bytes = proto.encode_to_vec();
    for place in 0..bytes.len() {
        for byte in 0..=255 {
            let mut changed = bytes.clone();
            changed[place] = byte;
            for dtype in [Dtype::I8, Dtype::STR, Dtype::F32, Dtype::C64, Dtype::F8_E4M3] {
                drop(logical(&changed, dtype, 3));
            }
        }
    }
}
