//! Tests that files from ferry are read back unchanged, with every codec, piece size and batch
//! size.

use crate::common::{file, folder, open, read, write};
use arrow_buffer::OffsetBuffer;
use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::builder::{
    Float32Builder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder, StringDictionaryBuilder,
};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Int32Type, Int64Type};
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray,
    DurationMillisecondArray, FixedSizeBinaryArray, Float64Array, Int64Array, LargeStringArray, ListArray,
    NullArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{ErrorKind, Format, Limits, MemoryContext, MemorySource, Options, Side};
use tensorferry_test_kit::rows::{batches, rows};

fn floats(lists: &[Option<&[f32]>]) -> ArrayRef {
    let item = Field::new("element", DataType::Float32, true);
    let mut builder = ListBuilder::new(Float32Builder::new()).with_field(item);
    for list in lists {
        match list {
            None => builder.append_null(),
            Some(list) => {
                builder.values().append_slice(list);
                builder.append(true);
            }
        }
    }
    Arc::new(builder.finish())
}

/// Returns three rows with a column of every type that Parquet supports. The fields in lists and
/// maps have the names that the specification requires.
fn every_type() -> RecordBatch {
    let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    let mut map = MapBuilder::new(Some(names), StringBuilder::new(), Float32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1.5);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    words.append_value("a");
    words.append_null();
    words.append_value("a");
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let structs = StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), inner),
        (
            Arc::new(Field::new("l", floats(&[]).data_type().clone(), true)),
            floats(&[Some(&[]), None, Some(&[2.0])]),
        ),
    ]);
    rows(vec![
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("u64", Arc::new(UInt64Array::from(vec![0, 1, u64::MAX]))),
        ("u8", Arc::new(UInt8Array::from(vec![0, 1, 255]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(-0.0)]))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("str", Arc::new(StringArray::from(vec![Some(""), None, Some("ä")]))),
        ("large", Arc::new(LargeStringArray::from(vec![Some(""), None, Some("ä")]))),
        ("bin", Arc::new(BinaryArray::from(vec![Some(&b"\xff\0"[..]), None, Some(b"")]))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd", b"ef"].into_iter()).unwrap())),
        ("date", Arc::new(Date32Array::from(vec![-1, 0, 1]))),
        ("time", Arc::new(TimestampMicrosecondArray::from(vec![-1, 0, 1]).with_timezone("UTC"))),
        (
            "dec",
            Arc::new(
                Decimal128Array::from(vec![-1, 0, 10_i128.pow(37)]).with_precision_and_scale(38, 3).unwrap(),
            ),
        ),
        ("list", floats(&[Some(&[1.0, 2.0]), None, Some(&[])])),
        ("struct", Arc::new(structs)),
        ("map", Arc::new(map.finish())),
        ("words", Arc::new(words.finish())),
        ("null", Arc::new(NullArray::new(3))),
    ])
}

#[test]
fn every_type_comes_back() {
    let rows = every_type();
    for compression in ["snappy", "zstd", "gzip", "lz4", "brotli", "none"] {
        let options = [("compression", compression), ("dictionary", "auto")];
        let back = read(&file(&[rows.clone(), rows.slice(1, 2), rows.slice(0, 1)], &options)).unwrap();
        assert_eq!(back, [rows.clone(), rows.slice(1, 2), rows.slice(0, 1)], "{compression}");
        assert_eq!(back[0].schema(), rows.schema());
    }
    for options in [[("dictionary", "true")], [("dictionary", "false")], [("statistics", "false")]] {
        let rows = std::slice::from_ref(&rows);
        assert_eq!(read(&file(rows, &options)).unwrap(), rows, "{options:?}");
    }
}

fn numbers(count: i64) -> RecordBatch {
    let text: Vec<String> = (0..count).map(|i| format!("row {i}")).collect();
    rows(vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..count))),
        ("text", Arc::new(StringArray::from(text))),
    ])
}

#[test]
fn a_split_is_a_row_group() {
    let all = numbers(1000);
    let bytes = file(&[all.slice(0, 300), all.slice(300, 1), all.slice(301, 699)], &[]);
    let set = open(MemorySource::file("in.parquet", &bytes[..]), Limits::default()).unwrap();
    assert_eq!(set.splits().iter().map(|split| split.records.unwrap()).collect::<Vec<_>>(), [300, 1, 699]);
    let mut end = 4;
    for split in set.splits() {
        assert_eq!((split.file.as_str(), split.offset), ("in.parquet", end));
        end += split.bytes;
    }
    assert!(end < bytes.len() as u64);
    let within = |rows, bytes| {
        let request = Batches { columns: None, rows, bytes };
        batches(&*set, &request).unwrap()
    };
    assert_eq!(
        within(100, 1 << 20).iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
        [100, 100, 100, 1, 100, 100, 100, 100, 100, 100, 99]
    );
    // A row is about 14 bytes long, and a batch contains at least one row.
    assert!(within(8192, 1000).iter().all(|batch| batch.num_rows() < 100));
    assert!(within(8192, 1).iter().all(|batch| batch.num_rows() == 1));
}

