//! Tests of the engine as a library with linked formats. They cover features that the program
//! `ferry` does not use.

use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry::{
    Dtype, ErrorKind, LossKind, NewTensor, OpenOptions, Registry, Result, SaveOptions, Session, Severity,
};
use tensorferry_sdk::arrow_array::{self, RecordBatchReader};
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::{Facts, case};

pub(crate) fn registry() -> Registry {
    Registry::new()
        .with_all(tensorferry_safetensors::formats())
        .with_all(tensorferry_torch::formats())
        .with_all(tensorferry_tfrecord::formats())
}

fn fixture(section: &str, name: &str) -> PathBuf {
    case(section, name).input()
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn every_tensor_has_the_frameworks_bytes() {
    for (section, name) in [
        ("safetensors", "all_dtypes"),
        ("safetensors", "sharded"),
        ("torch", "zip_all_dtypes"),
        ("torch", "zip_big_endian"),
        ("torch", "zip_views"),
    ] {
        let case = case(section, name);
        let model = registry().open(case.input()).unwrap();
        let facts = |tensor: tensorferry::Tensor| -> (String, Facts) {
            let bytes = tensor.read().unwrap();
            assert_eq!(bytes.len() as u64, tensor.byte_len());
            let facts = (tensor.dtype_name().to_owned(), tensor.shape().to_vec(), sha256(&bytes));
            (tensor.name().to_owned(), facts)
        };
        assert_eq!(
            model.tensors().map(facts).collect::<std::collections::BTreeMap<_, _>>(),
            case.all(),
            "{name}"
        );
        model.check_unchanged().unwrap();
    }
}

/// Copies a torch zip with one flipped bit in its first storage.
fn damaged(name: &str, folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(fixture("torch", name)).unwrap();
    let entry = bytes.windows(6).position(|window| window == b"data/0").unwrap();
    let header = bytes[..entry].windows(4).rposition(|window| window == b"PK\x03\x04").unwrap();
    let len = |at: usize| usize::from(u16::from_le_bytes([bytes[header + at], bytes[header + at + 1]]));
    let data = header + 30 + len(26) + len(28);
    bytes[data] ^= 1;
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn whole_tensors_are_compared_with_their_checksums() {
    let folder = tempdir().unwrap();
    // The tensor is a whole storage, a part of a storage, or stored in a different byte order.
    for name in ["zip_all_dtypes", "zip_views", "zip_big_endian"] {
        let path = damaged(name, folder.path());
        let read = |options: &OpenOptions| {
            let model = registry().open_with(&path, options).unwrap();
            let tensors = model.tensors().filter(|tensor| tensor.byte_len() > 0);
            let read: Vec<_> = tensors.map(|tensor| (tensor.read(), tensor.read(), tensor)).collect();
            (model, read)
        };
        let (model, checked) = read(&OpenOptions::new());
        let wrong: Vec<_> = checked.iter().filter_map(|(first, ..)| first.as_ref().err()).collect();
        assert!(!wrong.is_empty(), "{name}");
        for error in wrong {
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(error.to_string().to_lowercase().replace('-', "").contains("crc32"), "{error}");
        }
        // A second read fails in the same way.
        assert!(checked.iter().all(|(first, second, _)| first.is_err() == second.is_err()), "{name}");
        let tensors: Vec<_> = model.tensors().collect();
        let room = |tensor: &tensorferry::Tensor| vec![0; usize::try_from(tensor.byte_len()).unwrap()];
        let mut rooms: Vec<_> = tensors.iter().map(room).collect();
        let parts = tensors.iter().zip(rooms.iter_mut().map(Vec::as_mut_slice));
        fails(model.read_many(parts), ErrorKind::Malformed, "");
        let (_, unchecked) = read(&OpenOptions::new().unchecked());
        // Even without checks, the reader verifies stored bytes that it transforms, for example for
        // a negated view.
        assert!(unchecked.iter().all(|(read, _, tensor)| read.is_ok() || tensor.name() == "neg"), "{name}");
    }
}

#[test]
fn one_call_is_cancelled_alone() {
    let model = registry().open(fixture("torch", "zip_views")).unwrap();
    let cancelled = std::sync::Arc::new(Session::default());
    cancelled.cancel();
    let other = model.with_session(cancelled);
    let mut ended = 0;
    for (tensor, same) in model.tensors().zip(other.tensors()).filter(|(tensor, _)| tensor.byte_len() > 0) {
        fails(same.read(), ErrorKind::Cancelled, "");
        tensor.read().unwrap();
        ended += 1;
    }
    assert!(ended > 3, "{ended}");
}

#[test]
fn rows_are_parts_of_the_whole_wherever_they_lie() {
    let mut compared = 0;
    for name in ["zip_views", "zip_all_dtypes", "zip_big_endian"] {
        for tensor in registry().open(fixture("torch", name)).unwrap().tensors() {
            let (whole, &[rows, ..]) = (tensor.read().unwrap(), tensor.shape()) else { continue };
            let Some(row) = whole.len().checked_div(usize::try_from(rows).unwrap()) else { continue };
            for (from, to) in [(0, rows), (0, 1), (rows - 1, rows), (rows / 2, rows), (rows, rows)] {
                let bytes = usize::try_from(from).unwrap() * row..usize::try_from(to).unwrap() * row;
                assert_eq!(
                    tensor.read_rows(from..to).unwrap(),
                    whole[bytes],
                    "{name}: {tensor:?}, {from}..{to}"
                );
                compared += 1;
            }
            fails(tensor.read_rows(0..rows + 1), ErrorKind::Usage, tensor.name());
        }
    }
    assert!(compared >= 100, "{compared}");
}

#[test]
fn what_cannot_be_asked_for_is_an_error_of_usage() {
    let model = registry().open(fixture("safetensors", "scalars_and_empty")).unwrap();
    fails(model.tensor("no such"), ErrorKind::Usage, "no such");
    let scalar = model.tensors().find(|tensor| tensor.shape().is_empty()).unwrap();
    fails(scalar.read_rows(0..1), ErrorKind::Usage, scalar.name());
    fails(scalar.read_into(&mut []), ErrorKind::Usage, scalar.name());
    let as_torch = OpenOptions::new().from("torhc");
    fails(registry().open_with(fixture("torch", "zip_views"), &as_torch), ErrorKind::Usage, "\"torch\"");
}

#[test]
fn an_opened_model_outlives_its_registry_on_any_thread() {
    let tensors: Vec<_> = registry().open(fixture("torch", "zip_views")).unwrap().tensors().collect();
    let lens = tensors.iter().map(|tensor| tensor.byte_len()).sum::<u64>();
    let threads: Vec<_> = tensors
        .into_iter()
        .map(|tensor| std::thread::spawn(move || tensor.read().unwrap().len() as u64))
        .collect();
    assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>(), lens);
}

#[test]
fn a_mapping_has_the_bytes_that_reading_gives() {
    let model = registry().open(fixture("safetensors", "all_dtypes")).unwrap();
    let mut mapped = 0;
    for tensor in model.tensors().filter(|tensor| tensor.byte_len() > 0) {
        // SAFETY: nothing modifies fixture files while the tests run.
        assert_eq!(*unsafe { tensor.map() }.unwrap(), *tensor.read().unwrap(), "{}", tensor.name());
        mapped += 1;
    }
    assert!(mapped > 10, "{mapped}");
    let views = registry().open(fixture("torch", "zip_views")).unwrap();
    // SAFETY: nothing modifies fixture files while the tests run.
    let refused = views.tensors().filter(|tensor| unsafe { tensor.map() }.is_err()).count();
    assert!(refused > 0, "a view with strides has no bytes to map");
}

#[test]
fn tensors_are_saved_whole_or_not_at_all() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let tensor = |name: &str, len: usize| NewTensor::new(name, Dtype::F32, [2, 3], vec![7; len]);
    let registry = registry();
    for len in [23, 25] {
        fails(
            registry.save(&path, [tensor("a", 24), tensor("b", len)]),
            ErrorKind::Usage,
            "\"b\", expected 24",
        );
    }
    fails(registry.save(&path, [tensor("a", 24), tensor("a", 24)]), ErrorKind::Usage, "\"a\"");
    fails(registry.save(folder.path().join("m.unknown"), [tensor("a", 24)]), ErrorKind::Usage, "m.unknown");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let options = SaveOptions::new().metadata("made by", "hand");
    let report = registry.save_with(&path, [tensor("a", 24)], &options).unwrap();
    assert_eq!((report.tensors, &*report.losses), (1, &[][..]));
    fails(registry.save(&path, [tensor("b", 24)]), ErrorKind::Usage, "m.safetensors exists");
    let model = registry.open(&path).unwrap();
    assert_eq!(model.metadata()["made by"], "hand");
    assert_eq!(model.tensor("a").unwrap().read().unwrap(), [7; 24]);
    // Tensors can be copied to another file as bytes in memory.
    let copies = model
        .tensors()
        .map(|tensor| NewTensor::new(tensor.name(), tensor.dtype(), tensor.shape(), tensor.read().unwrap()));
    // Tensors can also be streamed. Tied tensors remain tied under any names.
    let again = ["b", "c"].map(|name| NewTensor::opened(name, &model.tensor("a").unwrap()));
    registry.save(folder.path().join("m.pt"), copies.chain(again)).unwrap();
    let copied = registry.open(folder.path().join("m.pt")).unwrap();
    assert!(copied.tensors().all(|tensor| tensor.read().unwrap() == [7; 24]));
    assert_eq!(copied.catalog().ties().iter().map(|first| first.0).collect::<Vec<_>>(), [0, 1, 1]);
    let rows = registry.save(folder.path().join("m.tfrecord"), [tensor("a", 24)]);
    fails(rows, ErrorKind::Usage, "tfrecord holds records, not tensors");
    let (ferry, forced) = (Ferry::new(), SaveOptions::new().force(true));
    registry.save_with(&path, [tensor("b", 24)], &forced).unwrap();
    assert_eq!(ferry.tensors(&path).into_keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_saved_model_keeps_its_metadata_and_its_state() {
    let folder = tempdir().unwrap();
    let registry = registry();
    let input = fixture("torch", "zip_training_checkpoint");
    let model = registry.open_with(&input, &OpenOptions::new().part(".")).unwrap();
    let tensors = || model.tensors().map(|tensor| NewTensor::opened(tensor.name(), &tensor));
    let options = SaveOptions::new().state_of(&model).metadata("made by", "hand");
    let path = folder.path().join("m.pt");
    let report = registry.save_with(&path, tensors(), &options).unwrap();
    assert_eq!(report.tensors, model.tensors().len() as u64);
    let saved = registry.open_with(&path, &OpenOptions::new().part(".")).unwrap();
    assert_eq!(saved.metadata()["made by"], "hand");
    let keys = |model: &tensorferry::Model| {
        let tree = model.catalog().tree();
        let root = tree.get(tree.root().unwrap()).unwrap();
        let text = |key| tree.get(key).unwrap().as_text().unwrap().to_owned();
        root.entries().map(|(key, _)| text(key)).collect::<Vec<_>>()
    };
    assert!(keys(&saved).len() > 2 && keys(&saved) == keys(&model), "{:?}", keys(&saved));
    // A format without a place for state reports the state as lost.
    let report = registry.save_with(folder.path().join("m.safetensors"), tensors(), &options).unwrap();
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::State), "{:?}", report.losses);
    // If the tensors have different names, the loss of the tree is also reported.
    let renamed = model.tensors().map(|tensor| NewTensor::opened(format!("x.{}", tensor.name()), &tensor));
    let report = registry.save_with(folder.path().join("renamed.pt"), renamed, &options).unwrap();
    assert!(report.losses.iter().any(|loss| loss.why.contains("flat list")), "{:?}", report.losses);
}

