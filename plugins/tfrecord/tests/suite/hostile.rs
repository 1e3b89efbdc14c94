//! Damaged and hostile files cause typed errors that contain a position. Memory use does not depend
//! on the sizes that files claim.

use crate::common::{
    self, Threaded, all_rows, bytes, count_rows, example, file, floats, frames, gzip, ints, lines, masked,
    open, open_file, open_lines, rows, source, threads,
};
use std::io::Write;
use tensorferry_proto::Message;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Entry, ErrorKind, Limits, MemoryContext, MemorySource, Purpose};

/// Returns the error from reading a file.
fn refused(bytes: &[u8], given: &[(&str, &str)]) -> tensorferry_sdk::Error {
    common::refused(MemorySource::file("f.tfrecord", bytes), given, &threads(2))
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    let block = snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    [&u32::try_from(block.len()).unwrap().to_be_bytes()[..], &block].concat()
}

#[test]
fn a_length_of_four_exabytes_is_a_file_that_ends_too_early() {
    let len = (1_u64 << 62).to_le_bytes();
    let record = [&len[..], &masked(&len).to_le_bytes(), b"data"].concat();
    for bytes in [record.clone(), gzip(&record), snappy(&record)] {
        for decode in ["auto", "raw"] {
            let error = refused(&bytes, &[("decode", decode)]);
            assert!(matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Limit), "{error}");
            assert!(error.to_string().contains("record 0"), "{error}");
        }
    }
    let error = refused(&record, &[("decode", "raw")]);
    assert!(error.to_string().contains("4611686018427387920 bytes"), "{error}");
}

#[test]
fn a_bomb_stops_at_the_limit() {
    // A record that contains 64 MiB of zeros. The zeros compress to 64 KiB.
    let bomb = gzip(&frames(&[vec![0; 64 << 20]]));
    assert!(bomb.len() < 100 << 10);
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    let context = Threaded { inner: MemoryContext::new(limits), threads: 2 };
    let set = open(MemorySource::file("f", bomb), &[("decode", "raw")], &context).unwrap();
    let error = rows(&*set, &Batches::default()).1.unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    // A length that exceeds the decompressed stream.
    let len = (1_u64 << 29).to_le_bytes();
    let claim = gzip(&[&len[..], &masked(&len).to_le_bytes(), b"data"].concat());
    let error = refused(&claim, &[("decode", "raw")]);
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    // A block that claims a larger decompressed size than snappy can produce.
    let block = [&6_u32.to_be_bytes()[..], &[0xff, 0xff, 0xff, 0x7f, 0, 0]].concat();
    let error = refused(&block, &[("compression", "snappy")]);
    assert!(error.to_string().contains("length is not possible"), "{error}");
}

#[test]
fn messages_that_are_none_are_named_and_skipped() {
    let good = example(&[("a", ints(&[1]))]).encode_to_vec();
    for bad in [
        &b"\x0a\xff\xff\xff\xff\x0f"[..],
        b"\x0a\x05\x0a\x03\x0a\x01",
        b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02\x0a\x05",
        b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02\x0a\x80",
        b"\x0c",
        &[0x0b; 300],
    ] {
        let file = frames(&[&good, &bad.to_vec(), &good]);
        let error = refused(&file, &[]);
        let reported = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{reported}");
        assert!(
            reported.contains("record 1") && reported.contains(&format!("offset {}", good.len() + 16)),
            "{reported}"
        );
        let set = open_file(&file, &[("on_error", "skip")]).unwrap();
        assert_eq!(count_rows(&all_rows(&*set)), 2);
        let skipped = set.skipped();
        assert_eq!((skipped.len(), skipped[0].record), (1, Some(1)));
        // Individual records can still be displayed.
        let (lines, error) = lines(&*open_lines(MemorySource::file("f", file), &[]).unwrap());
        assert!(error.is_none() && lines.len() == 3 && lines[1].get("raw").is_some(), "{lines:?}");
    }
}

/// Returns ten records of equal length.
fn ten() -> Vec<Vec<u8>> {
    (0..10).map(|n| example(&[("a", ints(&[n]))]).encode_to_vec()).collect()
}

#[test]
fn damage_is_skipped_up_to_a_limit() {
    let records = ten();
    let mut file = frames(&records);
    let whole = records[0].len() + 16;
    for record in [2, 5, 6] {
        file[whole * record + 14] ^= 1;
    }
    let given = |max| [("on_error", "skip"), ("max_errors", max)];
    let set = open_file(&file, &given("3")).unwrap();
    assert_eq!(all_rows(&*set)[0].num_rows(), 7);
    let offsets: Vec<u64> = set.skipped().iter().map(|skipped| skipped.offset).collect();
    assert_eq!(offsets, [2, 5, 6].map(|record| (whole * record) as u64));
    let error = refused(&file, &given("2"));
    assert!(error.to_string().contains("more than 2") && error.to_string().contains("record 6"), "{error}");
    // If checksums are not verified, the damage is not detected.
    let unchecked = open_file(&file, &[("checksums", "false"), ("decode", "raw")]).unwrap();
    assert_eq!(count_rows(&all_rows(&*unchecked)), 10);
}

