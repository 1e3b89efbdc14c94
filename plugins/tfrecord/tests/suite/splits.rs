//! Checks that any number of threads reads the same records in the same order, even if records
//! contain other records.

use crate::common::{
    self, Threaded, all_rows, column_of_ints, count_rows, example, file, frames, ints, open, threads,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tensorferry_proto::Example;
use tensorferry_sdk::records::IndexTotals;
use tensorferry_sdk::{Entry, Format, MemorySource, Side};
use tensorferry_test_kit::random::Random;
use tensorferry_tfrecord::TfRecord;

/// Returns records of various lengths, some of which contain whole TFRecord files. Together, they
/// span more than three units of a scan.
fn mixed() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let inner = frames(&(0..3000_u32).map(|n| n.to_le_bytes().repeat(9)).collect::<Vec<_>>());
    let mut records = Vec::new();
    let mut total = 0;
    while total < 18 << 20 {
        let record = match random.below(400) {
            0 => inner.repeat(8),
            1 => inner.repeat(40),
            2 => vec![3; 5 << 20],
            3 => Vec::new(),
            _ => (0..random.below(3000)).map(|n| n.to_le_bytes()[0]).collect(),
        };
        total += record.len();
        records.push(record);
    }
    records
}

fn index(source: &MemorySource, context: &Threaded) -> (IndexTotals, String) {
    let reader = TfRecord.record_reader(&common::options(Side::Reader, &[])).unwrap();
    let mut text = Vec::new();
    let indexed = reader.index(source, &mut text, context).unwrap();
    (indexed, String::from_utf8(text).unwrap())
}

fn digests(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let records = batches.iter().flat_map(|batch| {
        let array = batch.column(0).as_binary::<i32>();
        (0..array.len()).map(|row| Sha256::digest(array.value(row)).to_vec()).collect::<Vec<_>>()
    });
    records.collect()
}

#[test]
fn a_record_that_holds_records_is_one_record() {
    let records = mixed();
    let bytes = frames(&records);
    let source = MemorySource::file("f.tfrecord", bytes.clone());
    let mut expected = String::new();
    let mut offset = 0;
    for record in &records {
        expected += &format!("{offset} {}\n", record.len() + 16);
        offset += record.len() + 16;
    }
    for count in [1, 2, 5] {
        let (indexed, text) = index(&source, &threads(count));
        assert_eq!(indexed, IndexTotals { records: records.len() as u64, bytes: bytes.len() as u64 });
        assert!(text == expected, "the index differs with {count} threads");
    }
}

#[test]
fn splits_start_and_end_between_records() {
    // These records are longer in total than four splits.
    let records: Vec<Vec<u8>> = mixed().into_iter().cycle().take(18_000).collect();
    let records: Vec<Vec<u8>> = records.into_iter().filter(|record| record.len() < 3 << 20).collect();
    let bytes = frames(&records);
    assert!(bytes.len() > 64 << 20);
    let expected: Vec<Vec<u8>> = records.iter().map(|record| Sha256::digest(record).to_vec()).collect();
    let (_, index) = index(&MemorySource::file("f", bytes.clone()), &threads(3));
    let files = |index: &str| {
        let files = [("f".to_owned(), bytes.clone()), ("f.idx".to_owned(), index.as_bytes().to_vec())];
        MemorySource::new(Entry::File("f".to_owned()), BTreeMap::from(files))
    };
    for (source, given) in [
        (MemorySource::file("f", bytes.clone()), "auto"),
        (files(&index), "auto"),
        (files(&index), "none"),
        (files("0 20\n"), "auto"),
    ] {
        let context = threads(2);
        let set = open(source, &[("decode", "raw"), ("index", given)], &context).unwrap();
        assert!(set.splits().len() > 3);
        assert_eq!(digests(&all_rows(&*set)), expected);
        let known: Option<u64> = set.splits().iter().map(|split| split.records).sum();
        assert_eq!(known, Some(records.len() as u64));
    }
}

#[test]
fn the_schema_is_the_same_whatever_the_number_of_threads() {
    let messages: Vec<Example> = (0..60_000_i64)
        .map(|n| {
            let name = format!("only{}", n / 7_000);
            example(&[
                ("n", ints(&[n])),
                (name.as_str(), ints(&vec![n; usize::try_from(n % 5).unwrap()])),
                ("pad", ints(&[-1; 10])),
            ])
        })
        .collect();
    let bytes = file(&messages);
    assert!(bytes.len() > 8 << 20);
    let mut seen = Vec::new();
    for count in [1, 2, 4] {
        let set = open(MemorySource::file("f", bytes.clone()), &[], &threads(count)).unwrap();
        let rows = all_rows(&*set);
        assert_eq!(column_of_ints(&rows, "n"), (0..60_000).collect::<Vec<_>>());
        seen.push((set.schema(), count_rows(&rows)));
    }
    assert_eq!(seen[0].0.fields().len(), 2 + 9);
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    // The reader always reports the same contradiction, even if another thread finds a later
    // contradiction first.
    let mut broken = messages;
    for at in [20_000, 40_000] {
        broken[at] = example(&[("n", common::floats(&[1.0]))]);
    }
    for count in [1, 3] {
        let error = common::refused(MemorySource::file("f", file(&broken)), &[], &threads(count)).to_string();
        assert!(error.contains("record 20000"), "{error}");
    }
}

#[test]
fn an_index_of_another_file_is_found_out() {
    // The index has no gaps, and each of its offsets is the position of a length with a valid
    // checksum. However, one of the offsets is inside a record.
    let inner = frames(&vec![vec![1; 1000]; 40_000]);
    let records = vec![inner.clone(), vec![2; 40 << 20]];
    let bytes = frames(&records);
    let first = 12 + 1016 * 20_000;
    let index = format!("0 {first}\n{first} {}\n", bytes.len() - first);
    let files = [("f".to_owned(), bytes), ("f.idx".to_owned(), index.into_bytes())];
    let source = MemorySource::new(Entry::File("f".to_owned()), BTreeMap::from(files));
    let error = common::refused(source, &[("decode", "raw")], &threads(2)).to_string();
    assert!(error.contains("index"), "{error}");
}

#[test]
fn an_index_is_of_one_file_that_is_not_compressed() {
    let reader = TfRecord.record_reader(&common::options(Side::Reader, &[])).unwrap();
    let gzip = MemorySource::file("f.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0".as_slice());
    let error = reader.index(&gzip, &mut Vec::new(), &threads(1)).unwrap_err();
    assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Unsupported);
    let folder = common::source(Entry::Folder, &[("f", frames(&[b"x"]))]);
    let error = reader.index(&folder, &mut Vec::new(), &threads(1)).unwrap_err();
    assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Usage);
}
