//! Tests of the reader, which converts lines to rows.

use crate::common::{open, read, read_with, refusal, types};
use std::collections::BTreeMap;
use std::io::Write as _;
use tensorferry_csv::Csv;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int64Type, TimestampMillisecondType, UInt8Type,
};
use tensorferry_sdk::arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::arrow_schema::{DataType, TimeUnit};
use tensorferry_sdk::memory::records;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{
    Entry, ErrorKind, Format, LossKind, MemoryContext, MemorySource, Purpose, Result, Score,
};

#[test]
fn types_are_found_in_all_rows() {
    let rows = read(
        "i,f,b,code,d,t,n,s\n1,1,true,007,2024-02-29,2024-02-29T12:30:00.5,,x\n,0.5,False,10,1969-12-31,2024-02-29 00:00:00,,\"\"\n",
    )
    .unwrap();
    let expected = [
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("code", DataType::Utf8),
        ("d", DataType::Date32),
        ("t", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("n", DataType::Null),
        ("s", DataType::Utf8),
    ];
    assert_eq!(types(&rows), expected.map(|(name, of)| (name.to_owned(), of)));
    assert_eq!(rows.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(1), None]));
    assert_eq!(rows.column(1).as_primitive::<Float64Type>().values(), &[1.0, 0.5]);
    assert_eq!(rows.column(3).as_string::<i32>(), &StringArray::from(vec!["007", "10"]));
    assert_eq!(rows.column(4).as_primitive::<Date32Type>().value(1), -1);
    assert_eq!(rows.column(5).as_primitive::<TimestampMillisecondType>().value(0), 1_709_209_800_500);
    assert_eq!(rows.column(7).as_string::<i32>(), &StringArray::from(vec!["x", ""]));
}

#[test]
fn marks_line_ends_quotes_and_blank_lines_are_what_they_are() {
    for text in [
        "\u{feff}a,b\r\n1,\"x\r\ny\"\r\n\r\n2,\"q\"\"\"\r\n",
        "a,b\n1,\"x\r\ny\"\n2,\"q\"\"\"",
        "\n\na,b\r1,\"x\r\ny\"\r2,\"q\"\"\"\r",
        "\"a\",\"b\"\n\"1\",\"x\r\ny\"\n\"2\",\"q\"\"\"\n",
    ] {
        let rows = read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(types(&rows), [("a".to_owned(), DataType::Int64), ("b".to_owned(), DataType::Utf8)]);
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2], "{text:?}");
        assert_eq!(rows.column(1).as_string::<i32>(), &StringArray::from(vec!["x\r\ny", "q\""]), "{text:?}");
    }
}

#[test]
fn an_empty_line_is_a_null_of_the_only_column() {
    for (text, expected) in [
        ("a\n1\n\n3\n", vec![Some("1"), None, Some("3")]),
        ("\n\na\r\n1\r\n\r\n\r\n3", vec![Some("1"), None, None, Some("3")]),
        ("a\n\n1\n\n", vec![None, Some("1"), None]),
        ("a\n\n\n", vec![None, None]),
        ("a\n1\n\"\"\n", vec![Some("1"), None]),
        ("a\n", vec![]),
    ] {
        for given in [&[][..], &[("infer", "1")], &[("schema", "schema.json")]] {
            let rows = read_with(text, given, r#"{"a": "int64"}"#);
            let Ok(rows) = rows else { continue };
            let found = arrow_cast::cast(rows.column(0), &DataType::Utf8).unwrap();
            assert_eq!(found.as_string::<i32>(), &StringArray::from(expected.clone()), "{text:?} {given:?}");
        }
    }
    let rows = read_with("\n1\n\n", &[("header", "false")], "{}").unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![None, Some(1), None]));
}

