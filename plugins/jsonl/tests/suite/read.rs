//! Tests of the reader, which converts lines to rows.

use crate::common::{folder, open, open_beside, read, refusal};
use std::io::Write as _;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    UInt64Type,
};
use tensorferry_sdk::arrow_array::{Int64Array, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Field, TimeUnit};
use tensorferry_sdk::memory::records::OpenedRecords;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{ErrorKind, Limits, LossKind, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::rows::batches;

fn type_of(rows: &RecordBatch, column: &str) -> DataType {
    rows.schema().field_with_name(column).unwrap().data_type().clone()
}

#[test]
fn types_are_found_in_all_lines() {
    let rows = read(
        r#"{"i": 1, "f": 1, "s": "x", "b": true, "n": null, "l": [], "o": {"a": 1}}

        {"i": -2, "f": 0.5, "s": null, "b": null, "l": [[1], null], "o": {"b": "y"}, "late": 7}"#,
    )
    .unwrap();
    assert_eq!(rows.num_rows(), 2);
    assert_eq!(type_of(&rows, "i"), DataType::Int64);
    assert_eq!(type_of(&rows, "f"), DataType::Float64);
    assert_eq!(type_of(&rows, "s"), DataType::Utf8);
    assert_eq!(type_of(&rows, "b"), DataType::Boolean);
    assert_eq!(type_of(&rows, "n"), DataType::Null);
    assert_eq!(type_of(&rows, "l"), DataType::new_list(DataType::new_list(DataType::Int64, true), true));
    let parts = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
    assert_eq!(type_of(&rows, "o"), DataType::Struct(parts.into()));
    let late = rows.column_by_name("late").unwrap().as_primitive::<Int64Type>();
    assert_eq!(late, &Int64Array::from(vec![None, Some(7)]));
}

#[test]
fn integers_are_exact() {
    let rows = read(
        r#"{"i": 9007199254740993, "u": 18446744073709551615, "d": 123456789012345678901234567890, "m": -9223372036854775808}
           {"i": -9223372036854775808, "u": 0, "d": -1, "m": 9223372036854775807}"#,
    )
    .unwrap();
    let column = |name| rows.column_by_name(name).unwrap();
    assert_eq!(column("i").as_primitive::<Int64Type>().values(), &[9_007_199_254_740_993, i64::MIN]);
    assert_eq!(column("u").as_primitive::<UInt64Type>().values(), &[u64::MAX, 0]);
    let decimals = column("d").as_primitive::<Decimal128Type>();
    assert_eq!(decimals.values(), &[123_456_789_012_345_678_901_234_567_890, -1]);
    assert_eq!(column("m").as_primitive::<Int64Type>().values(), &[i64::MIN, i64::MAX]);
}

#[test]
fn an_integer_that_a_float_does_not_hold_is_a_loss() {
    let set = open(
        MemorySource::file(
            "in.jsonl",
            r#"{"a": {"x": 9007199254740993}}{"#.replace("}}{", "}}\n{\"a\": {\"x\": 0.5}}"),
        ),
        &[],
        Limits::default(),
    );
    let losses = set.unwrap().losses().unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].what.as_str()), (1, LossKind::Precision, "a.x"));
}

#[test]
fn words_for_floats_are_floats_among_numbers() {
    let rows = read(
        r#"{"f": "NaN", "s": "NaN", "m": 1}
           {"f": 1, "s": "Infinity", "m": "-Infinity"}
           {"f": "-Infinity", "s": null, "m": "Infinity"}"#,
    )
    .unwrap();
    let floats = rows.column_by_name("f").unwrap().as_primitive::<Float64Type>();
    assert!(floats.value(0).is_nan());
    assert_eq!((floats.value(1), floats.value(2)), (1.0, f64::NEG_INFINITY));
    assert_eq!(type_of(&rows, "s"), DataType::Utf8);
    assert_eq!(rows.column_by_name("m").unwrap().as_primitive::<Float64Type>().value(2), f64::INFINITY);
}

/// Returns about 40 MiB of lines, which are divided into several splits.
fn long() -> String {
    let mut text = String::new();
    for i in 0..400_000 {
        let blank = if i % 1000 == 0 { "\r\n\n" } else { "" };
        text += &format!("{blank}{{\"id\": {i}, \"text\": \"{}\"}}\n", "x".repeat(i % 160));
    }
    text
}

