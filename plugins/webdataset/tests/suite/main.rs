//! Tests the format with WebDatasets that the tests themselves write, and with files that the
//! `webdataset` library wrote.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Int8Type;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Int64Array, NullArray, RecordBatch, StringArray, TimestampSecondArray,
};
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::memory::records;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Entry, ErrorKind, Limits, Loss, MemoryContext, MemorySource, Result, Side};
use tensorferry_test_kit::fixtures::{cases, expected, files_below, name_of};
use tensorferry_test_kit::rows::{self, write_file};
use tensorferry_webdataset::WebDataset;

fn read(source: MemorySource, given: &[(&str, &str)]) -> Result<(Vec<RecordBatch>, Vec<Loss>)> {
    rows::read(&WebDataset, source, given)
}

fn written(name: &str, pieces: &[RecordBatch], given: &[(&str, &str)]) -> Result<(Vec<u8>, Vec<Loss>)> {
    write_file(&WebDataset, pieces, name, given)
}

fn rows(keys: &[&str]) -> RecordBatch {
    let numbers = (0..).take(keys.len()).map(|n| (n != 1).then_some(n));
    let bytes: Vec<Vec<u8>> = keys.iter().map(|key| key.repeat(100).into_bytes()).collect();
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("__key__", Arc::new(StringArray::from_iter_values(keys)), false),
        ("jpg", Arc::new(BinaryArray::from_iter_values(bytes)), true),
        ("cls", Arc::new(Int64Array::from_iter(numbers)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn case(name: &str) -> MemorySource {
    let files = files_below(&cases("webdataset", name)[0]);
    let entry =
        if files.len() == 1 { Entry::File(files.keys().next().unwrap().clone()) } else { Entry::Folder };
    MemorySource::new(entry, files)
}

/// In the conformance suite's tables, the column `id` contains the keys, if there are any.
fn keyed_by_id() -> Preset<WebDataset> {
    Preset::new(WebDataset).with(Side::Reader, "key", "id").with(Side::Writer, "key", "id")
}

#[test]
fn conforms() {
    let (bytes, _) = written("a.tar", &[rows(&["a", "d/b"]), rows(&["c"])], &[]).unwrap();
    let sample = Sample::file("a.tar", bytes).holding(&["id", "jpg", "cls"]).of_rows(3);
    let report = check(&keyed_by_id(), &[sample]);
    assert_eq!(report.rows, 3);
    assert!(report.damaged > 1000 && report.written > 3, "{report:?}");
}

#[test]
fn conforms_with_other_options() {
    let (bytes, _) = written("a.tar.zst", &[rows(&["a"])], &[]).unwrap();
    for (key, value) in [("shards", "2"), ("shard_rows", "700"), ("max_shard_size", "1MB")] {
        let format = keyed_by_id().with(Side::Writer, key, value);
        let sample = Sample::file("a.tar.zst", bytes.clone()).holding(&["id"]).of_rows(1);
        let report = check(&format, &[sample]);
        assert!(report.written > 3, "{key}={value}: {report:?}");
    }
}

#[test]
fn lists_are_json_and_a_key_alone_is_no_sample() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("__key__", Arc::new(StringArray::from(vec!["a", "b"])), false),
        ("json", Arc::new(lists.finish()), true),
        ("txt", Arc::new(StringArray::from(vec!["x", "y"])), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let (bytes, losses) = written("a.tar", std::slice::from_ref(&batch), &[]).unwrap();
    assert!(losses.iter().any(|loss| loss.what == "json" && loss.why.contains("JSON")), "{losses:?}");
    let (batches, _) =
        read(MemorySource::file("a.tar", bytes), &[("members", "typed"), ("key", "name")]).unwrap();
    assert_eq!(batches[0].schema().field(0).name(), "name");
    let texts = batches[0].column_by_name("json").unwrap().as_string::<i32>();
    assert_eq!(texts, &StringArray::from(vec![Some("[1,null]"), None]));
    let error = written("a.tar", &[batch.project(&[0]).unwrap()], &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn fixed_size_bytes_are_bytes_and_a_column_of_nulls_has_no_members() {
    let fixed = FixedSizeBinaryArray::try_from_iter([b"\0\xff", b"ab"].into_iter()).unwrap();
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("__key__", Arc::new(StringArray::from(vec!["a", "b"])), false),
        ("none", Arc::new(NullArray::new(2)), true),
        ("bin", Arc::new(fixed), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let (bytes, losses) = written("a.tar", &[batch], &[]).unwrap();
    let named: Vec<_> = losses.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(named, ["none", "bin"], "{losses:?}");
    let (batches, _) = read(MemorySource::file("a.tar", bytes), &[]).unwrap();
    assert!(batches[0].column_by_name("none").is_none());
    let found = batches[0].column_by_name("bin").unwrap().as_binary::<i32>();
    assert_eq!(found, &BinaryArray::from_vec(vec![b"\0\xff", b"ab"]));
}

#[test]
fn dates_and_decimals_are_texts_without_quotes() {
    let decimals = Decimal128Array::from(vec![150]).with_precision_and_scale(5, 2).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("__key__", Arc::new(StringArray::from(vec!["a"]))),
        ("day", Arc::new(Date32Array::from(vec![-1]))),
        ("price", Arc::new(decimals)),
        ("at", Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("UTC"))),
    ];
    let (bytes, losses) = written("a.tar", &[RecordBatch::try_from_iter(columns).unwrap()], &[]).unwrap();
    assert!(losses.iter().any(|loss| loss.what == "day" && loss.why.contains("text")), "{losses:?}");
    let (batches, _) = read(MemorySource::file("a.tar", bytes), &[]).unwrap();
    let found = |name: &str| batches[0].column_by_name(name).unwrap().as_binary::<i32>().value(0).to_vec();
    assert_eq!(found("day"), b"1969-12-31");
    assert_eq!(found("price"), b"1.50");
    assert_eq!(found("at"), b"1970-01-01T00:00:00Z");
}

/// Returns a tar header with the given bytes as the name.
fn header(name: &[u8], size: usize, kind: u8) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[148..156].fill(b' ');
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    block
}

/// Returns a tar in GNU format, in which long names are stored in separate entries.
fn gnu_tar(members: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |name: &[u8], content: &[u8], kind| {
        bytes.extend(header(name, content.len(), kind));
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    };
    for (name, content) in members {
        if name.len() > 100 {
            put(b"././@LongLink", &[name.as_bytes(), b"\0"].concat(), b'L');
        }
        let kind = if name.ends_with('/') { b'5' } else { b'0' };
        put(name.as_bytes(), content.as_bytes(), kind);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn keys(members: &[(&str, &str)]) -> Result<(Vec<String>, Vec<Loss>)> {
    let (batches, losses) = read(MemorySource::file("a.tar", gnu_tar(members)), &[])?;
    let of = |batch: &RecordBatch| {
        batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    Ok((batches.iter().flat_map(of).collect(), losses))
}

/// The 100 bytes of the name in the header end in the middle of a character.
#[test]
fn long_names_of_other_scripts_are_read() {
    let (folder, file) = (format!("{}/", "학습".repeat(20)), "日".repeat(40));
    let path = format!("{folder}{file}.txt");
    let (found, losses) = keys(&[(&folder, ""), (&path, "a"), ("b.txt", "c")]).unwrap();
    assert_eq!(found, [format!("{folder}{file}"), "b".to_owned()]);
    assert_eq!(losses, []);
}

#[test]
fn files_that_macos_adds_are_skipped() {
    let mac = [
        ("./.DS_Store", "x"),
        ("./._a.jpg", "x"),
        ("./a.jpg", "1"),
        ("./._a.txt", "x"),
        ("./a.txt", "2"),
        ("train/._b.jpg", "x"),
        ("train/b.jpg", "3"),
    ];
    assert_eq!(keys(&mac).unwrap(), (vec!["./a".to_owned(), "train/b".to_owned()], Vec::new()));
    // A hidden file that was not added by macOS is not part of any sample, and does not end the
    // surrounding sample.
    let (found, losses) = keys(&[("./a.jpg", "1"), ("./.note.txt", "x"), ("./a.txt", "2")]).unwrap();
    assert_eq!(found, ["./a"]);
    assert_eq!(losses.iter().map(|loss| &*loss.what).collect::<Vec<_>>(), ["./.note.txt"]);
}

#[test]
fn a_checkpoint_is_not_a_data_set() {
    let members = [("./model_config.yaml", "a: 1"), ("./model_weights.ckpt", "PK")];
    let error = keys(&members).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("contains a checkpoint"), "{error}");
    let source = || MemorySource::file("a.tar", gnu_tar(&members));
    assert_eq!(read(source(), &[("weights", "samples")]).unwrap().0[0].num_rows(), 2);
    // Unless `weights=samples` is set, a `.nemo` file is always treated as a checkpoint.
    assert!(read(MemorySource::file("a.nemo", gnu_tar(&[("a.txt", "")])), &[]).is_err());
}

#[test]
fn tables_are_not_a_data_set() {
    let members = [("README.md", "x"), ("data/train.jsonl", "{}"), ("data/test.csv.gz", "a")];
    let error = keys(&members).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("contains tables") && error.to_string().contains("train.jsonl"),
        "{error}"
    );
    let source = || MemorySource::file("a.tar", gnu_tar(&members));
    assert_eq!(read(source(), &[("weights", "samples")]).unwrap().0[0].num_rows(), 3);
}

#[test]
fn categories_are_what_they_stand_for() {
    let of = |values: [&str; 2]| -> ArrayRef {
        Arc::new(values.into_iter().collect::<DictionaryArray<Int8Type>>())
    };
    let columns = [("__key__", of(["a", "b"])), ("txt", of(["cat", "\"dog\""]))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let (bytes, _) = written("a.tar", &[batch], &[]).unwrap();
    let (batches, _) = read(MemorySource::file("a.tar", bytes), &[("members", "typed")]).unwrap();
    let texts = batches[0].column(1).as_string::<i32>();
    assert_eq!(texts, &StringArray::from(vec!["cat", "\"dog\""]));
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused, mut lossy) = (0, 0, 0);
    for path in cases("webdataset", "") {
        let name = name_of(&path);
        let found = read(case(name), &[]);
        if name.starts_with("bad_") {
            let error = found.err().unwrap_or_else(|| panic!("{name} is read"));
            assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
            assert!(error.to_string().starts_with("train.tar"), "{name}: {error}");
            refused += 1;
            continue;
        }
        let (batches, losses) = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(expected(&path)["n_records"], count, "{name}");
        let apart = losses.iter().any(|loss| loss.why.contains("not adjacent"));
        assert_eq!(apart, name == "keys_not_adjacent", "{name}: {losses:?}");
        lossy += usize::from(apart);
        ok += 1;
    }
    assert_eq!((ok, refused, lossy), (9, 6, 1));
}

#[test]
fn samples_come_back() {
    let long = format!("{}/k", "folder".repeat(40));
    for name in ["a.tar", "a.tar.gz", "a.tar.zst", "a.tgz"] {
        let (bytes, losses) =
            written(name, &[rows(&["a", "b", "c"]), rows(&["dir.v1/d", &long])], &[]).unwrap();
        assert!(losses.iter().any(|loss| loss.what == "cls"), "{losses:?}");
        let (batches, losses) = read(MemorySource::file(name, bytes), &[("members", "typed")]).unwrap();
        assert_eq!(losses, []);
        let keys: Vec<String> = batches
            .iter()
            .flat_map(|batch| {
                batch
                    .column(0)
                    .as_string::<i32>()
                    .iter()
                    .map(|key| key.unwrap().to_owned())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(keys, ["a", "b", "c", "dir.v1/d", &long]);
        let numbers = batches[0].column_by_name("cls").unwrap();
        assert_eq!(numbers.as_primitive::<tensorferry_sdk::arrow_array::types::Int64Type>().value(2), 2);
        assert!(numbers.is_null(1));
        assert_eq!(
            batches[0].column_by_name("jpg").unwrap().as_binary::<i32>().value(0),
            "a".repeat(100).as_bytes()
        );
    }
}

/// `tarfile` rejects an archive that ends inside the padding of a member. `tarfile` accepts an
/// archive that ends after the padding.
#[test]
fn an_archive_that_is_cut_off_is_refused_or_told() {
    let (bytes, _) = written("a.tar", &[rows(&["a", "b", "c"])], &[]).unwrap();
    let body = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let body = body.next_multiple_of(512);
    let opened = |len: usize| read(MemorySource::file("a.tar", bytes[..len].to_vec()), &[]);
    // The last member fills only a few bytes of its block, so both lengths end in the padding.
    for len in [body - 1, body - 500] {
        let error = opened(len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{len}: {error}");
    }
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    for (len, rows, is_told) in
        [(body, 3, true), (body + 512, 3, false), (body + 1024, 3, false), (0, 0, true)]
    {
        let (batches, losses) = opened(len).unwrap();
        assert_eq!(count(&batches), rows, "{len}");
        assert_eq!(losses.iter().any(|loss| loss.why.contains("has no end")), is_told, "{len}: {losses:?}");
    }
}

#[test]
fn zeros_before_a_number_are_not_lost_in_silence() {
    let columns: [(&str, ArrayRef); 3] = [
        ("__key__", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("id", Arc::new(StringArray::from(vec!["00123", "7"]))),
        ("cls", Arc::new(StringArray::from(vec!["0", "-5\n"]))),
    ];
    let (bytes, _) = written("a.tar", &[RecordBatch::try_from_iter(columns).unwrap()], &[]).unwrap();
    let losses = |given| read(MemorySource::file("a.tar", bytes.clone()), given).unwrap().1;
    let reported: Vec<String> = losses(&[("members", "typed")]).into_iter().map(|loss| loss.what).collect();
    assert_eq!(reported, ["id"]);
    assert_eq!(losses(&[]), []);
}

#[test]
fn keys_that_would_be_read_as_others_are_refused() {
    for keys in [&["a.b"][..], &["a", "a"], &[""], &["__x__"], &["d/"][..0]] {
        if keys.is_empty() {
            continue;
        }
        let error = written("a.tar", &[rows(keys)], &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{keys:?}: {error}");
    }
    let error = written("a.tar", &[rows(&["a"]), rows(&["a"])], &[]).unwrap_err();
    assert!(error.to_string().contains("same key"), "{error}");
    let error = written("a.tar", &[rows(&["a"])], &[("key", "id")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

/// Reads a tar of the given members, with one changed limit.
fn read_within(
    members: &[(String, usize)],
    name: &str,
    limit: (&str, u64),
    request: &Batches,
) -> Result<Vec<RecordBatch>> {
    let mut bytes = Vec::new();
    for (path, len) in members {
        let keyed: [(&str, ArrayRef); 2] = [
            ("__key__", Arc::new(StringArray::from(vec![path.split('.').next().unwrap()]))),
            (path.split_once('.').unwrap().1, Arc::new(BinaryArray::from_vec(vec![&vec![0; *len]]))),
        ];
        let (one, _) = written("a.tar", &[RecordBatch::try_from_iter(keyed).unwrap()], &[]).unwrap();
        // The bytes after the member's blocks mark the end of the archive.
        let record = if path.len() > 100 { 512 + (path.len() + 13).next_multiple_of(512) } else { 0 };
        bytes.extend_from_slice(&one[..record + 512 + len.next_multiple_of(512)]);
    }
    bytes.resize(bytes.len() + 1024, 0);
    let bytes = if name.ends_with("zst") { zstd::bulk::compress(&bytes, 3).unwrap() } else { bytes };
    let mut limits = Limits::default();
    assert!(limits.set(limit.0, limit.1));
    let context = MemoryContext::new(limits);
    let set = records::open(&WebDataset, &[], Arc::new(MemorySource::file(name, bytes)), &context)?;
    Ok(records::read(&*set, request)?.concat())
}

#[test]
fn what_one_sample_holds_is_bounded() {
    let members: Vec<_> = (0..30).map(|n| (format!("s.m{n}"), 100_000)).collect();
    for name in ["a.tar", "a.tar.zst"] {
        let read = |max, columns: Option<Vec<usize>>| {
            read_within(&members, name, ("header_bytes", max), &Batches { columns, ..Batches::default() })
        };
        let error = read(1 << 20, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let reported = format!("{error} {:?}", error.details().collect::<Vec<_>>());
        for part in [name, "\"s\"", "\"m10\"", "header_bytes=N", "1100001", "100000"] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
        // Members that are not requested are not kept in memory.
        read(1 << 20, Some(vec![0, 1, 30])).unwrap();
        assert_eq!(read(4 << 20, None).unwrap().len(), 1);
    }
}

#[test]
fn long_names_and_columns_without_end_are_refused() {
    let long = |n: usize| vec![(format!("k.{}", "m".repeat(n)), 0)];
    let error = read_within(&long(70_000), "a.tar", ("nesting", 1), &Batches::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error:.200}");
    let hint = error.details().find(|(name, _)| *name == "hint").map(|(_, text)| text);
    assert!(hint.is_some_and(|hint| hint.contains("name_bytes=N")), "{error:.200}");
    read_within(&long(60_000), "a.tar", ("nesting", 1), &Batches::default()).unwrap();

    let others: Vec<_> = (0..60).map(|n| (format!("k{n}.{}{n}", "m".repeat(80)), 0)).collect();
    for (limit, max, reported) in [("columns", 50, "columns=N"), ("header_bytes", 32 << 10, "header_bytes=N")]
    {
        let error = read_within(&others, "a.tar.zst", (limit, max), &Batches::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let hint = error.details().find(|(name, _)| *name == "hint").map(|(_, text)| text);
        assert!(hint.is_some_and(|hint| hint.contains(reported)), "{error}");
        assert!(error.to_string().contains("offset"), "{error}");
    }
    // Each row needs memory in every column, even if the row does not have the member.
    let request = Batches { bytes: 1000, ..Batches::default() };
    let batches = read_within(&others, "a.tar.zst", ("columns", 61), &request).unwrap();
    assert!(batches.len() > 6, "{}", batches.len());
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 60);
}