#[test]
fn floats_in_other_words_are_floats_and_lost_digits_are_told() {
    let text = "x,y\nnan,1\nInfinity,nan\n-inf,Inf\n1.5,-Infinity\n+inf,-nan\nINF,NAN\n";
    let rows = read(text).unwrap();
    assert!(types(&rows).iter().all(|(_, of)| *of == DataType::Float64));
    let x = rows.column(0).as_primitive::<Float64Type>();
    assert!(x.value(0).is_nan() && x.value(4) == f64::INFINITY && x.value(2) == f64::NEG_INFINITY);
    for given in [&[][..], &[("infer", "1")], &[("schema", "schema.json")]] {
        let source = MemorySource::file("in.csv", "price\n0.5\n123456789012345678.25\n");
        let set = open(source, given, r#"{"price": "float64"}"#).unwrap();
        records::read(&*set, &Batches::default()).unwrap();
        let losses = set.losses().unwrap();
        assert_eq!((losses.len(), losses[0].kind, &*losses[0].what), (1, LossKind::Precision, "price"));
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    for (text, reported) in [
        ("a,b\n1,2\n3\n", ["line 3", "expected 2 fields, found 1"]),
        ("a,b\n1,\"x\ny\"\n3,4,5\n", ["line 4", "expected 2 fields, found 3"]),
        ("a,a\n1,2\n", ["two columns have the same name", "line 1"]),
        ("a\n\"x\"y\n", ["closing quote", "line 2"]),
        ("a\n1\n\"x", ["never ends", "line 3"]),
    ] {
        let message = refusal(text, &[], "{}");
        assert!(
            reported.iter().all(|reported| message.contains(reported)) && message.contains("in.csv"),
            "{message}"
        );
    }
    let message = refusal(b"a,b\nx,\xff\n", &[], "{}");
    assert!(
        message.contains("UTF-8") && message.contains("line 2") && message.contains("column \"b\""),
        "{message}"
    );
    assert!(refusal(b"\xff\xfea\0", &[], "{}").contains("UTF-16"));
}

#[test]
fn a_value_that_does_not_fit_the_first_rows_is_an_error_with_what_to_do() {
    let message = refusal("a,b\n1,2\n2,2\n\n3,x\n", &[("infer", "2")], "{}");
    for reported in ["in.csv", "line 5", "column \"b\"", "expected int64", "found \"x\""] {
        assert!(message.contains(reported), "{reported}: {message}");
    }
    // The type is inferred from the first value only. A later value that implies a different type
    // is refused instead of being converted.
    for (first, later) in [
        ("1", "02139"),
        ("1", "-0"),
        ("1", "1e2"),
        ("true", "yes"),
        ("2024-01-01", "20240102"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00"),
    ] {
        let message = refusal(format!("a\n{first}\n{later}\n"), &[("infer", "1")], "{}");
        assert!(message.contains(later), "{message}");
    }
    let rows = read_with("a\n1.5\n2\n1e2\n", &[("infer", "1")], "{}").unwrap();
    assert_eq!(types(&rows)[0].1, DataType::Float64);
    let rows = read_with("a,b\n1,2\n2,2\n\n3,x\n", &[("infer", "3")], "{}").unwrap();
    assert_eq!(types(&rows)[1].1, DataType::Utf8);
}

#[test]
fn a_schema_says_columns_and_types() {
    let given = [("schema", "schema.json")];
    let schema = r#"{"code": "uint8", "price": "decimal128(10, 2)", "raw": "binary"}"#;
    let rows = read_with("x,price,code,raw\n1,1.5,007,/w==\n2,-3,,\n3,0,,\"\"\n", &given, schema).unwrap();
    assert_eq!(rows.num_columns(), 3);
    assert_eq!(rows.column(0).as_primitive::<UInt8Type>().value(0), 7);
    assert_eq!(rows.column(1).as_primitive::<Decimal128Type>().values(), &[150, -300, 0]);
    // In a binary column, a quoted empty string is an empty value, and an empty field is a null.
    assert_eq!((rows.column(2).is_null(2), rows.column(2).as_binary::<i32>().value(2)), (false, &b""[..]));
    assert_eq!((rows.column(2).as_binary::<i32>().value(0), rows.column(2).is_null(1)), (&b"\xff"[..], true));
    let message = refusal("code,price,raw\n300,1,\n", &given, schema);
    assert!(message.contains("expected uint8") && message.contains("\"300\""), "{message}");
    assert!(refusal("code\n1\n", &given, r#"{"cod": "int8"}"#).contains("no such column"));
    let long = r#"{"columns": [{"name": "code", "type": "int64", "required": true}]}"#;
    assert!(refusal("code,x\n,1\n", &given, long).contains("null"));
    let rows =
        read_with("1,a\n2,b\n", &[given[0], ("header", "false")], r#"{"n": "int64", "a": "utf8"}"#).unwrap();
    assert_eq!((rows.num_rows(), rows.schema().field(1).name().as_str()), (2, "a"));
}

#[test]
fn a_type_that_does_not_hold_a_value_is_an_error() {
    let given = [("schema", "schema.json")];
    for (data_type, bad, good) in [
        ("decimal128(10, 1)", "1.55", "1.50"),
        ("date32", "2020-01-01T12:34:56", "2020-01-01"),
        ("timestamp[s]", "2020-01-01T12:34:56.5", "2020-01-01T12:34:56.000"),
        ("time64[us]", "12:34:56.1234567", "12:34:56.123456"),
        ("float32", "1e40", "inf"),
        ("float16", "70000", "65504"),
        ("float64", "1e400", "1e300"),
        ("fixed_size_binary[2]", "/w==", "//8="),
        ("timestamp[s, Europe/Paris]", "2020-01-01T12:34:56", "2020-01-01T12:34:56+01:00"),
    ] {
        let schema = format!("{{\"v\": \"{data_type}\"}}");
        let read = |value: &str| read_with(format!("v\n{value}\n"), &given, &schema);
        let rows = read(good).unwrap_or_else(|error| panic!("{data_type} {good}: {error}"));
        assert!(rows.column(0).is_valid(0), "{data_type}");
        let message = read(bad).unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains(bad), "{data_type} {bad}: {message}");
    }
    let rows = read_with("v\n1970-01-01T01:00:00+01:00\n", &given, r#"{"v": "timestamp[ms, Europe/Paris]"}"#);
    let rows = rows.unwrap();
    let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Paris".into()));
    assert_eq!(types(&rows), [("v".to_owned(), zone)]);
    assert_eq!(rows.column(0).as_primitive::<TimestampMillisecondType>().value(0), 0);
}

#[test]
fn what_is_no_table_is_told_from_one() {
    for text in
        ["version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "<!DOCTYPE html>\n<p>\n"]
    {
        assert!(refusal(text, &[], "{}").contains("not a table"), "{text}");
    }
    let notes = |text: &str, given: &[(&str, &str)]| {
        let context = MemoryContext::default();
        let source = std::sync::Arc::new(MemorySource::file("in.csv", text));
        records::open(&Csv, &tensorferry_sdk::memory::pairs(given), source, &context).unwrap();
        context.notes().join(" ")
    };
    assert!(notes("a;b\n1;2\n", &[]).contains("-i delimiter=';'"));
    assert!(notes("a\tb\n1\t2\n", &[]).contains("-i delimiter=tab"));
    assert_eq!(notes("a;b\n1;2\n", &[("delimiter", ";")]) + &notes("a\n1;2\n", &[]), "");
}

#[test]
fn options_say_what_stands_between_and_for_nulls() {
    let rows = read_with(
        "1|'NA'\nNA|'a|b'\n",
        &[("delimiter", "|"), ("quote", "'"), ("header", "false"), ("nulls", "NA")],
        "{}",
    );
    let rows = rows.unwrap();
    assert_eq!(types(&rows), [("f0".to_owned(), DataType::Int64), ("f1".to_owned(), DataType::Utf8)]);
    assert!(rows.column(0).is_null(1));
    assert_eq!(rows.column(1).as_string::<i32>(), &StringArray::from(vec!["NA", "a|b"]));
    let rows = read_with("a\tb\n\"x\t1\n", &[("delimiter", "tab"), ("quote", "none")], "{}").unwrap();
    assert_eq!(rows.column(0).as_string::<i32>().value(0), "\"x");
    for bad in [("delimiter", "ab"), ("delimiter", "\""), ("quote", "\u{e4}"), ("delimiter", "\n")] {
        let error = read_with("a\n", &[bad], "{}").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{bad:?}");
    }
}

#[test]
fn files_of_a_folder_have_one_schema() {
    let folder = |files: &[(&str, &str)]| {
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
        MemorySource::new(Entry::Folder, files)
    };
    let set = open(folder(&[("a.csv", "a,b\n1,1\n"), ("b.tsv", "a\tb\n0.5\tx\n"), ("c.csv", "")]), &[], "{}")
        .unwrap();
    let types: Vec<_> = set.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types, [DataType::Float64, DataType::Utf8]);
    let rows = records::read(&*set, &Batches::default()).unwrap();
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    let error = open(folder(&[("a.csv", "a,b\n"), ("b.csv", "b,a\n")]), &[], "{}").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("different order than in \"a.csv\""), "{error}");
    let error = open(folder(&[("a.csv", "a,b\n"), ("b.csv", "a,c\n")]), &[], "{}").err().unwrap();
    let text = error.to_string();
    let hint = error.details().find(|(name, _)| *name == "hint");
    assert!(text.contains("column \"c\""), "{text}");
    assert_eq!(hint, Some(("hint", "convert \"b.csv\" separately".to_owned())));
}

#[test]
fn whole_numbers_that_a_float_rounds_are_a_loss() {
    let set = open(MemorySource::file("in.csv", "a\n9007199254740993\n0.5\n"), &[], "{}").unwrap();
    let losses = set.losses().unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].what.as_str()), (1, LossKind::Precision, "a"));
}

#[test]
fn nothing_has_no_columns_and_no_rows() {
    for text in ["", "\n\r\n", "\u{feff}"] {
        let rows = read(text).unwrap();
        assert_eq!((rows.num_columns(), rows.num_rows()), (0, 0));
    }
    assert_eq!(
        types(&read("a,b\n").unwrap()),
        [("a".to_owned(), DataType::Null), ("b".to_owned(), DataType::Null)]
    );
}

#[test]
fn compressed_files_are_read_and_bombs_are_not() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    gzip.write_all(b"a\n1\n").unwrap();
    let source = MemorySource::file("in.csv.gz", gzip.finish().unwrap());
    let set = open(source, &[], "{}").unwrap();
    assert_eq!(records::read(&*set, &Batches::default()).unwrap()[0][0].num_rows(), 1);
    let bomb = zstd::bulk::compress(&b"1\n".repeat(4 << 20), 1).unwrap();
    let mut context = MemoryContext::default();
    context.limits.expanded_bytes = 1 << 10;
    let opened =
        records::open(&Csv, &[], std::sync::Arc::new(MemorySource::file("in.csv.zst", bomb)), &context);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Limit);
    let long = format!("a\n\"{}", "x".repeat(4 << 20));
    context.limits.header_bytes = 1 << 20;
    let opened = records::open(&Csv, &[], std::sync::Arc::new(MemorySource::file("in.csv", long)), &context);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Limit);
}

