//! Tests of datasets whose index and shards contradict each other.

use crate::common::{case, files, folder, read};
use std::sync::Arc;
use tensorferry_mds::Mds;
use tensorferry_sdk::arrow_array::{ArrayRef, BinaryArray, Int64Array};
use tensorferry_sdk::memory::records;
use tensorferry_sdk::{ErrorKind, Limits, MemoryContext};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::rows::rows;

/// Returns a fixture with a string in its index replaced.
fn altered(name: &str, from: &str, to: &str) -> Files {
    let mut files = case(name);
    let index = String::from_utf8(files["index.json"].clone()).unwrap();
    assert!(index.contains(from), "{from}");
    files.insert("index.json".to_owned(), index.replace(from, to).into_bytes());
    files
}

fn refusal(files: &Files) -> (ErrorKind, String) {
    let error = read(folder(files), &[]).err().unwrap_or_else(|| panic!("it is read"));
    (error.kind(), error.to_string())
}

#[test]
fn an_index_that_cannot_be_is_refused_by_name() {
    use ErrorKind::{Malformed, Unsupported};
    for (from, to, kind, reported) in [
        ("\"format\": \"mds\"", "\"format\": \"xsv\"", Unsupported, "xsv"),
        ("], \"version\": 2}", "], \"version\": 3}", Unsupported, "version"),
        ("\"bytes\": 489", "\"bytes\": 490", Malformed, "length"),
        ("[\"int\", \"str\"]", "[\"int\", \"word\"]", Unsupported, "word"),
        ("[\"int\", \"str\"]", "[\"int\"]", Malformed, "encodings"),
        ("[8, null]", "[8, 8]", Malformed, "size"),
        ("[\"id\", \"text\"]", "[\"id\", \"id\"]", Malformed, "same name"),
        ("shard.00001.mds", "shard.00000.mds", Malformed, "same name"),
        ("shard.00001.mds", "/etc/passwd", Malformed, "passwd"),
        ("shard.00001.mds", "a/../../b", Malformed, "a/../../b"),
        ("\"samples\": 13", "\"samples\": 12", Malformed, "number of samples"),
        ("\"compression\": null", "\"compression\": \"zstd\"", Malformed, "zip_data"),
        ("\"xxh64\": \"1018d22383c18285\"", "\"xxh64\": \"1018d22383c18286\"", Malformed, "xxh64"),
        ("\"shards\"", "\"shreds\"", Malformed, "shards"),
    ] {
        let (found, text) = refusal(&altered("sharded_hashed", from, to));
        assert_eq!(found, kind, "{from} to {to}: {text}");
        assert!(text.contains(reported), "{from} to {to}: {text}");
    }
}

#[test]
fn a_compressed_shard_is_held_to_what_the_index_says() {
    for (from, to, reported) in [
        ("\"bytes\": 292", "\"bytes\": 291", "length"),
        ("\"bytes\": 648", "\"bytes\": 600", "does not follow"),
        ("\"bytes\": 648", "\"bytes\": 700", "does not end"),
        ("67c69777a31b53fec73e94ea6ad459cfba54177d", "00", "sha1"),
        ("95e35c6a5fb19f384a9d3cff4295343b0ff38242", "00", "sha1"),
        ("zstd:7", "lz4", "lz4"),
        ("zstd:7", "bz2", "damaged"),
    ] {
        let (_, text) = refusal(&altered("zstd", from, to));
        assert!(text.contains(reported), "{from} to {to}: {text}");
    }
}

#[test]
fn a_bomb_is_bounded_by_what_the_index_says_and_by_limits() {
    let zeros: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[0; 8 << 20]]));
    for compression in ["zstd", "gz", "bz2", "br", "snappy"] {
        let files = files(&[rows(vec![("a", zeros.clone())])], &[("compression", compression)]);
        let source = folder(&files);
        let mut limits = Limits::default();
        limits.header_bytes = 1 << 20;
        let context = MemoryContext::new(limits);
        let read = records::open(&Mds, &[], Arc::new(source), &context)
            .and_then(|set| records::read(&*set, &tensorferry_sdk::records::Batches::default()));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Limit, "{compression}");
    }
}

#[test]
fn shards_of_other_columns_are_no_set() {
    let one = files(&[rows(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])], &[]);
    let index = String::from_utf8(one["index.json"].clone()).unwrap();
    let first =
        index.strip_prefix("{\"shards\":[").and_then(|rest| rest.strip_suffix("],\"version\":2}")).unwrap();
    let second = first.replace("shard.00000", "shard.00001").replace("[\"a\"]", "[\"b\"]");
    let mut files = one.clone();
    files.insert("shard.00001.mds".to_owned(), one["shard.00000.mds"].clone());
    files.insert(
        "index.json".to_owned(),
        format!("{{\"shards\":[{first},{second}],\"version\":2}}").into_bytes(),
    );
    let (kind, text) = refusal(&files);
    assert_eq!(kind, ErrorKind::Malformed);
    assert!(text.contains("shard 1") && text.contains("columns differ"), "{text}");
}

#[test]
fn a_block_of_snappy_is_held_as_a_whole_or_refused() {
    let texts: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[7; 1000]; 1000]));
    let files = files(&[rows(vec![("a", texts)])], &[("compression", "snappy")]);
    let opened = |max: u64| {
        let mut limits = Limits::default();
        limits.header_bytes = max;
        let context = MemoryContext::new(limits);
        records::open(&Mds, &[], Arc::new(folder(&files)), &context)
            .and_then(|set| records::read(&*set, &tensorferry_sdk::records::Batches::default()))
    };
    // Each sample takes a thousand bytes, and all samples together take a million.
    let error = opened(500_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let reported = error.to_string();
    assert!(reported.contains("shard.00000.mds.snappy") && reported.contains("too long"), "{reported}");
    opened(2_000_000).unwrap();
}

#[test]
fn rows_of_empty_texts_count() {
    let empty: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[]; 5000]));
    let names: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let columns = names.iter().map(|name| (&**name, empty.clone())).collect();
    let files = files(&[rows(columns)], &[("compression", "zstd")]);
    let set = records::open(&Mds, &[], Arc::new(folder(&files)), &MemoryContext::default()).unwrap();
    let request = tensorferry_sdk::records::Batches { bytes: 100_000, ..Default::default() };
    let batches = records::read(&*set, &request).unwrap().concat();
    assert!(batches.iter().all(|batch| batch.num_rows() <= 250), "{}", batches[0].num_rows());
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 5000);
}