#[test]
fn splits_are_all_lines_and_each_once() {
    let text = long();
    let set = open(MemorySource::file("in.jsonl", text.clone()), &[], Limits::default()).unwrap();
    let splits = set.splits();
    assert!(splits.len() > 2, "{}", splits.len());
    assert_eq!(splits.iter().map(|split| split.records.unwrap()).sum::<u64>(), 400_000);
    assert_eq!(splits.iter().map(|split| split.bytes).sum::<u64>(), text.len() as u64);
    let mut next = 0;
    for (index, split) in splits.iter().enumerate() {
        let mut rows = 0;
        for batch in set.stream(index, &Batches { rows: 5000, ..Batches::default() }).unwrap() {
            let batch = batch.unwrap();
            assert!(batch.num_rows() <= 5000);
            for id in batch.column(0).as_primitive::<Int64Type>().values() {
                assert_eq!(*id, next);
                next += 1;
            }
            rows += batch.num_rows() as u64;
        }
        assert_eq!(Some(rows), split.records);
    }
    assert_eq!(next, 400_000);
}

#[test]
fn a_batch_is_about_as_long_as_is_asked_for() {
    let set =
        open(MemorySource::file("in.jsonl", "{\"a\":1}\n".repeat(1000)), &[], Limits::default()).unwrap();
    let request = Batches { bytes: 80, ..Batches::default() };
    let all = batches(&*set, &request).unwrap();
    assert!(all.iter().all(|batch| batch.num_rows() <= 10), "{}", all.len());
    assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    let none = Batches { columns: Some(Vec::new()), ..Batches::default() };
    let all = batches(&*set, &none).unwrap();
    assert_eq!((all[0].num_columns(), all.iter().map(RecordBatch::num_rows).sum::<usize>()), (0, 1000));
}

#[test]
fn compressed_files_are_read_as_one() {
    let text = "{\"a\": 1}\n{\"a\": 2}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    // A file of two gzip members is read as one sequence of lines.
    let twice = [&gzip[..], &gzip].concat();
    let zstd = zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    for (name, bytes, count) in
        [("a.jsonl.gz", twice, 4), ("a.jsonl", gzip.clone(), 2), ("a.jsonl.zst", zstd, 2)]
    {
        let set = open(MemorySource::file(name, bytes), &[], Limits::default()).unwrap();
        let rows = batches(&*set, &Batches::default()).unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), count, "{name}");
    }
    for len in 4..gzip.len() {
        let Err(error) = open(MemorySource::file("a.gz", &gzip[..len]), &[], Limits::default()) else {
            panic!("{len} bytes were read")
        };
        assert_eq!(error.kind(), ErrorKind::Malformed, "{len} bytes: {error}");
    }
}

#[test]
fn a_folder_is_one_table() {
    let files = folder(&[
        ("b.ndjson", "{\"a\": 2, \"late\": 0.5}"),
        ("a.jsonl", "\u{feff}{\"a\": 1}\n"),
        ("_c.jsonl", "no"),
        ("config.json", "{}"),
    ]);
    let set = open(MemorySource::folder(files), &[], Limits::default()).unwrap();
    let names: Vec<_> = set.splits().iter().map(|split| split.file.clone()).collect();
    assert_eq!(names, ["a.jsonl", "b.ndjson"]);
    let rows = batches(&*set, &Batches::default()).unwrap();
    assert_eq!(rows[0].schema(), rows[1].schema());
    assert_eq!(rows[0].num_columns(), 2);
}