#[test]
fn splits_are_all_rows_and_each_once() {
    let mut text = "id,text\n".to_owned();
    for id in 0..500_000 {
        let blank = if id % 1000 == 0 { "\n" } else { "" };
        text += &format!("{blank}{id},\"{}\n\"\n", "x,".repeat(id % 40));
    }
    let set = open(MemorySource::file("in.csv", text.clone()), &[], "{}").unwrap();
    let splits = set.splits();
    assert!(splits.len() > 1, "{}", splits.len());
    assert_eq!(splits.iter().map(|split| split.records.unwrap()).sum::<u64>(), 500_000);
    assert_eq!(splits.iter().map(|split| split.bytes).sum::<u64>(), text.len() as u64);
    let mut next = 0;
    for (split, batches) in splits.iter().zip(records::read(&*set, &Batches::default()).unwrap()) {
        for batch in &batches {
            for id in batch.column(0).as_primitive::<Int64Type>().values() {
                assert_eq!(*id, next);
                next += 1;
            }
        }
        let count = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        assert_eq!(Some(count), split.records);
    }
    assert_eq!(next, 500_000);
}

#[test]
fn a_name_and_text_are_asked_for() {
    let score = |name: &str, bytes: &[u8]| {
        Csv.probe(&MemorySource::file(name, bytes), &MemoryContext::default()).unwrap().unwrap()
    };
    assert_eq!(score("a.csv", b"a,b\n"), Score::LIKELY);
    assert_eq!(score("a.tsv.gz", b"a"), Score::LIKELY);
    assert_eq!(score("a.csv", b"\xff\xfe"), Score::MAYBE);
    assert_eq!(score("a.txt", b"a,b\n"), Score::NO);
    assert_eq!(score("a.csv", b"{\"a\": 1}\n{\"a\": 2}\n"), Score::NO);
    assert_eq!(score("a.csv", b"{\"a\": 1}\n"), Score::LIKELY);
}