#[test]
fn a_conversion_obeys_its_builder_and_its_session() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (registry, input) = (registry(), fixture("torch", "zip_views"));
    let planned = registry.convert(&input, at("m.safetensors")).dry_run(true).run().unwrap();
    assert!(planned.dry_run && planned.tensors > 0 && !at("m.safetensors").exists());
    // A computed view becomes a separate tensor, which is a change. The copies of ties are only notes.
    let strict = || registry.convert(&input, at("m.safetensors")).strict(true);
    fails(strict().run(), ErrorKind::Unsupported, "neg");
    assert!(!at("m.safetensors").exists());
    let report = strict().allow(LossKind::Alias).verify(true).receipt(true).run().unwrap();
    let are_notes = report.losses.iter().any(|loss| loss.severity == Severity::Note);
    assert!(are_notes, "{:?}", report.losses);
    assert_eq!(report.verified, Some(report.tensors));
    assert!(!report.losses.is_empty() && report.losses.iter().all(|loss| loss.kind == LossKind::Alias));
    assert!(report.receipt.unwrap().exists());
    // For a separate progress bar, the session counts all hashed bytes of the input, the output and
    // the tensors.
    let (checked, to_check) = registry.session().checks();
    assert!(checked == to_check && checked > 2 * report.bytes, "{checked} of {to_check}");
    let again = registry.convert(&input, at("m.safetensors"));
    fails(again.clone().run(), ErrorKind::Usage, "m.safetensors exists");
    again.force(true).step("cast:bf16").run().unwrap();

    let session = Session::new(1, 64 << 20);
    session.cancel();
    let cancelled = registry.with_session(session);
    fails(cancelled.convert(&input, at("n.safetensors")).run(), ErrorKind::Cancelled, "");
    assert!(!at("n.safetensors").exists());

    let mut session = Session::default();
    session.limits.tensors = 2;
    let bounded = cancelled.with_session(session);
    fails(bounded.open(&input), ErrorKind::Limit, "too many tensors");
}

