//! Both formats against the SDK's host in memory: what is written is read, in every order.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_npy::{Npy, Npz};
use std::collections::BTreeMap;
use tensorferry_sdk::memory::{MemoryView, pairs, write};
use tensorferry_sdk::{Entry, ErrorKind, Format, LossKind, MemoryContext, MemorySource, Score, Target};

/// Name to dtype, shape and logical bytes.
type Tensors = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

fn tensors(view: &MemoryView<'_>) -> Tensors {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| (name.clone(), view.tensor_named(&name).unwrap())).collect()
}

/// A `.npy` of this dict, which is padded as numpy pads it.
fn npy(dict: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let len = (dict.len() + 1 + 10).next_multiple_of(64) - 10;
    bytes.extend(u16::try_from(len).unwrap().to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.resize(9 + len, b' ');
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

fn dict(descr: &str, fortran_order: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}")
}

/// An archive of one array for each thing that may go wrong: orders, scalars, nothing at all, and
/// one of `long` elements.
fn archive(compress: &str, long: u32) -> (Vec<u8>, Tensors) {
    let context = MemoryContext::default();
    let arrays = [
        ("<i4", "False", "(2, 3)", (0..6_i32).flat_map(i32::to_le_bytes).collect::<Vec<u8>>()),
        (">i4", "True", "(2, 3)", (0..6_i32).flat_map(i32::to_be_bytes).collect()),
        (">c16", "False", "()", (0..16).collect()),
        ("|b1", "False", "(3,)", vec![1, 0, 1]),
        ("<f8", "True", "(4, 0, 2)", Vec::new()),
        ("|u1", "False", &format!("({long},)"), (0..long).map(|i| i.to_be_bytes()[2]).collect()),
    ];
    // Arrays come one a file, archives from archives: so the first is joined by hand.
    let mut files = BTreeMap::new();
    for (index, (descr, order, shape, data)) in arrays.iter().enumerate() {
        files.insert(format!("t{index}.npy"), npy(&dict(descr, order, shape), data));
    }
    let stored = stored_by_hand(&files);
    let source = MemorySource::file("in.npz", stored);
    let view = MemoryView::read(&Npz, &[], &source, &context).unwrap();
    let expected = tensors(&view);
    let target = Target::File("out.npz".to_owned());
    let mut output = write(&Npz, &pairs(&[("compress", compress)]), &view, &target, &context).unwrap();
    (output.files.remove("out.npz").unwrap(), expected)
}

/// The least that a zip archive needs.
fn stored_by_hand(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in files {
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc32fast::hash(data).to_le_bytes());
        let len = u32::try_from(data.len()).unwrap();
        common.extend(len.to_le_bytes());
        common.extend(len.to_le_bytes());
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        directory.extend(name.as_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
    }
    let offset = u32::try_from(bytes.len()).unwrap();
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

#[test]
fn an_array_of_either_order_has_the_same_logical_bytes() {
    let context = MemoryContext::default();
    let logical: Vec<u8> = (0..6_i16).flat_map(i16::to_le_bytes).collect();
    for order in ["c", "fortran"] {
        for byte_order in ["little", "big"] {
            let source = MemorySource::file("a.npy", npy(&dict("<i2", "False", "(2, 3)"), &logical));
            let view = MemoryView::read(&Npy, &[], &source, &context).unwrap();
            let options = pairs(&[("order", order), ("byte_order", byte_order)]);
            let output = write(&Npy, &options, &view, &Target::File("a.npy".to_owned()), &context).unwrap();
            assert!(output.layout.losses().is_empty());
            let written = &output.files["a.npy"];
            let first_two = match (order, byte_order) {
                ("c", "little") => [0, 0, 1, 0],
                ("c", _) => [0, 0, 0, 1],
                (_, "little") => [0, 0, 3, 0],
                _ => [0, 0, 0, 3],
            };
            assert_eq!(written[written.len() - 12..][..4], first_two, "{order} {byte_order}");
            let source = MemorySource::file("a.npy", written.clone());
            let back = MemoryView::read(&Npy, &[], &source, &context).unwrap();
            assert_eq!(back.tensor_named("a").unwrap(), ("I16".to_owned(), vec![2, 3], logical.clone()));
        }
    }
}

#[test]
fn archives_come_back_stored_and_deflated() {
    let context = MemoryContext::default();
    for compress in ["stored", "deflate"] {
        let (bytes, expected) = archive(compress, 300_000);
        assert_eq!(expected.len(), 6);
        assert_eq!(expected["t1"].2, [0, 2, 4, 1, 3, 5].map(i32::to_le_bytes).concat());
        let source = MemorySource::file("out.npz", bytes);
        assert_eq!(Npz.probe(&source, &context).unwrap(), Some(Score::CERTAIN));
        let view = MemoryView::read(&Npz, &[], &source, &context).unwrap();
        assert_eq!(tensors(&view), expected, "{compress}");
    }
}

#[test]
fn damage_is_a_typed_error_and_never_another_tensor() {
    let context = MemoryContext::default();
    for compress in ["stored", "deflate"] {
        let (bytes, expected) = archive(compress, 1000);
        let read = |bytes: &[u8]| -> tensorferry_sdk::Result<Tensors> {
            let source = MemorySource::file("out.npz", bytes);
            let view = MemoryView::read(&Npz, &[], &source, &context)?;
            let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
            names.map(|name| Ok((name.clone(), view.tensor_named(&name)?))).collect()
        };
        for place in 0..bytes.len() {
            assert!(read(&bytes[..place]).is_err(), "{compress}: cut at {place}");
            let mut flipped = bytes.clone();
            flipped[place] ^= 0x10;
            if let Ok(found) = read(&flipped) {
                // Names, shapes and header fields are covered by the CRC of deflated members only;
                // the elements of one that is still there always are.
                for (name, (dtype, shape, data)) in &found {
                    if let Some((d, s, expected)) = expected.get(name) {
                        assert!((dtype, shape) != (d, s) || data == expected, "{compress}: {place} {name}");
                    }
                }
            }
        }
    }
}

#[test]
fn members_that_share_bytes_are_refused() {
    let context = MemoryContext::default();
    let data = npy(&dict("|u1", "False", "(2,)"), &[1, 2]);
    let files = BTreeMap::from([("a.npy".to_owned(), data.clone()), ("b.npy".to_owned(), data)]);
    let mut bytes = stored_by_hand(&files);
    // The second record points at the first member, under its name.
    let second = bytes.len() - 22 - 51;
    bytes[second + 42..second + 46].copy_from_slice(&[0; 4]);
    bytes[second + 46] = b'a';
    let source = MemorySource::file("x.npz", bytes);
    let error = MemoryView::read(&Npz, &[], &source, &context).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
}

#[test]
fn what_numpy_cannot_hold_is_said() {
    let context = MemoryContext::default();
    let objects = npy(&dict("|O", "False", "(2,)"), b"pickle");
    let good = npy(&dict("|u1", "False", "(2,)"), &[1, 2]);
    let source = MemorySource::file("a.npy", objects.clone());
    let error = MemoryView::read(&Npy, &[], &source, &context).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    let files = BTreeMap::from([
        ("o.npy".to_owned(), objects),
        ("g.npy".to_owned(), good),
        ("readme.txt".to_owned(), b"hello".to_vec()),
    ]);
    let source = MemorySource::file("a.npz", stored_by_hand(&files));
    let view = MemoryView::read(&Npz, &[], &source, &context).unwrap();
    assert_eq!(tensors(&view).len(), 1);
    let losses: Vec<_> = view.catalog().losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(losses, [(LossKind::Tensor, "o"), (LossKind::Sidecar, "readme.txt")]);
}

#[test]
fn an_array_file_takes_one_tensor() {
    let context = MemoryContext::default();
    let (bytes, _) = archive("stored", 10);
    let source = MemorySource::file("in.npz", bytes);
    let view = MemoryView::read(&Npz, &[], &source, &context).unwrap();
    let error = write(&Npy, &[], &view, &Target::File("a.npy".to_owned()), &context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.message().contains(".npz"), "{error}");
    let folder = MemorySource::new(Entry::Folder, BTreeMap::new());
    assert!(MemoryView::read(&Npy, &[], &folder, &context).is_err());
}