#[test]
fn a_bad_length_ends_its_file_and_no_other() {
    let records = ten();
    let good = frames(&records);
    let mut bad = good.clone();
    bad[(records[0].len() + 16) * 4] ^= 1;
    let files = [("a.tfrecord", bad.clone()), ("b.tfrecord", good.clone()), ("c.tfrecord", bad)];
    let source = || common::source(tensorferry_sdk::Entry::Folder, &files);
    let set = open(source(), &[("on_error", "skip")], &threads(2)).unwrap();
    assert_eq!(count_rows(&all_rows(&*set)), 4 + 10 + 4);
    let skipped = set.skipped();
    assert_eq!(skipped.len(), 2);
    assert!(skipped.iter().all(|skipped| skipped.why.contains("cannot be read")), "{skipped:?}");
    let (lines, error) = lines(&*open_lines(source(), &[]).unwrap());
    assert_eq!(lines.len(), 4);
    assert!(error.unwrap().to_string().contains("record 4"));
}

#[test]
fn stray_bytes_at_the_end_are_an_error_unless_they_may_be() {
    let good = frames(&[b"abc"]);
    for stray in 1..12 {
        let file = [&good[..], &vec![0; stray]].concat();
        let error = refused(&file, &[("decode", "raw")]);
        assert!(error.to_string().contains("record 1") && error.to_string().contains("offset 19"), "{error}");
        let set = open_file(&file, &[("decode", "raw"), ("tail", "skip")]).unwrap();
        assert_eq!(all_rows(&*set)[0].num_rows(), 1);
        assert_eq!(set.skipped().len(), 1);
    }
}

#[test]
fn a_schema_that_records_contradict_is_an_error() {
    let messages = [
        example(&[("a", ints(&[1]))]),
        example(&[("a", ints(&[1, 2]))]),
        example(&[("a", ints(&[1])), ("b", ints(&[1]))]),
    ];
    // The schema is inferred from the first record, in which the feature has a single value.
    let error = refused(&file(&messages), &[("infer", "1")]);
    let reported = error.to_string();
    assert!(
        reported.contains("record 1") && reported.contains("column \"a\"") && reported.contains("2 values"),
        "{reported}"
    );
    let error = refused(&file(&[messages[0].clone(), messages[2].clone()]), &[("infer", "1")]);
    assert!(error.to_string().contains("column \"b\""), "{error}");
    let error = refused(&file(&[messages[0].clone(), example(&[("a", floats(&[1.0]))])]), &[("infer", "1")]);
    assert!(error.to_string().contains("float_list"), "{error}");
    let error = refused(&file(&[example(&[("a", bytes(&[b"\xff"]))])]), &[("bytes", "utf8")]);
    assert!(error.to_string().contains("UTF-8") && error.to_string().contains("record 0"), "{error}");
}

#[test]
fn what_is_compressed_and_damaged_says_where() {
    let records: Vec<Vec<u8>> =
        (0..2000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes().repeat(3)).collect();
    let plain = frames(&records);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&plain).unwrap();
    for (codec, compressed) in
        [("gzip", gzip(&plain)), ("zlib", zlib.finish().unwrap()), ("snappy", snappy(&plain))]
    {
        let given = [("decode", "raw"), ("compression", codec)];
        assert_eq!(all_rows(&*open_file(&compressed, &given).unwrap())[0].num_rows(), 2000);
        assert_eq!(all_rows(&*open_file(&compressed, &given[..1]).unwrap())[0].num_rows(), 2000);
        for cut in [1, 5, 9, compressed.len() / 2] {
            let cut = &compressed[..compressed.len() - cut];
            assert_eq!(refused(cut, &given).kind(), ErrorKind::Malformed, "{codec}");
        }
        for at in [compressed.len() / 2, compressed.len() - 3] {
            let mut damaged = compressed.clone();
            damaged[at] ^= 0x10;
            assert_eq!(refused(&damaged, &given).kind(), ErrorKind::Malformed, "{codec} {at}");
        }
    }
}

#[test]
fn columns_are_limited() {
    let context = |purpose| {
        let mut context = threads(2);
        context.inner.limits.columns = 99;
        context.inner.purpose = purpose;
        context
    };
    let one_of = |i: i64| example(&[(&format!("k{i}"), ints(&[i]))]);
    let file_of = |range: std::ops::Range<i64>| file(&range.map(one_of).collect::<Vec<_>>());
    let wide = (0..100).map(|i| (format!("k{i}"), ints(&[i]))).collect::<Vec<_>>();
    let wide = example(&wide.iter().map(|(key, feature)| (&**key, feature.clone())).collect::<Vec<_>>());
    // The number of columns in each file is below the limit.
    let two = [("a.tfrecord", file_of(0..60)), ("b.tfrecord", file_of(40..100))];
    for (files, given, purpose) in [
        (&[("a.tfrecord", file_of(0..100))][..], &[][..], Purpose::SHOW),
        (&[("a.tfrecord", file(&[wide]))], &[], Purpose::ONCE),
        (&two, &[], Purpose::SHOW),
        (&two, &[("infer", "1000")], Purpose::SHOW),
    ] {
        let error = common::refused(source(Entry::Folder, files), given, &context(purpose));
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let reported = format!("{error} {:?}", error.details().collect::<Vec<_>>());
        for part in [files[files.len() - 1].0, "columns=", "at most 99"] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
    }
    let enough = MemorySource::file("f.tfrecord", file_of(0..99));
    let set = open(enough, &[], &context(Purpose::SHOW)).unwrap();
    assert_eq!(set.schema().fields().len(), 99);
    assert_eq!(count_rows(&all_rows(&*set)), 99);
}