#[test]
fn only_what_is_asked_for_is_read() {
    let all = numbers(10);
    let bytes = file(std::slice::from_ref(&all), &[]);
    let set = open(MemorySource::file("in.parquet", &bytes[..]), Limits::default()).unwrap();
    let with = |columns: &[usize]| {
        let request = Batches { columns: Some(columns.to_vec()), ..Batches::default() };
        batches(&*set, &request).unwrap()
    };
    assert_eq!(with(&[1]), [all.project(&[1]).unwrap()]);
    assert_eq!(with(&[0, 1]), std::slice::from_ref(&all));
    let none = with(&[]);
    assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
    assert!(none.iter().all(|batch| batch.num_columns() == 0));
}

#[test]
fn no_rows_and_no_columns() {
    let schema = numbers(0).schema();
    let written = write(&schema, &[], &[]).unwrap();
    let set =
        open(MemorySource::file("in.parquet", &written.files["out.parquet"][..]), Limits::default()).unwrap();
    // A file without rows also has a split.
    let splits: Vec<_> = set.splits().iter().map(|split| split.records).collect();
    assert_eq!((set.schema(), splits), (schema.clone(), vec![Some(0)]));
    let written = write(&schema, &[vec![numbers(0)], vec![numbers(2)]], &[]).unwrap();
    assert_eq!(read(&written.files["out.parquet"]).unwrap(), [numbers(2)]);
}

#[test]
fn shards_are_read_as_one() {
    let all = numbers(10);
    let pieces = [vec![all.slice(0, 4)], vec![all.slice(4, 4)], vec![all.slice(8, 2)]];
    let written = write(&all.schema(), &pieces, &[("shards", "2")]).unwrap();
    assert_eq!(
        written.files.keys().collect::<Vec<_>>(),
        ["out-00000-of-00002.parquet", "out-00001-of-00002.parquet"]
    );
    let mut files: Vec<_> = written.files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    // Summaries and hidden files are not data.
    files.extend([("_metadata", &b"x"[..]), ("_a.parquet", b"x"), (".b.parquet", b"x"), ("README.md", b"x")]);
    let set = open(folder(&files), Limits::default()).unwrap();
    let back = batches(&*set, &Batches::default()).unwrap();
    assert_eq!(back, [all.slice(0, 4), all.slice(8, 2), all.slice(4, 4)]);
}

#[test]
fn a_later_file_that_differs_is_unsupported() {
    let first = file(&[numbers(2)], &[]);
    let refusal = |second: &[u8]| {
        let Err(error) = open(folder(&[("a.parquet", &first), ("b.parquet", second)]), Limits::default())
        else {
            panic!("it was opened")
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        error.to_string()
    };
    let typed = file(
        &[rows(vec![("n", Arc::new(Float64Array::from(vec![1.0]))), ("text", numbers(1).column(1).clone())])],
        &[],
    );
    let message = refusal(&typed);
    assert!(
        message.contains("b.parquet") && message.contains("column \"n\"") && message.contains("float64"),
        "{message}"
    );
    let fewer = file(&[numbers(1).project(&[0]).unwrap()], &[]);
    assert!(refusal(&fewer).contains("column \"text\""));
    let more = file(
        &[rows(vec![
            ("n", numbers(1).column(0).clone()),
            ("text", numbers(1).column(1).clone()),
            ("z", numbers(1).column(0).clone()),
        ])],
        &[],
    );
    assert!(refusal(&more).contains("column \"z\""));
    let turned = file(&[numbers(1).project(&[1, 0]).unwrap()], &[]);
    assert!(refusal(&turned).contains("expected n, text, found text, n"));
}

#[test]
fn the_same_columns_under_another_arrow_type_are_read_as_the_first() {
    let column: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["b"]));
    let required = Schema::new(vec![Field::new("s", DataType::Utf8, false)]);
    let first = file(&[RecordBatch::try_new(Arc::new(required), vec![column]).unwrap()], &[]);
    let second = file(&[rows(vec![("s", large)])], &[]);
    let set = open(folder(&[("a.parquet", &first), ("b.parquet", &second)]), Limits::default()).unwrap();
    assert_eq!(set.schema().field(0), &Field::new("s", DataType::Utf8, true));
    let back = batches(&*set, &Batches::default()).unwrap();
    assert_eq!(back[1].column(0).as_ref(), &StringArray::from(vec!["b"]) as &dyn Array);
}

#[test]
fn the_zone_of_another_file_is_reported() {
    let [rome, utc] = ["Europe/Rome", "UTC"].map(|zone| {
        let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone(zone));
        let list = listed(&column);
        file(&[rows(vec![("t", column), ("l", list)])], &[])
    });
    let set = folder(&[("a.parquet", &rome), ("b.parquet", &utc)]);
    let losses = open(set, Limits::default()).unwrap().losses().unwrap();
    let reported: Vec<_> = losses.iter().map(|loss| (loss.what.as_str(), loss.why.as_str())).collect();
    let why = "\"b.parquet\" has the time zone UTC, but is read with the first file's time zone: Europe/Rome";
    assert_eq!(reported, [("t", why), ("l", why)]);
}

