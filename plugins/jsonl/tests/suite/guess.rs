//! If an input is read only once, its schema is guessed from the first lines. If another line does
//! not fit, the stream reports a wrong guess.

use crate::common::{folder, open_beside};
use std::io::Write as _;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::memory::records::OpenedRecords;
use tensorferry_sdk::records::{Batches, from_stream};
use tensorferry_sdk::{Error, MemoryContext, MemorySource, Purpose};
use tensorferry_test_kit::rows::batches;

fn open(source: MemorySource, purpose: Purpose) -> OpenedRecords {
    let mut context = MemoryContext::default();
    context.purpose = purpose;
    open_beside(source, &[], &context).unwrap()
}

/// Returns whether the schema is guessed. If the reader has read all lines, the number of rows is
/// known.
fn is_guess(set: &OpenedRecords) -> bool {
    set.splits().iter().all(|split| split.records.is_none())
}

const LINE: &str = r#"{"i": 1, "f": 0.5, "s": "x", "l": [{"b": true}], "u": 18446744073709551615}"#;

/// Returns more equal lines than the reader samples.
fn many(line: &str) -> String {
    format!("{line}\n").repeat((700 << 10) / line.len())
}

/// Returns the error of the first batch that cannot be read.
fn error(set: &OpenedRecords, request: &Batches) -> Option<Error> {
    set.stream(0, request).unwrap().find_map(Result::err).map(from_stream)
}

#[test]
fn a_guess_returns_what_a_scan_of_all_lines_returns() {
    let text = many(LINE) + "\r\n {\"u\": 0, \"l\": [], \"f\": \"NaN\"}\n{\"f\": 0.1234567890123456789}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(text.as_bytes()).unwrap();
    for bytes in [text.clone().into_bytes(), text.repeat(25).into_bytes(), gzip.finish().unwrap()] {
        let source = || MemorySource::file("in.jsonl", bytes.clone());
        let (guess, scan) = (open(source(), Purpose::ONCE), open(source(), Purpose::FLAT));
        assert!(is_guess(&guess) && !is_guess(&scan));
        assert_eq!(guess.schema(), scan.schema());
        for columns in [None, Some(vec![1, 3])] {
            let request = Batches { columns, ..Batches::default() };
            let rows: [Vec<RecordBatch>; 2] = [&guess, &scan].map(|set| batches(&**set, &request).unwrap());
            assert_eq!(rows[0], rows[1]);
        }
        assert_eq!(guess.losses(), scan.losses());
    }
}

#[test]
fn a_line_that_does_not_fit_is_a_wrong_guess() {
    for last in [
        r#"{"new": 1}"#,
        r#"{"i": 1, "i": 2}"#,
        r#"{"i": 1.0}"#,
        r#"{"i": -0}"#,
        r#"{"i": 9223372036854775808}"#,
        r#"{"i": "1"}"#,
        r#"{"f": "1.5"}"#,
        r#"{"f": 9007199254740993}"#,
        r#"{"f": 1e400}"#,
        r#"{"u": -1}"#,
        r#"{"s": 1}"#,
        r#"{"l": [{}]}"#,
        r#"{"l": [[]]}"#,
        r#"{"l": [{"b": true, "c": 1}]}"#,
        r#"{"i": 1"#,
        "[]",
        "1",
        "{}{}",
    ] {
        let set = open(MemorySource::file("in.jsonl", many(LINE) + last), Purpose::ONCE);
        assert!(is_guess(&set), "{last}");
        for columns in [None, Some(vec![2])] {
            let error = error(&set, &Batches { columns, ..Batches::default() });
            assert!(error.is_some_and(|error| error.is_wrong_guess()), "{last}");
        }
    }
}

#[test]
fn nothing_is_guessed_where_the_first_lines_tell_too_little() {
    let of = |line: &str| MemorySource::file("in.jsonl", many(line));
    for line in [
        r#"{"a": null}"#,
        r#"{"a": [[]]}"#,
        r#"{"a": 18446744073709551616}"#,
        r#"{"a": [{"b": 1}, {}]}"#,
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": [0.5, 9007199254740993]}"#,
    ] {
        assert!(!is_guess(&open(of(line), Purpose::ONCE)), "{line}");
    }
    // The order of the keys depends on all lines of the first file.
    let [first, second] = [many(r#"{"a": 1}"#) + r#"{"c": 1}"#, r#"{"b": 1, "c": 1}"#.to_owned()];
    let files = folder(&[("a.jsonl", &first), ("b.jsonl", &second)]);
    let set = open(MemorySource::folder(files), Purpose::ONCE);
    assert!(!is_guess(&set));
    let names: Vec<_> = set.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["a", "c", "b"]);
}
