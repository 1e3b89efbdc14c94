//! Files with false claims. ferry reads each file, or rejects it with an error that names the
//! location. No file causes a panic, or makes ferry allocate memory for data that the file does not
//! contain.

use crate::common::{file, open, read, read_within, write};
use std::sync::Arc;
use std::time::Instant;
use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder};
use tensorferry_sdk::arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::records::{Batches, from_stream};
use tensorferry_sdk::{Error, ErrorKind, Limits, MemorySource};
use tensorferry_test_kit::rows::rows;

fn numbers() -> RecordBatch {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for i in 0..20_i64 {
        lists.values().append_slice(&vec![i; usize::try_from(i % 5).unwrap()]);
        lists.append(i % 7 != 0);
    }
    let words: Vec<_> = (0..20).map(|i| ["a", "bb", "ccc"][i % 3]).collect();
    rows(vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..20)) as ArrayRef),
        ("w", Arc::new(StringArray::from(words.clone()))),
        ("b", Arc::new(BinaryArray::from_iter_values(words))),
        ("l", Arc::new(lists.finish())),
    ])
}

fn small_limits() -> Limits {
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    limits
}

fn error_of(bytes: &[u8]) -> Error {
    read(bytes).unwrap_err()
}

#[test]
fn a_file_cut_anywhere_is_malformed() {
    let good = file(&[numbers()], &[]);
    for len in 0..good.len() {
        let error = error_of(&good[..len]);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{len} bytes: {error}");
        assert!(error.to_string().contains("in.parquet"), "{error}");
    }
}