#[test]
fn fields_without_end_are_not_held() {
    let commas = ",".repeat(100_000);
    for given in [&[][..], &[("infer", "1")]] {
        let reported = refusal(format!("a,b\n1,2\n{commas}\n"), given, "{}");
        let expected = "expected 2 fields, found more than 16384";
        assert!(reported.contains("line 3") && reported.contains(expected), "{reported}");
    }
    for given in [&[][..], &[("header", "false")]] {
        let reported = refusal(&commas, given, "{}");
        assert!(reported.contains("line 1") && reported.contains("too many columns"), "{reported}");
    }
}

#[test]
fn a_schema_that_nests_is_refused_as_one() {
    let deep = format!("{{\"a\": \"{}Int64{}\"}}", "List(".repeat(100_000), ")".repeat(100_000));
    for schema in [&*deep, r#"{"a": "List(Int64)"}"#, r#"{"a": {"b": "int64"}}"#] {
        let error = read_with("a\n1\n", &[("schema", "schema.json")], schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error:.200}");
    }
}

fn once() -> MemoryContext {
    let mut context = MemoryContext::default();
    context.purpose = Purpose::ONCE;
    context
}

/// Reads a file in a single pass. Returns its rows and the number of losses, or the error.
fn read_once(text: impl Into<Vec<u8>>) -> Result<(RecordBatch, usize)> {
    let set = records::open(&Csv, &[], std::sync::Arc::new(MemorySource::file("in.csv", text)), &once())?;
    let mut batches = records::read(&*set, &Batches::default())?.concat();
    assert_eq!(batches.len(), 1);
    Ok((batches.remove(0), set.losses()?.len()))
}

