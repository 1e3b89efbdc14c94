//! If an input can be read only once, its schema is guessed. If the guess is wrong, a stream
//! reports a wrong guess.

use crate::common::{
    Threaded, all_rows, bytes, count_rows, example, file, floats, frames, gzip, ints, open, rows, source,
    threads,
};
use tensorferry_proto::{Example, Feature, Message};
use tensorferry_sdk::memory::records::OpenedRecords;
use tensorferry_sdk::records::{Batches, RecordSet, from_stream};
use tensorferry_sdk::{Entry, ErrorKind, MemorySource, Purpose};

fn once() -> Threaded {
    let mut context = threads(2);
    context.inner.purpose = Purpose::ONCE;
    context
}

fn guessed(source: MemorySource) -> OpenedRecords {
    let set = open(source, &[], &once()).unwrap();
    assert!(is_guess(&*set), "the reader must not read all records first");
    set
}

/// Returns whether the splits are guessed. If the reader has read all records, the number of rows
/// is known.
fn is_guess(set: &dyn RecordSet) -> bool {
    set.splits().iter().all(|split| split.records.is_none())
}

fn one(n: i64) -> Example {
    example(&[("n", ints(&[n])), ("x", floats(&[0.5, n as f32])), ("s", bytes(&[b"word"]))])
}

/// Returns equal records, more than the reader samples, followed by a different record.
fn alike_and(last: Example) -> Vec<u8> {
    file(&(0..200).map(one).chain([last]).collect::<Vec<_>>())
}

#[test]
fn a_guess_gives_what_a_look_at_all_records_gives() {
    let plain = alike_and(one(200));
    let folder = [("a.tfrecord", plain.clone()), ("b.tfrecord", alike_and(example(&[("x", floats(&[]))])))];
    let compressed = [("f", gzip(&plain))];
    for (entry, files, expected) in [
        (Entry::File("f".to_owned()), &[("f", plain)][..], 201),
        (Entry::File("f".to_owned()), &compressed, 201),
        (Entry::Folder, &folder, 402),
    ] {
        let set = guessed(source(entry.clone(), files));
        let certain = open(source(entry, files), &[], &threads(2)).unwrap();
        assert!(!is_guess(&*certain));
        assert_eq!(set.schema(), certain.schema());
        let rows = all_rows(&*set);
        assert_eq!((count_rows(&rows), &rows), (expected, &all_rows(&*certain)));
        assert_eq!(set.losses(), certain.losses());
    }
}

#[test]
fn what_contradicts_the_guess_is_an_error_of_a_stream() {
    for last in [
        example(&[("n", ints(&[1])), ("another", ints(&[1]))]),
        example(&[("n", ints(&[1, 2]))]),
        example(&[("n", ints(&[]))]),
        example(&[("x", ints(&[1]))]),
    ] {
        let set = guessed(MemorySource::file("f", alike_and(last)));
        let (before, error) = rows(&*set, &Batches::default());
        assert!(error.is_some_and(|error| error.is_wrong_guess()));
        assert_eq!(count_rows(&before), 200);
    }
}

#[test]
fn damage_is_told_at_once() {
    let mut damaged = alike_and(one(200));
    *damaged.last_mut().unwrap() ^= 1;
    let (before, error) = rows(&*guessed(MemorySource::file("f", damaged)), &Batches::default());
    let error = error.unwrap();
    assert_eq!((error.kind(), count_rows(&before)), (ErrorKind::Malformed, 200));
    assert!(error.to_string().contains("record 200"), "{error}");
}

#[test]
fn a_feature_without_a_kind_is_counted() {
    let set = guessed(MemorySource::file("f", alike_and(example(&[("n", Feature { kind: None })]))));
    assert_eq!(count_rows(&all_rows(&*set)), 201);
    let losses = set.losses().unwrap();
    assert!(losses.len() == 1 && losses[0].why.contains("without a kind"), "{losses:?}");
    // A sampled record without a kind is counted in the same way.
    let set = guessed(MemorySource::file("f", file(&[one(0), example(&[("n", Feature { kind: None })])])));
    assert_eq!(count_rows(&all_rows(&*set)), 2);
    let losses = set.losses().unwrap();
    assert!(losses.len() == 1 && losses[0].why.starts_with("once,"), "{losses:?}");
}