#[test]
fn an_error_names_the_line_and_the_byte() {
    let good = "{\"a\": 1}\n\n";
    for (bad, parts) in [
        ("{\"a\": }", vec!["line 3", "offset 16", "expected value"]),
        ("[1]", vec!["line 3", "offset 10", "a list"]),
        ("7", vec!["line 3", "not a JSON object"]),
        ("{\"a\": 1} {\"a\": 2}", vec!["line 3", "trailing"]),
        ("{\"a\":\n1}", vec!["line 3", "EOF"]),
        ("{\"a\": \"x\"}", vec!["line 3", "column \"a\"", "numbers", "strings"]),
        ("{\"a\": NaN}", vec!["line 3", "offset 16", "no NaN", "\"NaN\"", "found NaN"]),
        ("{\"b\": [1, -Infinity]}", vec!["line 3", "no NaN", "found -Infinity"]),
        ("{\"a\": Nope}", vec!["line 3", "expected value"]),
        ("{\"a\": \"\u{1}\"}", vec!["line 3", "control character"]),
    ] {
        let message = refusal(format!("{good}{bad}\n"), &[]);
        for part in parts.iter().chain(&["in.jsonl"]) {
            assert!(message.contains(part), "{bad}: {message}");
        }
    }
    let message = refusal(b"{\"a\": \"\xff\"}", &[]);
    assert!(message.contains("line 1") && message.contains("unicode"), "{message}");
    let deep = refusal(format!("{{\"a\": {}", "[".repeat(1_000_000)), &[]);
    assert!(deep.contains("nest too deep") && deep.contains("at most 60 levels"), "{deep}");
    let nested = refusal("{\"a\": {\"b\": [1]}}\n{\"a\": {\"b\": [\"x\"]}}", &[]);
    assert!(nested.contains("column \"a.b\"") && nested.contains("line 2"), "{nested}");
}

#[test]
fn a_contradiction_between_splits_names_its_line() {
    let text = long() + "{\"id\": \"x\"}\n";
    let message = refusal(&text, &[]);
    let line = text.matches('\n').count();
    assert!(message.contains(&format!("line {line}:")) && message.contains("column \"id\""), "{message}");
}

#[test]
fn what_was_not_inferred_is_an_error_in_the_stream() {
    let text = "{\"a\": 1}\n".repeat(3);
    let refused = |line: &str| refusal(format!("{text}{line}\n"), &[("infer", "3")]);
    for (line, part) in
        [("{\"a\": 1, \"b\": 2}", "'b'"), ("{\"a\": \"x\"}", "line 4"), ("{\"a\": 0.5}", "line 4")]
    {
        let message = refused(line);
        assert!(
            message.contains(part) && message.contains("line 4") && message.contains("in.jsonl"),
            "{message}"
        );
    }
    // To report the line number, the reader counts the lines before the range, which have not been
    // read.
    let text = long() + "{\"id\": \"x\"}\n";
    let message = refusal(&text, &[("infer", "10")]);
    assert!(message.contains(&format!("line {}:", text.matches('\n').count())), "{message}");
}

