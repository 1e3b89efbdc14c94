//! Tests reading torch files that are inside other files, such as the chunks of a distributed
//! checkpoint.

use tensorferry_sdk::{
    CatalogBuilder, Data, ErrorKind, Limits, MemoryContext, MemorySource, Result, Source, StorageLocation,
};
use tensorferry_torch_file::rebuild::{self, RebuiltTensor};
use tensorferry_torch_file::{Extent, ObjectFile, Storages, ViewLocation};

fn fixture(case: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures/torch");
    std::fs::read(format!("{folder}/{case}/model.pt")).unwrap()
}

/// Returns the location of the only tensor in a torch file that starts at `offset` inside a larger
/// file.
fn locate(bytes: &[u8], offset: u64, len: u64) -> Result<(u64, u64)> {
    let source = MemorySource::file("chunks", bytes);
    let (context, limits) = (MemoryContext::default(), Limits::default());
    let extent = Extent::within(&source, source.open("chunks")?, offset, len)?;
    let object = ObjectFile::open(&source, extent, &context)?;
    let Some(RebuiltTensor::View(view)) = rebuild::tensor(object.graph(), object.root())? else {
        panic!("no view")
    };
    let mut storages = Storages::new(&limits);
    let mut builder = CatalogBuilder::new("test", &source, &limits);
    let ViewLocation::Found(location) = storages.locate(&mut builder, &object, &view)? else {
        panic!("lost")
    };
    location.add(&mut builder, "t")?;
    let catalog = builder.finish()?;
    let Data::Whole { storage, offset } = catalog.tensors()[0].data else { panic!("not one whole block") };
    match catalog.storage(storage).unwrap().location {
        StorageLocation::File { offset: start, .. } => Ok((start, offset)),
        _ => panic!("not in the file"),
    }
}

#[test]
fn offsets_count_from_the_start_of_the_file_around() {
    for case in ["zip_bare_tensor", "legacy_bare_tensor"] {
        let alone = fixture(case);
        let len = alone.len() as u64;
        let (start, offset) = locate(&alone, 0, len).unwrap();
        // The archive is between two other archives. The reader must not mistake them for parts of
        // this archive.
        let around = [&alone[..], &alone, &alone].concat();
        assert_eq!(locate(&around, len, len).unwrap(), (start + len, offset), "{case}");
    }
}

#[test]
fn what_does_not_fit_its_extent_is_refused() {
    for case in ["zip_bare_tensor", "legacy_bare_tensor"] {
        let alone = fixture(case);
        let len = alone.len() as u64;
        let around = [&alone[..], &alone].concat();
        for (offset, len) in [(0, len - 1), (1, len), (len, len + 1), (u64::MAX, 2), (0, 0)] {
            let error = locate(&around, offset, len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{case}: {error}");
        }
    }
}