/// Values of each type, which are read as the same type in any file.
const COLUMNS: &str = "i,f,b,d,t,z,s\n";
const FIRST: &str = "1,0.5,true,2024-02-29,2024-02-29T12:30:00.5,2024-02-29T12:30:00Z,x\n";

#[test]
fn a_single_pass_confirms_its_guess() {
    let many = FIRST.repeat(5000);
    for last in [
        FIRST,
        ",,,,,,\n",
        "-9223372036854775808,1,False,0000-01-01,9999-12-31 00:00:00,2024-02-29 12:30:00-01:00,007\n",
        "9223372036854775807,-0,TRUE,9999-12-31,1677-01-01T00:00:00,1677-01-01T00:00:00+23:59,\"\"\n",
        "\"\",1e3,\"\",\"\",\"\",\"\",\"a\nb\"\n",
        "\"7\",NaN,\"true\",\"2024-02-29\",\"2024-02-29T12:30:00\",\"2024-02-29T12:30:00Z\",\"a\"\"b\"\n",
        "5,-.5,true,2024-02-29,2024-02-29T12:30:00.500,2024-02-29T12:30:00Z,1\n",
        "5,9007199254740992,true,2024-02-29,2024-02-29T12:30:00.500,2024-02-29T12:30:00Z,1\n",
    ] {
        let text = format!("{COLUMNS}{many}{last}");
        let (rows, losses) = read_once(text.clone()).unwrap_or_else(|error| panic!("{last}: {error}"));
        assert_eq!((rows.num_rows(), rows, losses), (5001, read(text).unwrap(), 0), "{last}");
    }
}