#[test]
fn a_schema_says_what_is_read() {
    let schema = r#"{"columns": [
        {"name": "bin", "type": "binary"},
        {"name": "at", "type": "timestamp[ms]"},
        {"name": "box", "type": "float32", "shape": [2]},
        {"name": "price", "type": "decimal128(10, 2)", "required": true}]}"#;
    let with_schema = |text: &str| {
        let mut context = MemoryContext::default();
        context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
        let set = open_beside(MemorySource::file("in.jsonl", text), &[("schema", "schema.json")], &context)?;
        batches(&*set, &Batches::default())
    };
    let rows = with_schema(
        r#"{"bin": "/wBh", "at": "1970-01-01T00:00:00.001Z", "box": [1, "NaN"], "price": 1.25, "other": {}}
           {"price": -0.5}"#,
    );
    let rows = rows.unwrap().remove(0);
    assert_eq!(rows.column(0).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"\xff\0a"[..]), None]);
    assert_eq!(rows.column(1).as_primitive::<TimestampMillisecondType>().value(0), 1);
    assert!(rows.column(2).as_fixed_size_list().value(0).as_primitive::<Float32Type>().value(1).is_nan());
    assert_eq!(rows.column(3).as_primitive::<Decimal128Type>().values(), &[125, -50]);
    for (bad, part) in [
        (r#"{"bin": "?", "price": 1}"#, "base64"),
        (r#"{"bin": 1, "price": 1}"#, "base64"),
        (r#"{"bin": null}"#, "price"),
        (r#"{"box": [1], "price": 1}"#, "box"),
    ] {
        let message = with_schema(&format!("{{\"price\": 1}}\n{bad}")).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("line 2"), "{bad}: {message}");
    }
}

#[test]
fn a_column_of_the_schema_that_no_line_has_is_said() {
    let schema = r#"{"columns": [{"name": "lable", "type": "int64"}, {"name": "x", "type": "int64"}]}"#;
    let mut context = MemoryContext::default();
    context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
    let text = "{\"label\": 1}\n{\"label\": 2, \"x\": 3}\n";
    let set =
        open_beside(MemorySource::file("in.jsonl", text), &[("schema", "schema.json")], &context).unwrap();
    assert_eq!(set.losses().unwrap(), []);
    for _ in batches(&*set, &Batches { rows: 1, ..Batches::default() }).unwrap() {}
    let losses = set.losses().unwrap();
    assert_eq!(losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["lable"]);
    assert!(losses[0].why.contains("no line has a value"), "{losses:?}");
}

#[test]
fn a_type_that_does_not_hold_a_value_is_an_error() {
    let with = |data_type: &str, value: &str| {
        let schema = format!(r#"{{"columns": [{{"name": "v", "type": "{data_type}"}}]}}"#);
        let mut context = MemoryContext::default();
        context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
        let text = format!("{{\"v\": {value}}}");
        let set = open_beside(MemorySource::file("in.jsonl", text), &[("schema", "schema.json")], &context)?;
        Ok::<_, tensorferry_sdk::Error>(batches(&*set, &Batches::default())?.remove(0))
    };
    for (data_type, bad, good) in [
        ("decimal128(10, 1)", "1.55", "1.50"),
        ("decimal128(10, 1)", "\"1.55\"", "\"1.5\""),
        ("date32", "\"2020-01-01T12:34:56\"", "\"2020-01-01\""),
        ("timestamp[s]", "\"2020-01-01T12:34:56.5Z\"", "\"2020-01-01T12:34:56.000Z\""),
        ("timestamp[us]", "1.5", "1"),
        ("time32[s]", "\"12:34:56.5\"", "\"12:34:56\""),
        ("float32", "1e40", "\"Infinity\""),
        ("float16", "70000", "65504"),
        ("timestamp[s, Europe/Paris]", "\"2020-01-01T12:34:56\"", "\"2020-01-01T12:34:56+01:00\""),
        ("timestamp[s, UTC]", "\"x\"", "\"2020-01-01T12:34:56\""),
    ] {
        with(data_type, good).unwrap_or_else(|error| panic!("{data_type} {good}: {error}"));
        let message = with(data_type, bad).unwrap_err().to_string();
        assert!(message.contains("line 1"), "{data_type} {bad}: {message}");
    }
    let rows = with("timestamp[us, Europe/Paris]", "\"1970-01-01T01:00:00+01:00\"").unwrap();
    let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Paris".into()));
    assert_eq!(type_of(&rows, "v"), zone);
    assert_eq!(rows.column(0).as_primitive::<TimestampMicrosecondType>().value(0), 0);
}

#[test]
fn a_key_that_repeats_is_a_loss() {
    let text = "{\"a\": 1, \"c\": 0, \"b\": {\"x\": 1}}\n{\"b\": {\"x\": 1, \"x\": 2}, \"a\": 3, \"c\": 1}";
    let set = open(MemorySource::file("in.jsonl", text), &[], Limits::default()).unwrap();
    let losses = set.losses().unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].what.as_str()), (1, LossKind::Record, "x"));
    let text = "{\"a\": 1, \"c\": 0}\n{\"c\": 1, \"a\": 1, \"c\": 2}";
    let set = open(MemorySource::file("in.jsonl", text), &[], Limits::default()).unwrap();
    assert_eq!(set.losses().unwrap()[0].what, "c");
}

/// Returns the losses after reading a file with this content. `schema` is the content of the schema
/// file.
fn lost(text: &str, given: &[(&str, &str)], schema: &str) -> Vec<(LossKind, String)> {
    let mut context = MemoryContext::default();
    context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
    let set = open_beside(MemorySource::file("in.jsonl", text), given, &context).unwrap();
    batches(&*set, &Batches::default()).unwrap();
    set.losses().unwrap().into_iter().map(|loss| (loss.kind, loss.what)).collect()
}

