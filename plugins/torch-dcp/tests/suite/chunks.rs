//! Tests that the reader accepts valid chunks and rejects invalid ones.

use crate::common::{At, CHUNKS, NONE, Sample, archive, catalog, error, object, saved, values, with_context};
use tensorferry_sdk::{
    Data, Entry, ErrorKind, Format, Limits, LossKind, MemoryContext, MemorySource, NodeKind, Score,
};
use tensorferry_test_kit::pickle::{call, global, int, list, text};
use tensorferry_torch_dcp::TorchDcp;

#[test]
fn chunks_of_two_ranks_are_one_tensor() {
    let files = Sample::new().files();
    assert_eq!(values(files.clone(), "model.w"), (vec![3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let catalog = catalog(files).unwrap();
    assert!(matches!(&catalog.tensors()[0].data, Data::Blocks(blocks) if blocks.len() == 2));
    assert!(catalog.losses().is_empty(), "{:?}", catalog.losses());
    let tree = catalog.tree();
    let entries: Vec<_> = tree.get(tree.root().unwrap()).unwrap().entries().collect();
    assert_eq!(tree.get(entries[1].1).unwrap().as_int(), Some(7));
    assert_eq!(tree.get(entries[0].1).unwrap().kind, NodeKind::MAP);
}

#[test]
fn a_chunk_may_be_a_strided_view() {
    let mut sample = Sample::new();
    let turned = archive(&[1.0, 3.0, 2.0, 4.0], &[2, 2], &[1, 2]);
    sample.places[0] = At::new("turned.distcp", 0, turned.len());
    sample.files.insert("turned.distcp".to_owned(), turned);
    sample.describe(&CHUNKS);
    assert_eq!(values(sample.files(), "model.w").1, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_rank_may_have_nothing() {
    let mut sample = Sample::new();
    let nothing: (&[i64], &[i64]) = (&[3, 0], &[0, 2]);
    // Two ranks without any part of the tensor add two empty chunks with the same offsets.
    sample.describe(&[CHUNKS[0], CHUNKS[1], nothing, nothing]);
    assert_eq!(values(sample.files(), "model.w").0, [3, 2]);
}

#[test]
fn gaps_and_overlaps_are_refused() {
    let mut sample = Sample::new();
    for (chunks, fault) in [
        (&[CHUNKS[0]][..], "gap"),
        (&[CHUNKS[0], (&[1, 0], &[1, 2])], "overlap"),
        (&[CHUNKS[0], (&[3, 0], &[1, 2])], "outside"),
        (&[CHUNKS[0], (&[0, 0], &[1, 2])], "location of a chunk"),
        (&[CHUNKS[0], (&[2], &[1])], "different ranks"),
    ] {
        sample.describe(chunks);
        let error = sample.error();
        assert!(error.contains(fault) && error.contains("\"model.w\""), "{chunks:?}: {error}");
    }
    let both = archive(&[0.0; 4], &[2, 2], &[2, 1]);
    sample.places[1] = At::new("both.distcp", 0, both.len());
    sample.files.insert("both.distcp".to_owned(), both);
    sample.describe(&[CHUNKS[0], (&[1, 0], &[2, 2])]);
    assert!(sample.error().contains("overlap"), "{}", sample.error());
}

#[test]
fn a_chunk_is_what_the_table_says() {
    let mut sample = Sample::new();
    let other = archive(&[5.0, 6.0], &[2, 1], &[1, 1]);
    sample.places[1] = At::new("other.distcp", 0, other.len());
    sample.files.insert("other.distcp".to_owned(), other);
    sample.describe(&CHUNKS);
    let shape = sample.error();
    assert!(
        shape.contains("[1, 2]") && shape.contains("[2, 1]") && shape.contains("other.distcp"),
        "{shape}"
    );

    let mut sample = Sample::new();
    sample.table.described.clear();
    sample.table.tensor("model.w", "int32", &[3, 2], &CHUNKS);
    let dtype = sample.error();
    assert!(dtype.contains("I32") && dtype.contains("F32") && dtype.contains("__0_0.distcp"), "{dtype}");

    let mut sample = Sample::new();
    sample.places[0] = sample.places[2].clone();
    sample.describe(&CHUNKS);
    assert!(sample.error().contains("does not contain a tensor"), "{}", sample.error());
}

#[test]
fn places_stay_in_the_folder_and_in_their_file() {
    for (file, offset, len) in [
        ("../__0_0.distcp", 0, 10),
        ("/__0_0.distcp", 0, 10),
        ("a/./b", 0, 10),
        ("missing.distcp", 0, 10),
        ("__1_0.distcp", 1, 1 << 20),
        ("__1_0.distcp", usize::MAX >> 1, 10),
        ("__1_0.distcp", 3, 0),
        ("__1_0.distcp", 0, 40),
    ] {
        let mut sample = Sample::new();
        sample.places[1] = At::new(file, offset, len);
        sample.describe(&CHUNKS);
        let error = sample.error();
        assert!(error.contains(file) && error.contains("\"model.w\""), "{file}: {error}");
    }
}

#[test]
fn transformed_data_is_refused() {
    let mut sample = Sample::new();
    sample.places[1].transforms = list(&[text("zstd")]);
    sample.describe(&CHUNKS);
    assert!(
        sample.error().contains("unsupported") && sample.error().contains("extension"),
        "{}",
        sample.error()
    );
    sample.places[1].transforms = list(&[]);
    sample.describe(&CHUNKS);
    assert!(catalog(sample.files()).is_ok());
}

#[test]
fn what_is_stored_without_a_description_is_listed() {
    let mut sample = Sample::new();
    let place = sample.places[1].clone();
    sample.table.stored("ghost", Some(&[0]), &place);
    let catalog = catalog(sample.files()).unwrap();
    let losses: Vec<_> = catalog.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(losses, [(LossKind::Tensor, "ghost")]);
}

#[test]
fn paths_do_not_meet() {
    for path in [&[text("model")][..], &[text("model"), text("w"), text("x")]] {
        let mut sample = Sample::new();
        sample.table.paths.pop();
        sample.table.path("epoch", path);
        assert!(sample.error().contains("path"), "{}", sample.error());
    }
    let mut sample = Sample::new();
    sample.table.paths.pop();
    sample.table.path("epoch", &[text("list"), int(1 << 40)]);
    assert!(catalog(sample.files()).is_ok(), "a large index does not make a long list");
}

#[test]
fn nothing_is_executed() {
    let folder = std::env::temp_dir().join(format!("ferry-dcp-{}", std::process::id()));
    let payload = call(&global("os", "mkdir"), &[text(folder.to_str().unwrap())]);
    let mut sample = Sample::new();
    let bytes = saved(&payload);
    sample.places[2] = At::new("payload.distcp", 0, bytes.len());
    sample.files.insert("payload.distcp".to_owned(), bytes);
    sample.describe(&CHUNKS);
    sample.table.paths.push((payload.clone(), payload.clone()));
    let catalog = catalog(sample.files()).unwrap();
    assert!(!folder.exists(), "a payload ran");
    assert!(catalog.globals().contains(&"os.mkdir".to_owned()));
    assert!(catalog.losses().iter().any(|loss| loss.why.contains("os.mkdir")), "{:?}", catalog.losses());
    assert_eq!(catalog.tensors()[0].name, "model.w", "the other tensors are read");

    let mut sample = Sample::new();
    let bytes = saved(&payload);
    sample.places[1] = At::new("payload.distcp", 0, bytes.len());
    sample.files.insert("payload.distcp".to_owned(), bytes);
    sample.describe(&CHUNKS);
    assert!(sample.error().contains("does not contain a tensor"), "{}", sample.error());
    assert!(!folder.exists());
}

#[test]
fn a_name_that_is_used_again_and_again_is_bounded() {
    let mut sample = Sample::new();
    let name = "n".repeat(5000);
    let place = sample.places[1].clone();
    for index in 0..400 {
        sample.table.stored(&name, Some(&[index]), &place);
    }
    let mut limits = Limits::default();
    limits.name_bytes = 4000;
    sample.table.stored(&name, None, &At { file: name.clone(), ..place });
    let error = with_context(sample.files(), &MemoryContext::new(limits)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn what_is_no_table_is_refused() {
    let sample = Sample::new();
    let mut files = sample.files();
    for table in [&tensorferry_test_kit::pickle::pickle(&int(1))[..], b"", b"\x80\x04", b"not a pickle", NONE]
    {
        files.insert(".metadata".to_owned(), table.to_vec());
        assert!(error(files.clone()).contains(".metadata"), "{}", error(files));
    }
    let table = object("torch.distributed.checkpoint.metadata", "Metadata", &[]);
    files.insert(".metadata".to_owned(), tensorferry_test_kit::pickle::pickle(&table));
    assert!(error(files.clone()).contains("state_dict_metadata"));
    files.remove(".metadata");
    assert!(error(files).contains("data without a table"));
}

#[test]
fn ranks_that_did_not_coordinate_are_merged() {
    let sample = Sample::new();
    let mut files = sample.files.clone();
    let mut tables = [sample.table.clone(), sample.table.clone()];
    for (rank, table) in tables.iter_mut().enumerate() {
        // Each rank's table contains only the rank's own chunk and its own copy of the object.
        table.described.remove(0);
        table.tensor("model.w", "float32", &[3, 2], &[CHUNKS[rank]]);
        table.stored.remove(1 - rank);
        files.insert(format!("__{rank}.metadata"), table.bytes());
    }
    assert_eq!(values(files.clone(), "model.w").1, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(catalog(files.clone()).unwrap().losses().is_empty());

    // The second rank's file contains a different object.
    let other = saved(&int(8));
    tables[1].stored.pop();
    tables[1].stored("epoch", None, &At::new("__1_1.distcp", 0, other.len()));
    files.insert("__1_1.distcp".to_owned(), other);
    files.insert("__1.metadata".to_owned(), tables[1].bytes());
    let losses = catalog(files.clone()).unwrap().losses().to_vec();
    assert!(losses.len() == 1 && losses[0].what == "epoch" && losses[0].why.contains("__1_1"), "{losses:?}");

    // In the second rank's table, the tensor has a different size.
    tables[1].described.pop();
    tables[1].tensor("model.w", "float32", &[4, 2], &[CHUNKS[1]]);
    files.insert("__1.metadata".to_owned(), tables[1].bytes());
    let message = error(files.clone());
    assert!(message.contains("__1.metadata") && message.contains("tensor \"model.w\""), "{message}");
    files.remove("__1.metadata");
    assert!(error(files).contains("gap"));
}

#[test]
fn the_probe_knows_a_folder_and_its_members() {
    let score = |entry: Entry, files: &[(&str, &[u8])]| {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        TorchDcp.probe(&MemorySource::new(entry, files), &MemoryContext::default()).unwrap().unwrap()
    };
    let (table, data) = ((".metadata", &b"\x80\x04"[..]), ("__0_0.distcp", &b""[..]));
    assert_eq!(score(Entry::Folder, &[table, data]), Score::CERTAIN);
    assert_eq!(score(Entry::File(data.0.to_owned()), &[table, data]), Score::CERTAIN);
    assert_eq!(score(Entry::Folder, &[table]), Score::LIKELY);
    assert_eq!(score(Entry::Folder, &[(".metadata", b"text")]), Score::NO);
    assert_eq!(score(Entry::Folder, &[data]), Score::LIKELY);
    assert_eq!(score(Entry::File(data.0.to_owned()), &[data]), Score::NO);
    assert_eq!(score(Entry::File("other".to_owned()), &[table, data, ("other", b"")]), Score::NO);
}