#[test]
fn a_single_pass_never_reads_a_file_in_a_different_way() {
    let many = FIRST.repeat(5000);
    let columns = ["1", "0.5", "true", "2024-02-29", "2024-02-29T12:30:00.5", "2024-02-29T12:30:00Z"];
    for (place, values) in [
        (0, &["-0", "0.5", "007", "+1", "x", " 1", "9223372036854775808", "\"1\"\"\"", "\u{e9}"][..]),
        (1, &["x", "9007199254740993", "1e-400", "1e400", "0.12345678901234567890", "1000000000000000000"]),
        (2, &["yes", "1", "tRUE"]),
        (3, &["2023-02-29", "2024-02-29T00:00:00", "20240229"]),
        (4, &["2024-02-29", "2024-02-29T12:30:00.0001", "2024-02-29T12:30:00.5Z", "2024-02-29T24:00:00"]),
        (5, &["2024-02-29T12:30:00", "2024-02-29T12:30:00+24:00", "2024-02-29T12:30:00.1Z"]),
    ] {
        for value in values {
            let mut fields = columns;
            fields[place] = value;
            let text = format!("{COLUMNS}{many}{},x\n{FIRST}", fields.join(","));
            let error = read_once(text.clone()).unwrap_err();
            assert!(error.is_wrong_guess(), "{value}: {error}");
            let source = std::sync::Arc::new(MemorySource::file("in.csv", text));
            let set = records::open(&Csv, &[], source, &once()).unwrap();
            let request = Batches { columns: Some(vec![6]), ..Batches::default() };
            let found = records::read(&*set, &request);
            assert!(found.unwrap_err().is_wrong_guess(), "{value}");
        }
    }
    for bad in [&b"1\n"[..], b"1,1,true,2024-02-29,,,\xff\n", b"1,\"x\"y\n", b"1,\"x\n"] {
        let text = [COLUMNS.as_bytes(), many.as_bytes(), bad].concat();
        assert!(read_once(text).unwrap_err().is_wrong_guess(), "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn a_wrongly_guessed_run_is_not_read() {
    let row = |id: usize| format!("{id},{}\n", "word ".repeat(200));
    let many = |ids: std::ops::Range<usize>| ids.map(row).collect::<String>();
    let open = |text: String| {
        let source = std::sync::Arc::new(MemorySource::file("in.csv", text));
        records::open(&Csv, &[], source, &once()).unwrap()
    };
    let plain = open(format!("id,text\n{}", many(0..40_000)));
    assert!(plain.splits().len() > 1 && plain.splits().iter().all(|split| split.records.is_none()));
    let ids: Vec<i64> = records::read(&*plain, &Batches::default())
        .unwrap()
        .concat()
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(ids, (0..40_000).collect::<Vec<_>>());
    // The text of one field contains rows, and the next run would start in this text.
    let nested = open(format!("id,text\n{}7,\"{}\"\n{}", many(0..15_000), many(0..4000), many(0..9)));
    assert!(nested.splits().len() > 1);
    assert!(records::read(&*nested, &Batches::default()).unwrap_err().is_wrong_guess());
}