const SCHEMA: &[(&str, &str)] = &[("schema", "schema.json")];

#[test]
fn absent_keys_of_nested_objects_are_a_loss() {
    let schema = r#"{"columns": [{"name": "o", "type": "Struct(\"a\": Int64, \"b\": Int64)"}]}"#;
    let record = |column: &str| vec![(LossKind::Record, column.to_owned())];
    for (text, expected) in [
        ("{\"o\": {\"a\": 1}}\n{\"o\": {\"b\": 1}}", record("o")),
        ("{\"o\": {\"a\": 1, \"b\": 2}}\n{\"o\": {}}", record("o")),
        (
            "{\"o\": {\"a\": 1, \"b\": 2}}\n{\"o\": null}\n{\"p\": 1}\n{\"o\": {\"b\": null, \"a\": 1}}",
            vec![],
        ),
    ] {
        assert_eq!(lost(text, &[], ""), expected, "{text}");
        assert_eq!(lost(text, SCHEMA, schema), expected, "{text}");
    }
    let nested = "{\"l\": [{\"o\": {\"a\": 1}}, {\"o\": {}}]}";
    assert_eq!(lost(nested, &[], ""), record("l.o"));
    let late = "{\"o\": {\"a\": 1}}\n{\"o\": {}}";
    assert_eq!(lost(late, &[("infer", "1")], ""), record("o"));
    let set = open(MemorySource::file("in.jsonl", nested), &[], Limits::default()).unwrap();
    let why = &set.losses().unwrap()[0].why;
    assert!(why.ends_with("such as \"a\" in 1 of 2 objects"), "{why}");
}

#[test]
fn a_key_that_repeats_is_a_loss_with_a_schema_too() {
    let schema =
        r#"{"columns": [{"name": "a", "type": "int64"}, {"name": "o", "type": "Struct(\"x\": Int64)"}]}"#;
    let text = "{\"a\": 1, \"a\": 2, \"o\": {\"x\": 1, \"x\": 2}}";
    let expected = [(LossKind::Record, "a".to_owned()), (LossKind::Record, "x".to_owned())];
    assert_eq!(lost(text, &[], ""), expected);
    assert_eq!(lost(text, SCHEMA, schema), expected);
    // Values that are not read cause no other losses.
    let schema = r#"{"columns": [{"name": "f", "type": "float64"}]}"#;
    let text = "{\"f\": 0.12345678901234567890, \"f\": 1}";
    assert_eq!(lost(text, SCHEMA, schema), [(LossKind::Record, "f".to_owned())]);
}

#[test]
fn digits_that_a_float_does_not_hold_are_a_loss() {
    for (number, expected) in [
        ("123456789012345678.25", true),
        ("1e-400", true),
        ("0.30000000000000004", false),
        ("1.50000000000000000000", false),
    ] {
        let text = format!("{{\"l\": [[{number}]], \"x\": 0.5}}");
        let expected = if expected { vec![(LossKind::Precision, "l".to_owned())] } else { vec![] };
        assert_eq!(lost(&text, &[], ""), expected, "{text}");
    }
}

#[test]
fn escaped_surrogate_pairs_are_one_character() {
    let text = r#"{"k\ud842\udfb7": "\ud840\udc00\uD83D\uDE00\\ud842\udbff\udfff", "o": {"\ud842\udfb7": "\ud834\udd1e"}}"#;
    let rows = read(text).unwrap();
    let column = rows.column_by_name("k\u{20bb7}").unwrap().as_string::<i32>();
    assert_eq!(column.value(0), "\u{20000}\u{1f600}\\ud842\u{10ffff}");
    let nested = rows.column_by_name("o").unwrap().as_struct().column_by_name("\u{20bb7}").unwrap();
    assert_eq!(nested.as_string::<i32>().value(0), "\u{1d11e}");
    for lone in [r"\ud842", r"\udfb7", r"\ud842x", r"\udfb7\ud842"] {
        let message = refusal(format!("{{\"a\": \"{lone}\"}}"), &[]);
        assert!(message.contains("line 1") && message.contains("escape"), "{message}");
    }
}