#[test]
fn nothing_is_guessed_where_the_first_records_tell_too_little() {
    let unset = example(&[("n", ints(&[1])), ("m", Feature { kind: None })]);
    let mut contradicting = vec![one(1), example(&[("n", floats(&[1.0]))])];
    contradicting.extend((0..100).map(one));
    let mut damaged = file(&[one(1), one(2)]);
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, given) in [
        (file(&[unset]), vec![("decode", "example")]),
        (file(&contradicting), vec![]),
        (damaged, vec![]),
        (alike_and(one(200)), vec![("on_error", "skip")]),
    ] {
        match open(MemorySource::file("f", bytes), &given, &once()) {
            Ok(set) => assert!(!is_guess(&*set)),
            // If the reader reads all records before decoding, it has already found the
            // contradiction.
            Err(error) => assert!(error.to_string().contains("record 1"), "{error}"),
        }
    }
}

#[test]
fn a_split_that_does_not_begin_where_it_seems_to_is_found_out() {
    const SPLIT: usize = 16 << 20;
    let pad = |len: usize| example(&[("s", bytes(&[&vec![0; len]]))]).encode_to_vec();
    let mut records = Vec::new();
    let mut total = 0;
    let inner = frames(&vec![pad(100); 10_000]);
    while total < 5 * SPLIT {
        // One record contains other records, and spans the offset at which the search for the start
        // of the second split begins.
        let is_here = (total..total + inner.len() / 2).contains(&SPLIT);
        let record = if is_here { example(&[("s", bytes(&[&inner]))]).encode_to_vec() } else { pad(400_000) };
        total += record.len() + 16;
        records.push(record);
    }
    let bytes = frames(&records);
    let holds_records = records.iter().any(|record| record.len() > 1_000_000);
    assert!(holds_records && bytes.len() > 4 * SPLIT);
    let set = guessed(MemorySource::file("f", bytes.clone()));
    assert!(set.splits().len() > 3);
    let (_, error) = rows(&*set, &Batches::default());
    assert!(error.unwrap().is_wrong_guess());
    // Without the record that contains records, the guessed splits are correct.
    records.retain(|record| record.len() < 1_000_000);
    let set = guessed(MemorySource::file("f", frames(&records)));
    assert!(set.splits().len() > 3);
    assert_eq!(count_rows(&all_rows(&*set)), records.len());
    let lens: u64 = set.splits().iter().map(|split| split.bytes).sum();
    assert_eq!(lens, frames(&records).len() as u64);
}

#[test]
fn a_fault_far_into_a_file_is_told_with_its_place() {
    let record = example(&[("s", bytes(&[&vec![7; 40_000]]))]).encode_to_vec();
    let whole = record.len() + 16;
    let good = frames(&vec![record; (70 << 20) / 40_000]);
    // The damaged record follows the sampled records of its split.
    let bad = (50 << 20) / whole;
    // The loop damages the checksum of the data, and then the checksum of the length.
    for at in [bad * whole + 1000, bad * whole + 9] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let set = guessed(MemorySource::file("f", bytes));
        let damaged = set.splits().iter().rposition(|split| split.offset <= (bad * whole) as u64).unwrap();
        assert!(damaged > 1);
        // The result is the same whether or not the earlier splits have been read.
        for _ in 0..2 {
            let stream = set.stream(damaged, &Batches::default()).unwrap();
            let error = stream.filter_map(Result::err).map(from_stream).next().unwrap();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
            assert!(error.to_string().contains(&format!("record {bad}")), "{error}");
            for split in 0..damaged {
                set.stream(split, &Batches::default()).unwrap().for_each(|batch| drop(batch.unwrap()));
            }
        }
    }
}