#[test]
fn reading_records_is_counted_to_the_last_byte() {
    let (folder, registry, case) = (tempdir().unwrap(), registry(), case("tfrecord", "sharded"));
    registry.convert(case.input(), folder.path().join("all.tfrecord")).run().unwrap();
    // Bytes that are read to find the schema are not counted.
    let files = std::fs::read_dir(&case.folder).unwrap().map(|file| file.unwrap());
    let files = files.filter(|file| file.path().extension().is_none_or(|ending| ending != "json"));
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert_eq!(registry.session().reads(), (bytes, bytes));
}

#[test]
fn records_are_batches_for_any_arrow() {
    let (ferry, registry, input) = (Ferry::new(), registry(), fixture("tfrecord", "sharded"));
    let scan = registry.scan(&input).unwrap();
    let rows = |batches: &mut dyn RecordBatchReader| -> usize {
        batches.map(|batch| batch.unwrap().num_rows()).sum()
    };
    let all = rows(&mut scan.batches());
    assert_eq!(all, ferry.rows(&input).len());
    let by_split: usize = (0..scan.splits()).map(|split| rows(&mut scan.batches_of(split..split + 1))).sum();
    assert!(scan.splits() > 1 && by_split == all && !scan.columns().is_empty());
    let mut stream = scan.stream();
    drop(scan);
    let foreign = std::ptr::from_mut(&mut stream).cast();
    // SAFETY: the pointer is to a valid structure of the C stream interface. The call moves it out,
    // and leaves an empty structure in its place.
    let mut reader = unsafe { arrow_array::ffi_stream::RecordBatchStreamReader::from_raw(foreign) }.unwrap();
    assert_eq!(rows(&mut reader), all);
    let model = fixture("safetensors", "all_dtypes");
    fails(registry.scan(model), ErrorKind::Unsupported, "records");
}