#[test]
fn lines_are_json_with_a_schema_as_without() {
    let schema = r#"{"columns": [{"name": "a", "type": "float64"}, {"name": "s", "type": "utf8"}]}"#;
    let mut context = MemoryContext::default();
    context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
    for line in [
        r#"{"a": 1,}"#,
        r#"{"a": 1,, "s": null}"#,
        r#"{"a": 1 "s": null}"#,
        r#"{"b": [1,]}"#,
        r#"{"b": [1 2]}"#,
        r#"{"a": 01}"#,
        r#"{"a": +1}"#,
        r#"{"a": 1.}"#,
        r#"{"a": .5}"#,
        r#"{"a": 1.2.3}"#,
        r#"{"b": 1e}"#,
        r#"{"b": -}"#,
        r#"{"a": NaN}"#,
        r#"{"a": 1}{"a": 2}"#,
        r#"{"a": 1} x"#,
        r#"{"s": "\x"}"#,
        "{\"s\": \"a\tb\"}",
        r#"{s: 1}"#,
        r#"{'s': 1}"#,
        r#"{"b": nul}"#,
        r#"{"b": "\ud800"}"#,
        r#"{"a": 1"#,
        r#"[]"#,
    ] {
        let text = format!("{{\"a\": 1}}\n{line}\n");
        for given in [&[][..], SCHEMA, &[("infer", "1")]] {
            let set = open_beside(MemorySource::file("in.jsonl", text.clone()), given, &context);
            let error = set.and_then(|set| batches(&*set, &Batches::default())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{line} {given:?}: {error}");
            assert!(error.to_string().contains("line 2"), "{line} {given:?}: {error}");
        }
    }
}

#[test]
fn columns_of_several_kinds_are_unsupported() {
    for text in
        ["{\"a\": 1}\n{\"a\": \"x\"}", "{\"a\": [0, \"x\"]}", "{\"a\": {\"b\": 1}}\n{\"a\": {\"b\": []}}"]
    {
        let opened = open(MemorySource::file("in.jsonl", text), &[], Limits::default());
        let Err(error) = opened else { panic!("{text}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// Returns a line with this many nesting levels and a number at the innermost level.
fn nested(levels: usize, begin: &str, end: &str) -> String {
    format!("{{\"a\": {}1{}}}", begin.repeat(levels - 1), end.repeat(levels - 1))
}

#[test]
fn levels_are_limited_whatever_is_asked_for() {
    let mut raised = Limits::default();
    raised.nesting = 1000;
    for (begin, end) in [("{\"b\": ", "}"), ("[", "]")] {
        let open_at =
            |levels, limits| open(MemorySource::file("in.jsonl", nested(levels, begin, end)), &[], limits);
        let set = open_at(60, Limits::default()).unwrap();
        assert_eq!(batches(&*set, &Batches::default()).unwrap()[0].num_rows(), 1);
        let mut three = Limits::default();
        three.nesting = 3;
        open_at(3, three.clone()).unwrap();
        for (levels, limits) in
            [(61, Limits::default()), (123, raised.clone()), (500, raised.clone()), (4, three)]
        {
            let Err(error) = open_at(levels, limits) else { panic!("{levels} levels were read") };
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }
}

#[test]
fn limits_hold() {
    let limited = |text: String, set: fn(&mut Limits)| {
        let mut limits = Limits::default();
        set(&mut limits);
        let Err(error) = open(MemorySource::file("in.jsonl", text), &[], limits) else {
            panic!("it was opened")
        };
        error
    };
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
    let error = limited(long, |limits| limits.header_bytes = 1 << 16);
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("too long"), "{error}");
    // Short values take far more space in memory than in the file.
    let numbers = |count: usize| format!("{{}}\n{{\"a\": [1{}]}}", ",1".repeat(count));
    let error = limited(numbers(30_000), |limits| limits.header_bytes = 1 << 20);
    assert!(error.to_string().contains("too long") && error.to_string().contains("offset 3"), "{error}");
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    let text = format!("{}\n{{\"b\": \"{}\"}}", numbers(20_000), "x".repeat(300_000));
    open(MemorySource::file("in.jsonl", text), &[], limits).unwrap();
}

/// Opens the lines that `of` returns, with a limit of 99 columns.
fn of_99_columns(
    lines: usize,
    options: &[(&str, &str)],
    of: impl Fn(usize) -> String,
) -> Result<OpenedRecords> {
    let mut limits = Limits::default();
    limits.columns = 99;
    let text: Vec<_> = (0..lines).map(of).collect();
    open(MemorySource::file("in.jsonl", text.join("\n")), options, limits)
}

#[test]
fn columns_are_limited_nested_ones_counted() {
    let flat = |i| format!("{{\"k{i}\": 1}}");
    let nested = |i| format!("{{\"a\": [[{{\"k{}\": 1}}]]}}", i % 99);
    assert_eq!(of_99_columns(99, &[], flat).unwrap().schema().fields().len(), 99);
    let refused = |opened: Result<OpenedRecords>, line: &str| {
        let Err(error) = opened else { panic!("it was opened") };
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        for part in [line, "in.jsonl", "too many columns", "at most 99"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    };
    refused(of_99_columns(100, &[], flat), "line 100");
    refused(of_99_columns(99, &[], nested), "line 99");
    // No split exceeds the limit on columns, but all splits together do.
    let fill = "x".repeat(1 << 20);
    let far = |i| format!("{{\"k{i}\": 1, \"fill\": \"{}\"}}", if i % 5 == 0 { &fill } else { "" });
    refused(of_99_columns(99, &[], far), "");
    refused(of_99_columns(99, &[("infer", "1000")], far), "line 99");
}

#[test]
fn a_long_key_is_not_told_again_for_each_column_in_it() {
    let keys: Vec<_> = (0..100).map(|i| format!("\"k{i}\": [9007199254740993, 0.5]")).collect();
    let text = format!("{{\"{}\": {{{}}}}}", "x".repeat(100_000), keys.join(","));
    let set = open(MemorySource::file("in.jsonl", text), &[], Limits::default()).unwrap();
    let losses = set.losses().unwrap();
    assert_eq!(losses.len(), 100);
    let bytes: usize = losses.iter().map(|loss| loss.what.len()).sum();
    assert!(bytes < 100_000 && losses[99].what.ends_with(".k99"), "{bytes}");
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let bomb = zstd::bulk::compress(&vec![b'\n'; 16 << 20], 3).unwrap();
    let open = |bytes: u64| {
        let mut limits = Limits::default();
        limits.expanded_bytes = bytes;
        open(MemorySource::file("in.jsonl.zst", bomb.clone()), &[], limits)
    };
    let Err(error) = open(1 << 20) else { panic!("it was opened") };
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(format!("{error:?}").contains("expanded_bytes="), "{error}");
    assert_eq!(batches(&*open(16 << 20).unwrap(), &Batches::default()).unwrap(), []);
}

#[test]
fn rows_that_have_few_of_many_columns_are_whole() {
    let text: Vec<_> = (0..1000).map(|i| format!("{{\"k{}\": {i}}}", i % 500)).collect();
    let set = open(MemorySource::file("in.jsonl", text.join("\n")), &[], Limits::default()).unwrap();
    let request = Batches { bytes: 100_000, ..Batches::default() };
    let mut row = 0_i64;
    for batch in batches(&*set, &request).unwrap() {
        assert!(batch.num_rows() <= 100);
        for at in 0..batch.num_rows() {
            for (number, column) in (0..500).zip(batch.columns()) {
                let value = column.as_primitive::<Int64Type>().iter().nth(at).unwrap();
                assert_eq!(value, (number == row % 500).then_some(row));
            }
            row += 1;
        }
    }
    assert_eq!(row, 1000);
}

#[test]
fn an_empty_file_has_no_rows() {
    let set = open(MemorySource::file("in.jsonl", ""), &[], Limits::default()).unwrap();
    assert_eq!(batches(&*set, &Batches::default()).unwrap(), []);
    let set = open(MemorySource::file("in.jsonl", "\n\n"), &[], Limits::default()).unwrap();
    assert_eq!(batches(&*set, &Batches::default()).unwrap(), []);
    let rows = read("{}\n{}\n").unwrap();
    assert_eq!((rows.num_rows(), rows.num_columns()), (2, 0));
}