#[test]
#[ignore = "flips thousands of bits"]
fn a_flipped_bit_is_refused_or_read() {
    for options in
        [vec![], vec![("compression", "zstd"), ("dictionary", "true")], vec![("compression", "none")]]
    {
        let good = file(&[numbers()], &options);
        let (mut read, mut refused) = (0, 0);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match read_within(&bad, small_limits()) {
                Ok(_) => read += 1,
                Err(error) => {
                    let kinds = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
                    assert!(kinds.contains(&error.kind()), "bit {bit}: {error}");
                    assert!(error.to_string().contains("in.parquet"), "bit {bit}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 0 && refused > good.len(), "{read} read, {refused} refused");
    }
}

#[test]
fn an_error_says_where() {
    let good = file(&[numbers(), numbers()], &[("compression", "snappy")]);
    let set = open(MemorySource::file("in.parquet", &good[..]), Limits::default()).unwrap();
    let split = set.splits()[1].clone();
    // The loop damages all pages of the second row group.
    let mut bad = good.clone();
    let range = usize::try_from(split.offset).unwrap()..usize::try_from(split.offset + split.bytes).unwrap();
    bad[range].fill(0xff);
    let error = error_of(&bad);
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let message = error.to_string();
    // The dictionary of column "w" is the first page that is read, because the batch length depends
    // on it.
    for part in ["in.parquet", "row group 1", "column \"w\"", "offset"] {
        assert!(message.contains(part), "{message}");
    }
    // Damage in the last column does not affect a scan of the first column.
    let request = Batches { columns: Some(vec![0]), ..Batches::default() };
    let mut bad = good.clone();
    let end = usize::try_from(split.offset + split.bytes).unwrap();
    bad[end - 20..end].fill(0xff);
    assert!(error_of(&bad).to_string().contains("column \"l"), "{}", error_of(&bad));
    let set = open(MemorySource::file("in.parquet", bad), Limits::default()).unwrap();
    for batch in set.stream(1, &request).unwrap() {
        batch.map_err(from_stream).unwrap();
    }
}

#[test]
fn a_column_is_found_among_many_in_the_time_of_reading_them() {
    // For strings that are not UTF-8, the `parquet` crate does not report the column.
    const COLUMNS: usize = 6000;
    let names: Vec<String> = (0..COLUMNS).map(|index| format!("c{index}")).collect();
    let good: ArrayRef = Arc::new(StringArray::from(vec!["abc"]));
    let batch = rows(names.iter().map(|name| (&name[..], good.clone())).collect());
    let mut bytes = file(&[batch], &[("compression", "none"), ("dictionary", "false")]);
    let clock = Instant::now();
    read(&bytes).unwrap();
    let once = clock.elapsed();
    // The last match is the value itself, because a page follows its statistics.
    let set = open(MemorySource::file("in.parquet", &bytes[..]), Limits::default()).unwrap();
    let end = usize::try_from(set.splits()[0].offset + set.splits()[0].bytes).unwrap();
    let at = bytes[..end].windows(3).rposition(|three| three == b"abc").unwrap();
    bytes[at] = 0xff;
    let clock = Instant::now();
    let error = error_of(&bytes).to_string();
    let found = clock.elapsed();
    assert!(error.contains(&format!("column {:?}", names[COLUMNS - 1])), "{error}");
    assert!(found < once * 12, "finding the column took {found:?}, reading all columns {once:?}");
}

#[test]
fn a_page_may_not_claim_more_than_it_can_hold() {
    let good = file(
        &[rows(vec![("n", Arc::new(Int64Array::from_iter_values(0..100)))])],
        &[("compression", "zstd"), ("dictionary", "false")],
    );
    // The first page header contains 15 00 (the type of a data page), followed by 15 and the
    // uncompressed length as a varint.
    assert_eq!(&good[4..7], [0x15, 0, 0x15]);
    let claimed = |len: u64| {
        // The varint is two bytes long, so the claimed length is at most 8191.
        let mut bad = good.clone();
        let zigzag = len << 1;
        bad[7] = u8::try_from(zigzag & 0x7f).unwrap() | 0x80;
        bad[8] = u8::try_from(zigzag >> 7).unwrap();
        bad
    };
    let mut limits = Limits::default();
    limits.header_bytes = 8000;
    let error = read_within(&claimed(8100), limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("offset 4"), "{error}");
    assert_eq!(read_within(&claimed(8100), Limits::default()).unwrap_err().kind(), ErrorKind::Malformed);
}

#[test]
fn a_page_that_is_longer_than_it_claims_is_not_decompressed() {
    let zeros = vec![0_u8; 10 << 20];
    let column: ArrayRef = Arc::new(BinaryArray::from(vec![&zeros[..]]));
    for compression in ["gzip", "brotli"] {
        let mut bytes = file(&[rows(vec![("b", column.clone())])], &[("compression", compression)]);
        assert!(bytes.len() < 1 << 20, "{compression}: {} bytes", bytes.len());
        read(&bytes).unwrap();
        assert_eq!(&bytes[4..7], [0x15, 0, 0x15]);
        // The page claims 1.5 MiB. This varint is four bytes long.
        bytes[7..11].copy_from_slice(&[0x80, 0x80, 0xc0, 0x01]);
        let mut limits = Limits::default();
        limits.header_bytes = 2 << 20;
        let error = read_within(&bytes, limits).unwrap_err();
        assert!(error.to_string().contains("longer than its header claims"), "{compression}: {error}");
    }
}

#[test]
fn a_repeated_value_makes_short_batches() {
    // The file contains 3,200 rows of half a megabyte each, which are encoded in a few bytes of
    // indices. A dictionary is limited to one megabyte.
    let value = "x".repeat(1 << 19);
    let column: ArrayRef = Arc::new(StringArray::from(vec![value.as_str(); 64]));
    let batch = rows(vec![("s", column)]);
    let bytes = write(&batch.schema(), &[vec![batch.clone(); 50]], &[("dictionary", "true")]).unwrap();
    let bytes = bytes.files.into_values().next().unwrap();
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let set = open(MemorySource::file("in.parquet", bytes), Limits::default()).unwrap();
    let mut count = 0;
    for batch in set.stream(0, &Batches::default()).unwrap() {
        let batch = batch.unwrap();
        assert!(batch.num_rows() <= 16, "{} rows", batch.num_rows());
        count += batch.num_rows();
        if count > 100 {
            break;
        }
    }
}

#[test]
fn a_list_that_is_too_long_is_a_limit() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.values().append_slice(&vec![7; 1_000_000]);
    lists.append(true);
    let bytes = file(&[rows(vec![("l", Arc::new(lists.finish()))])], &[("dictionary", "true")]);
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let error = read_within(&bytes, small_limits()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    read(&bytes).unwrap();
}

#[test]
fn a_footer_is_bounded() {
    let good = file(&[numbers()], &[]);
    let mut limits = Limits::default();
    limits.header_bytes = 1000;
    assert_eq!(read_within(&good, limits).unwrap_err().kind(), ErrorKind::Limit);
    let mut bad = good.clone();
    let at = bad.len() - 8;
    bad[at..at + 4].fill(0xff);
    let error = error_of(&bad);
    assert!(error.kind() == ErrorKind::Malformed && error.to_string().contains("4294967295"), "{error}");
    let mut encrypted = good;
    let at = encrypted.len() - 1;
    encrypted[at] = b'E';
    assert_eq!(error_of(&encrypted).kind(), ErrorKind::Unsupported);
}
