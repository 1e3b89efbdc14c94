//! Reads valid files in forms that h5py and most other programs never write.

use crate::h5::{FIXED, H5, LAYOUT, LINK, SPACE, TYPE, U8, UNDEFINED_ADDRESS, VARIABLE, link};
use hdf5_reader::checksum::jenkins_lookup3;
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{MemoryView, pairs};
use tensorferry_sdk::{LossKind, MemoryContext, MemorySource};

fn with_view<T>(file: Vec<u8>, check: impl FnOnce(&MemoryView<'_>) -> T) -> T {
    let (source, context) = (MemorySource::file("m.h5", file), MemoryContext::default());
    check(&MemoryView::read(&Keras, &pairs(&[]), &source, &context).unwrap())
}

/// Returns the bytes of the dataset `w`.
fn elements(file: Vec<u8>) -> Vec<u8> {
    with_view(file, |view| view.tensor_named("w").unwrap().2)
}

/// Builds a file whose root contains the dataset `w`.
fn file_of(mut file: H5, dataset: u64) -> Vec<u8> {
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Builds a dataspace message of version 2 that contains maximum dimensions.
fn space(dims: &[u64], max: &[u64]) -> Vec<u8> {
    let numbers = dims.iter().chain(max).flat_map(|number| number.to_le_bytes());
    [2, u8::try_from(dims.len()).unwrap(), 1, 1].into_iter().chain(numbers).collect()
}

#[test]
fn layouts_of_files_before_1_6_3() {
    let dims = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    for version in [1, 2] {
        let mut file = H5::new();
        let at = file.put(&[7, 8, 9]).to_le_bytes();
        let layout = [&[version, 1, 1, 0, 0, 0, 0, 0], &at[..], &dims(&[3])].concat();
        let dataset = file.dataset(U8, 3, layout);
        assert_eq!(elements(file_of(file, dataset)), [7, 8, 9], "contiguous, version {version}");

        let mut file = H5::new();
        let layout = [&[version, 1, 0, 0, 0, 0, 0, 0][..], &dims(&[3, 3]), &[7, 8, 9]].concat();
        let dataset = file.dataset(U8, 3, layout);
        assert_eq!(elements(file_of(file, dataset)), [7, 8, 9], "compact, version {version}");

        let mut file = H5::new();
        let chunk = file.put(&[7, 8, 9, 0]).to_le_bytes();
        let key = |offset: u64| [&4_u32.to_le_bytes()[..], &[0; 4], &offset.to_le_bytes(), &[0; 8]].concat();
        let node =
            [b"TREE\x01\0\x01\0", &UNDEFINED_ADDRESS[..], &UNDEFINED_ADDRESS, &key(0), &chunk, &key(4)]
                .concat();
        let tree = file.put(&node).to_le_bytes();
        let layout = [&[version, 2, 2, 0, 0, 0, 0, 0], &tree[..], &dims(&[4, 1])].concat();
        let dataset = file.dataset(U8, 3, layout);
        assert_eq!(elements(file_of(file, dataset)), [7, 8, 9], "chunked, version {version}");
    }
}

/// Builds a dataset of shape 2 x 2 that can grow to 2 x 3. Each of its chunks contains one element.
fn growing(file: &mut H5, index: u8, parameters: &[u8], address: u64) -> u64 {
    let chunk = [&[4, 2, 0, 3, 1, 1, 1, 1, index][..], parameters, &address.to_le_bytes()].concat();
    file.object(&vec![(SPACE, space(&[2, 2], &[2, 3])), (TYPE, U8.to_vec()), (LAYOUT, chunk)])
}

#[test]
fn chunks_are_numbered_by_the_grid_of_the_maximum() {
    let with_checksum = |bytes: Vec<u8>| [&bytes[..], &jenkins_lookup3(&bytes).to_le_bytes()].concat();
    let mut file = H5::new();
    let chunks: Vec<u64> = (1..=6).map(|byte| file.put(&[byte])).collect();
    let entries = chunks.iter().flat_map(|at| at.to_le_bytes()).collect::<Vec<u8>>();
    let block = file.put(&with_checksum([b"FADB\0\0", &UNDEFINED_ADDRESS[..], &entries].concat()));
    let header = [b"FAHD\0\0\x08\x0a", &6_u64.to_le_bytes()[..], &block.to_le_bytes()].concat();
    let header = file.put(&with_checksum(header));
    let dataset = growing(&mut file, 3, &[10], header);
    assert_eq!(elements(file_of(file, dataset)), [1, 2, 4, 5], "a fixed array");

    let mut file = H5::new();
    let first = file.put(&[1, 2, 3, 4, 5, 6]);
    let dataset = growing(&mut file, 2, &[], first);
    assert_eq!(elements(file_of(file, dataset)), [1, 2, 4, 5], "an implicit index");

    // The first maximum is below the dataset's shape, and the second one is unlimited.
    for max in [[1, 2], [2, u64::MAX]] {
        let mut file = H5::new();
        let first = file.put(&[1; 64]).to_le_bytes();
        let layout = [&[4, 2, 0, 3, 1, 1, 1, 1, 2], &first[..]].concat();
        let messages = vec![(SPACE, space(&[2, 2], &max)), (TYPE, U8.to_vec()), (LAYOUT, layout)];
        let dataset = file.object(&messages);
        let file = file_of(file, dataset);
        let (source, context) = (MemorySource::file("m.h5", file), MemoryContext::default());
        let error = MemoryView::read(&Keras, &pairs(&[]), &source, &context).map(drop).unwrap_err();
        assert!(error.to_string().contains("fixed number"), "{error}");
    }
}

/// Builds a file that contains a table, a named datatype, strings, and a group with a link to
/// itself.
pub(crate) fn with_a_table() -> Vec<u8> {
    let mut file = H5::new();
    let named = file.object(&vec![(TYPE, U8.to_vec())]);
    let numbers = file.elements(U8, 2, &[7, 8]);
    // The table has two columns: a string in a heap, and a byte.
    let table = [&[0x36, 2, 0, 0, 17, 0, 0, 0][..], b"a\0\0", VARIABLE, b"b\0\x10", U8].concat();
    let table = file.elements(&table, 1, &[0; 17]);
    let texts = file.elements(FIXED, 2, b"ab");
    // The group contains a link to itself.
    let group = file.put(&[]);
    assert_eq!(file.object(&vec![link("itself", group), link("w", numbers)]), group);
    let root = vec![
        link("group", group),
        link("table", table),
        link("texts", texts),
        link("type", named),
        link("w", numbers),
    ];
    let root = file.object(&root);
    file.end(root)
}

#[test]
fn what_holds_no_numbers_does_not_keep_others_from_being_read() {
    with_view(with_a_table(), |view| {
        let catalog = view.catalog();
        let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
        assert_eq!(names, ["group/w", "texts", "w"]);
        assert_eq!(view.tensor_named("group/w").unwrap().2, [7, 8]);
        let [loss] = catalog.losses() else { panic!("{:?}", catalog.losses()) };
        assert!(loss.kind == LossKind::Tensor && loss.what == "table", "{loss}");
        assert!(loss.why.contains("a table with 2 columns"), "{loss}");
    });
}

/// Builds the link message of a soft link.
fn soft(name: &str, target: &str) -> (u16, Vec<u8>) {
    let len = |text: &str| u16::try_from(text.len()).unwrap().to_le_bytes();
    let name_len = [len(name)[0]];
    let message = [&[1, 0x08, 1], &name_len[..], name.as_bytes(), &len(target), target.as_bytes()].concat();
    (LINK, message)
}

#[test]
fn links_by_name_are_other_names_of_what_is_there() {
    let file_of = |links: &[(&str, &str)]| {
        let mut file = H5::new();
        let (one, two) = (file.elements(U8, 1, &[7]), file.elements(U8, 1, &[8]));
        let group = file.object(&vec![link("w", one), link("v", two), soft("up", "/"), soft("own", "./w")]);
        let mut root = vec![link("a", group), link("z", one)];
        root.extend(links.iter().map(|(name, target)| soft(name, target)));
        let root = file.object(&root);
        file.end(root)
    };
    with_view(file_of(&[("b", "/a"), ("c", "a/v")]), |view| {
        let mut names: Vec<&str> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["a/own", "a/v", "a/w", "b/v", "b/w", "c", "z"]);
        assert_eq!(view.tensor_named("c").unwrap().2, [8]);
        assert_eq!(view.tensor_named("b/w").unwrap().2, [7]);
    });
    // These targets are invalid: missing objects, the link itself, and the path of a different soft
    // link.
    for (name, target) in [("b", "/nothing"), ("b", "b"), ("b", "a/own"), ("b", "a/w/x")] {
        let source = MemorySource::file("m.h5", file_of(&[(name, target)]));
        let context = MemoryContext::default();
        let error = MemoryView::read(&Keras, &pairs(&[]), &source, &context).map(drop).unwrap_err();
        assert!(error.to_string().contains("soft link"), "{target}: {error}");
    }
}