/// Returns a list column with one row that contains these values.
fn listed(values: &ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([values.len()]), values.clone(), None))
}

/// Parquet stores durations as integers. Only the Arrow schema in the metadata contains the unit.
#[test]
fn durations_are_never_read_as_those_of_another_unit() {
    let columns: [ArrayRef; 3] = [
        Arc::new(DurationMillisecondArray::from(vec![1])),
        Arc::new(DurationMicrosecondArray::from(vec![1])),
        Arc::new(Int64Array::from(vec![1])),
    ];
    let lists = columns.each_ref().map(listed);
    for columns in [columns, lists] {
        let files = columns.map(|column| file(&[rows(vec![("d", column)])], &[]));
        for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let set = folder(&[("a.parquet", &files[first]), ("b.parquet", &files[second])]);
            let error = open(set, Limits::default()).err().unwrap();
            assert!(
                error.kind() == ErrorKind::Unsupported && error.to_string().contains("column \"d\""),
                "{error}"
            );
        }
    }
}

#[test]
fn folders_say_columns() {
    let id = |id: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![id, id]));
        file(&[rows(vec![("id", column)])], &[])
    };
    let files = [id(1), id(2), id(3)];
    let names = ["day=1/b=x/a.parquet", "day=-2/b=__HIVE_DEFAULT_PARTITION__/a.parquet", "z.parquet"];
    let files: Vec<(&str, &[u8])> = names.into_iter().zip(files.iter().map(Vec::as_slice)).collect();
    let context = MemoryContext::default();
    let reader = Parquet.record_reader(&Options::defaults(&[], Side::Reader)).unwrap();
    let others = [("other/a.parquet", &b"not read"[..]), ("_hidden=1/a.parquet", b"not read")];
    let all: Vec<_> = files.iter().chain(&others).copied().collect();
    let set = reader.open(Arc::new(folder(&all)), &mut Vec::new(), &context).unwrap();
    let types: Vec<_> =
        set.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
    let expected = [("id", DataType::Int64), ("day", DataType::Int32), ("b", DataType::Utf8)];
    assert_eq!(types, expected.map(|(name, data_type)| (name.to_owned(), data_type)));
    let request = Batches { columns: Some(vec![0, 1, 2]), ..Batches::default() };
    for request in [request, Batches::default()] {
        let shown: Vec<String> = batches(&*set, &request)
            .unwrap()
            .iter()
            .map(|batch| {
                let [id, day] = [0, 1].map(|column| batch.column(column));
                let day = (!day.is_null(1)).then(|| day.as_primitive::<Int32Type>().value(1));
                let b = batch.column(2).as_string::<i32>();
                let b = (!b.is_null(1)).then(|| b.value(1));
                format!("{} {day:?} {b:?}", id.as_primitive::<Int64Type>().value(1))
            })
            .collect();
        // The files are sorted by path.
        assert_eq!(shown, ["2 Some(-2) None", "1 Some(1) Some(\"x\")", "3 None None"]);
    }
    let one = batches(&*set, &Batches { columns: Some(vec![1]), ..Batches::default() }).unwrap();
    assert_eq!(
        one.iter().map(|batch| (batch.num_columns(), batch.num_rows())).collect::<Vec<_>>(),
        [(1, 2); 3]
    );
    let twice = folder(&[("id=1/a.parquet", files[0].1)]);
    let error = open(twice, Limits::default()).err().unwrap().to_string();
    assert!(error.contains("column \"id\"") && error.contains("folders"), "{error}");
}

#[test]
fn what_is_written_nests_no_deeper_than_what_is_read() {
    let structs: fn(Field) -> DataType = |field| DataType::Struct(vec![field].into());
    let lists: fn(Field) -> DataType = |field| DataType::List(Arc::new(field));
    for (levels, around, fits) in [
        (59, structs, true),
        (60, structs, false),
        (70, structs, false),
        (16, lists, true),
        (17, lists, false),
    ] {
        let nested = (0..levels).fold(DataType::Int64, |inner, _| around(Field::new("element", inner, true)));
        let schema = Arc::new(Schema::new(vec![Field::new("a", nested, true)]));
        let written = write(&schema, &[], &[]).map_err(|error| error.kind());
        assert_eq!(written.is_ok(), fits, "{levels}");
        match written {
            Ok(mut written) => {
                let file = written.files.pop_first().unwrap().1;
                let set = open(MemorySource::file("in.parquet", file), Limits::default()).unwrap();
                assert_eq!(set.schema(), schema, "{levels}");
            }
            Err(kind) => assert_eq!(kind, ErrorKind::Limit, "{levels}"),
        }
    }
}
