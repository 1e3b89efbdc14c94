//! Tests of records with the program. They cover conversions between formats, every step,
//! verification of outputs, and rejected inputs.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tensorferry_tests::files::{names_in, staging_area};
use tensorferry_tests::mutate::flip_middle;
use tensorferry_tests::rows::{files_of, ids, ids_through, numbered, through};
use tensorferry_tests::tfrecords::{self, Feature, example};
use tensorferry_tests::{Ferry, args, fixtures};

/// The number of rows of the generated file.
const ROWS: i64 = 10_000;

fn made(ferry: &Ferry) -> PathBuf {
    numbered(ferry, "rows.jsonl", 0..ROWS)
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

fn plain() -> PathBuf {
    fixtures::folder().join("tfrecord/example_plain/data.tfrecord")
}

#[test]
fn examples_are_the_same_after_parquet() {
    let ferry = Ferry::new();
    for name in ["example_plain", "sharded"] {
        let input = fixtures::cases("tfrecord", name).remove(0).input();
        let [parquet, back] = ["parquet", "tfrecord"].map(|suffix| ferry.at(format!("{name}.{suffix}")));
        ferry.convert(&input, &parquet, &["--strict", "--verify"]);
        ferry.convert(&parquet, &back, &["--strict", "--verify"]);
        let cat = |path: &Path| ferry.on("cat", path, &[]).expect(0).stdout;
        assert_eq!(cat(&back), cat(&input));
        assert_eq!(cat(&back).lines().count(), 20);
    }
}

#[test]
fn examples_become_lines() {
    let ferry = Ferry::new();
    let output = ferry.at("out.jsonl");
    ferry.convert(&plain(), &output, &[]).says(&["changed: metadata (2) \"img\"", "base64"]);
    let written = std::fs::read_to_string(&output).unwrap();
    let shown = ferry.rows(&plain());
    assert_eq!(written.lines().count(), shown.len());
    for (line, shown) in written.lines().zip(&shown) {
        let row: Value = serde_json::from_str(line).unwrap();
        let feature = &shown["features"]["feature"];
        let ids: Vec<String> = row["id"].as_array().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(json!(ids), feature["id"]["int64List"]["value"]);
        assert_eq!(json!([row["img"]]), feature["img"]["bytesList"]["value"]);
        assert_eq!(row["s"], feature["s"]["bytesList"]["value"]);
        assert_eq!(
            row["w"].as_array().unwrap()[..3],
            feature["w"]["floatList"]["value"].as_array().unwrap()[..3]
        );
    }
    let strict = ferry.at("strict.jsonl");
    ferry.on("convert", plain(), &[strict.to_str().unwrap(), "--strict"]).expect(3);
    assert!(!strict.exists());
}

/// Tests that reported changes do not cause a conversion's own verification to fail. Columns that
/// can be read back are compared, such as bytes that JSON stores as base64 and floats that it
/// stores as strings.
#[test]
fn sound_rows_pass_verification() {
    let ferry = Ferry::new();
    let verified = |input: &Path, output: &str| {
        let output = ferry.at(output);
        let done = ferry.convert(input, &output, &["--verify", "--force", "--allow-empty"]);
        assert!(done.stdout.contains("verified"), "{done}");
        done.stderr.lines().filter(|line| line.contains("was not verified")).count()
    };
    // The case in which a column has two kinds of values is not a table.
    let is_table = |case: &fixtures::Case| !case.is_error() && case.name != "example_type_changes";
    for case in fixtures::cases("tfrecord", "").into_iter().filter(is_table) {
        for output in ["out.jsonl", "out.tfrecord", "out.parquet"] {
            assert_eq!(verified(&case.input(), output), 0, "{} {output}", case.name);
        }
    }
    let rows = ferry.write(
        "rows.jsonl",
        "{\"f\": 0.1, \"s\": {\"a\": 1}, \"ll\": [[1], [2, 3]], \"l\": [1, null], \"o\": [{\"x\": 1}]}\n{\"f\": 1e300}\n",
    );
    // A feature cannot store a struct, nested lists, a null in a list, a list of structs, or 1e300.
    assert_eq!(verified(&rows, "rows.tfrecord"), 5);
    assert_eq!(verified(&rows, "rows.parquet"), 0);
}

#[test]
fn text_is_verified_in_the_form_that_it_has() {
    let ferry = Ferry::new();
    let rows = "{\"a\":\"x y\",\"b\":1,\"c\":null}\n{\"a\":\"it's\",\"b\":2,\"c\":3}\n";
    let input = ferry.write("a.jsonl", rows);
    let out = ferry.at("out.csv");
    for form in ["delimiter=;", "delimiter=tab", "delimiter= ", "header=false", "nulls=NA", "quote='"] {
        ferry.convert(&input, &out, &["--verify", "--receipt", "--force", "-o", form]);
        ferry.on("verify", &out, &[]).expect(0);
    }
    ferry.try_convert(&input, &out, &["--force", "-o", "nulls=a,b"]).expect(2).says(&["nulls", "a,b"]);
}

#[test]
fn a_column_that_would_be_a_part_of_another_is_refused() {
    for rows in [
        "{\"x\":1,\"x.valid\":true}\n{\"x\":2,\"x.valid\":false}\n",
        "{\"x.values\":1,\"x.row_splits\":0}\n{\"x.values\":2,\"x.row_splits\":2}\n",
    ] {
        let ferry = Ferry::new();
        let input = ferry.write("a.jsonl", rows);
        let refused = ferry.try_convert(&input, &ferry.at("out.safetensors"), &[]);
        refused.expect(2).says(&["a part of another", "map:rename"]);
    }
}

#[test]
fn lists_of_no_values_are_rows() {
    let ferry = Ferry::new();
    let input = ferry.write("a.jsonl", "{\"e\":[],\"n\":1}\n{\"e\":[],\"n\":2}\n");
    let schema =
        ferry.write("schema.json", "{\"columns\":[{\"name\":\"e\",\"type\":\"int64\",\"shape\":[null]}]}");
    let schema = format!("schema={}", schema.display());
    for shape in ["0", "2x0"] {
        let out = ferry.at(format!("{shape}.arrow"));
        let step = format!("map:reshape,columns=e,shape={shape}");
        ferry.convert(&input, &out, &["-i", &schema, "--verify", "--step", &step]);
        assert_eq!(ferry.rows(&out).len(), 2, "{shape}");
    }
}

#[test]
fn rows_are_the_same_in_every_format_and_in_shards() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let expected = ferry.rows(&input);
    for name in ["rows.parquet", "out/", "three.jsonl"] {
        let output = ferry.at(name);
        let mut options = vec!["--verify", "--json"];
        if name == "out/" {
            options.extend(["--to", "parquet"]);
        }
        if name != "rows.parquet" {
            options.extend(["-o", "shards=3"]);
        }
        let report = ferry.convert(&input, &output, &options).json();
        assert_eq!(report["records"], json!(ROWS), "{name}: {report}");
        assert_eq!(report["verified"], json!(true), "{name}: {report}");
        let files: Vec<&Path> = report["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| Path::new(path.as_str().unwrap()))
            .collect();
        assert_eq!(files.len(), if name == "rows.parquet" { 1 } else { 3 });
        let back: Vec<Value> = files.iter().flat_map(|path| ferry.rows(path)).collect();
        // Passing any file of a set reads the whole set.
        let back = if back.len() > expected.len() { ferry.rows(files[0]) } else { back };
        assert!(back == expected, "{name}: {} rows", back.len());
    }
    let output = ferry.at("rows.tfrecord");
    let report = ferry.convert(&input, &output, &["--verify", "--json", "-o", "shards=3"]).json();
    assert_eq!(report["files"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(ids_through(&ferry, &output, &[]), (0..ROWS).collect::<Vec<_>>());
}

#[test]
fn a_set_of_another_length_is_an_output_that_exists() {
    let ferry = Ferry::new();
    let lines: String = (0..6).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let input = ferry.write("in.jsonl", lines);
    std::fs::create_dir(ferry.at("sets")).unwrap();
    let output = ferry.at("sets/out.jsonl");
    let named =
        |count: u32| (0..count).map(|n| format!("out-{n:05}-of-{count:05}.jsonl")).collect::<Vec<_>>();
    ferry.convert(&input, &output, &["-o", "shard_rows=2"]);
    assert_eq!(names_in(&ferry.at("sets")), named(3));
    for another in ["shard_rows=3", "shards=2", "max_shard_size=1"] {
        ferry
            .run(args!["convert", input, output, "-o", another])
            .expect(2)
            .says(&["out-00000-of-00003.jsonl exists; use --force"]);
        assert_eq!(names_in(&ferry.at("sets")), named(3), "{another}");
    }
    ferry.convert(&input, &output, &["-o", "shard_rows=3", "--force"]);
    assert_eq!(names_in(&ferry.at("sets")), named(2));
    // A dry run does not know the lengths of the files.
    let foreseen =
        ferry.run(args!["convert", input, output, "-o", "shards=2", "--force", "--dry-run"]).expect(0);
    assert!(
        foreseen.stdout.contains("out-00001-of-00002.jsonl") && !foreseen.stdout.contains("0 B"),
        "{foreseen}"
    );
    let foreseen =
        ferry.run(args!["convert", input, output, "-o", "shard_rows=2", "--force", "--dry-run"]).expect(0);
    assert!(
        !foreseen.stdout.contains("-of-") && foreseen.stderr.contains("the number of files depends"),
        "{foreseen}"
    );
    // Two sets whose names differ only in the number of files are separate sets.
    for name in named(3) {
        std::fs::write(ferry.at("sets").join(name), "{\"id\": 7}\n").unwrap();
    }
    let several = ferry.run(args!["cat", ferry.at("sets")]).expect(2);
    several.says(&["-i 'files=out-?????-of-00002.jsonl'", "-i 'files=out-?????-of-00003.jsonl'"]);
    let one = ferry.run(args!["cat", ferry.at("sets"), "-i", "files=out-?????-of-00002.jsonl"]).expect(0);
    assert_eq!(one.stdout.lines().count(), 6);
}

#[test]
fn shards_are_all_rows_and_each_once() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let shard = |index: i64| ids_through(&ferry, &input, &[&format!("shard:3,index={index}")]);
    for index in 0..3 {
        assert_eq!(shard(index), (index..ROWS).step_by(3).collect::<Vec<_>>());
    }
    let never = ferry.at("never.jsonl");
    let refused = ferry.on("convert", &input, &[never.to_str().unwrap(), "--step", "shard:3,index=3"]);
    refused.expect(2).says(&["below 3"]);
}

#[test]
fn a_shuffle_is_a_permutation_that_its_seed_decides() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let all: Vec<i64> = (0..ROWS).collect();
    assert_eq!(ids_through(&ferry, &input, &["shuffle:1"]), all);
    for buffer in [10, 1000, 20_000] {
        let step = format!("shuffle:{buffer},seed=7");
        let shuffled = ids_through(&ferry, &input, &[&step]);
        assert_ne!(shuffled, all);
        assert_eq!(sorted(shuffled.clone()), all);
        // A row can only be returned while it is in the buffer.
        assert!((0..).zip(&shuffled).all(|(place, &id)| id < place + buffer), "{buffer}");
        for threads in ["1", "4"] {
            assert_eq!(
                ids(&through(&ferry, &input, &[&step], &["--threads", threads])),
                shuffled,
                "{threads}"
            );
        }
        assert_ne!(ids_through(&ferry, &input, &[&format!("shuffle:{buffer},seed=8")]), shuffled);
    }
    // If the buffer contains all rows, a row can move anywhere. About half of the rows in the first
    // half remain there.
    let shuffled = ids_through(&ferry, &input, &["shuffle:20000"]);
    let early = shuffled[..5000].iter().filter(|&&id| id < 5000).count();
    assert!((2300..2700).contains(&early), "{early}");
}

#[test]
fn epochs_end_where_they_end() {
    let ferry = Ferry::new();
    let _ = made(&ferry);
    let input = numbered(&ferry, "few.jsonl", 0..100);
    let all: Vec<i64> = (0..100).collect();
    assert_eq!(ids_through(&ferry, &input, &["repeat:3"]), all.repeat(3));
    assert!(ids_through(&ferry, &input, &["repeat:0"]).is_empty());
    let endless = ids_through(&ferry, &input, &["repeat", "take:250"]);
    assert_eq!(endless, all.iter().copied().cycle().take(250).collect::<Vec<_>>());
    let epochs = ids_through(&ferry, &input, &["shuffle:1000,seed=5", "repeat:3"]);
    let distinct: BTreeSet<&[i64]> = epochs.chunks(100).collect();
    assert_eq!(distinct.len(), 3);
    assert!(epochs.chunks(100).all(|epoch| sorted(epoch.to_vec()) == all));
    let same = ids_through(&ferry, &input, &["shuffle:1000,seed=5,reshuffle=false", "repeat:3"]);
    assert_eq!(same, same[..100].repeat(3));
    // In the other order of steps, the epochs are mixed.
    let mixed = ids_through(&ferry, &input, &["repeat:3", "shuffle:1000,seed=5"]);
    assert_eq!(sorted(mixed.clone()), sorted(all.repeat(3)));
    assert_ne!(sorted(mixed[..100].to_vec()), all);
}

#[test]
fn rows_are_taken_skipped_and_filtered_by_what_they_are() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let kept = |steps: &[&str]| ids_through(&ferry, &input, steps);
    assert_eq!(kept(&["take:3"]), [0, 1, 2]);
    assert!(kept(&["take:0"]).is_empty());
    assert_eq!(kept(&["skip:9998"]), [9998, 9999]);
    assert!(kept(&["skip:20000"]).is_empty());
    assert_eq!(kept(&["skip:10", "take:2", "skip:1"]), [11]);
    assert_eq!(kept(&["prefetch:1MiB", "skip:9999"]), [9999]);
    let by = |of: &dyn Fn(i64) -> bool| (0..ROWS).filter(|&id| of(id)).collect::<Vec<_>>();
    assert_eq!(kept(&["filter:id < 5 or id >= 9998"]), [0, 1, 2, 3, 4, 9998, 9999]);
    assert_eq!(kept(&["filter:len(list) = 3 and not word = 'w0'"]), by(&|id| id % 4 == 3 && id % 7 != 0));
    assert_eq!(kept(&["filter:half > id"]), by(&|_| false));
    assert_eq!(kept(&["filter:word is null"]), by(&|_| false));
}

#[test]
fn columns_are_mapped() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let first = |steps: &[&str]| {
        let steps: Vec<&str> = ["take:1", "skip:0"].iter().chain(steps).copied().collect();
        through(&ferry, &input, &steps, &[]).remove(0)
    };
    assert_eq!(first(&["map:select,columns=id word"]), json!({"id": 0, "word": "w0"}));
    assert_eq!(first(&["map:drop,columns=list,columns=half"]), json!({"id": 0, "word": "w0"}));
    let renamed = first(&["map:select,columns=id half", "map:rename,columns=half,to=x"]);
    assert_eq!(renamed, json!({"id": 0, "x": 0.0}));
    let named = "map:rename,columns=half,to=one half";
    let selected = "map:select,\"columns=id \"\"one half\"\"\"";
    assert_eq!(first(&[named, selected]), json!({"id": 0, "one half": 0.0}));
    let output = ferry.at("cast.parquet");
    let steps = ["--step", "map:cast,columns=id list,to=int16", "--step", "map:cast,columns=half,to=float32"];
    ferry.convert(&input, &output, &steps);
    let schema = ferry.on("inspect", &output, &["--json"]).expect(0).json()["schema"].clone();
    let types: Vec<&str> =
        schema.as_array().unwrap().iter().map(|column| column["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["float32", "int16", "int16", "utf8"], "{schema}");
    let never = ferry.at("never.parquet");
    let refused =
        ferry.on("convert", &input, &[never.to_str().unwrap(), "--step", "map:cast,columns=id,to=int8"]);
    refused.expect(3).says(&["128", "column \"id\""]);
    let cut = ["--step", "map:cast,columns=half,to=int32"];
    let refused = ferry.on("convert", &input, &[&[never.to_str().unwrap()][..], &cut].concat());
    refused.expect(3).says(&["fraction", "found 0.5", "column \"half\""]);
    let batches = through(&ferry, &input, &["map:select,columns=id", "take:5", "batch:2"], &[]);
    assert_eq!(batches, [json!({"id": [0, 1]}), json!({"id": [2, 3]}), json!({"id": [4]})]);
    let even = [
        "map:select,columns=id",
        "take:9",
        "batch:4,drop_remainder=true",
        "map:reshape,columns=id,shape=2x2",
    ];
    let shaped = through(&ferry, &input, &even, &[]);
    assert_eq!(shaped, [json!({"id": [[0, 1], [2, 3]]}), json!({"id": [[4, 5], [6, 7]]})]);
    assert!(!never.exists());
}

#[test]
fn files_take_turns() {
    let ferry = Ferry::new();
    let folder = files_of(&ferry, "in", &[5, 1, 4]);
    let order = ids_through(&ferry, &folder, &["interleave:2,block_length=2"]);
    assert_eq!(order, [0, 1, 1000, 2, 3, 2000, 2001, 4, 2002, 2003]);
    assert_eq!(ids_through(&ferry, &folder, &["interleave:1"]), ids_through(&ferry, &folder, &[]));
    let never = ferry.at("never.jsonl");
    let late = [never.to_str().unwrap(), "--step", "skip:1", "--step", "interleave:2"];
    ferry.on("convert", &folder, &late).expect(2).says(&["the first step"]);
}

#[test]
fn an_index_is_lines_that_reading_goes_by() {
    let ferry = Ferry::new();
    let input = ferry.at("data.tfrecord");
    std::fs::copy(plain(), &input).unwrap();
    let before = ferry.rows(&input);
    let report = ferry.on("index", &input, &["--json"]).expect(0).json();
    assert_eq!(report["records"], json!(20));
    // The index has one line per record, with the record's offset and its length including the
    // frame.
    let text = std::fs::read_to_string(ferry.at("data.tfrecord.idx")).unwrap();
    let mut end = 0;
    for line in text.lines() {
        let (offset, len) = line.split_once(' ').unwrap();
        assert_eq!(offset.parse::<u64>().unwrap(), end);
        end += len.parse::<u64>().unwrap();
    }
    assert_eq!(text.lines().count(), 20);
    assert_eq!(end, std::fs::metadata(&input).unwrap().len());
    assert_eq!(ferry.rows(&input), before);
    ferry.on("index", &input, &[]).expect(2).says(&["data.tfrecord.idx"]);
    ferry.on("index", &input, &["--force"]).expect(0);
}

#[test]
fn inspect_says_what_the_columns_hold() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let document = ferry.on("inspect", &input, &["--json"]).expect(0).json();
    assert_eq!(document["records"], json!(ROWS));
    let column = |name: &str| {
        let columns = document["schema"].as_array().unwrap();
        columns.iter().find(|column| column["name"] == name).unwrap().clone()
    };
    assert_eq!((&column("id")["min"], &column("id")["max"]), (&json!(0), &json!(ROWS - 1)));
    assert_eq!(column("list")["shape"], json!([null]));
    let lengths = &column("list")["lengths"];
    assert_eq!((&lengths["min"], &lengths["max"], &lengths["total"]), (&json!(0), &json!(3), &json!(15_000)));
    assert_eq!(lengths["up_to"], json!({"0": 2500, "1": 2500, "2": 2500, "4": 2500}));
    let schema = ferry.on("inspect", &input, &["--schema"]).expect(0).json();
    let columns = json!([
        {"name": "half", "type": "float64"},
        {"name": "id", "type": "int64"},
        {"name": "list", "type": "int64", "shape": [null]},
        {"name": "word", "type": "utf8"},
    ]);
    assert_eq!(schema["columns"], columns);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let ferry = Ferry::new();
    let input = made(&ferry);
    let damaged = ferry.at("damaged.tfrecord");
    ferry.convert(&input, &damaged, &[]);
    flip_middle(&damaged);
    let before = ferry.names();
    let refused = |input: &Path, code: i32, options: &[&str], says: &[&str]| {
        for name in ["out.jsonl", "out.parquet", "out.tfrecord"] {
            let output = ferry.at(name);
            let options: Vec<&str> = [output.to_str().unwrap()].iter().chain(options).copied().collect();
            ferry.on("convert", input, &options).expect(code).says(says);
            assert_eq!(ferry.names(), before);
        }
    };
    refused(&damaged, 3, &[], &["damaged.tfrecord", "record", "offset"]);
    refused(&damaged, 2, &["-i", "schema=missing.json"], &["missing.json"]);
    refused(&input, 2, &["--step", "filter:nothing = 1"], &["column \"nothing\""]);
    refused(&input, 2, &["--step", "filter:id ="], &["filter"]);
    refused(&input, 2, &["--step", "map:drop,columns=nothing"], &["column \"nothing\"", "half"]);
    refused(&input, 2, &["--step", "repeat"], &["the records have no end", "take"]);
    refused(&input, 2, &["--step", "take:5", "--step", "repeat"], &["the records have no end"]);
    refused(&input, 2, &["--step", "cast:bf16"], &["needs tensors"]);
    refused(&input, 2, &["--step", "shuffle:0"], &["shuffle"]);
    refused(&input, 3, &["--step", "repeat:9", "--step", "shuffle:90000", "--memory", "1MiB"], &["--memory"]);
    refused(&ferry.at("nothing.tfrecord"), 2, &[], &["nothing.tfrecord"]);
}

#[test]
fn records_are_compared_whatever_their_formats() {
    let ferry = Ferry::new();
    let parquet = ferry.at("data.parquet");
    ferry.convert(&plain(), &parquet, &[]);
    let diff = |b: &Path, options: &[&str]| {
        let both: Vec<&str> = std::iter::once(b.to_str().unwrap()).chain(options.iter().copied()).collect();
        ferry.on("diff", plain(), &both)
    };
    assert_eq!(diff(&parquet, &[]).expect(0).stdout, "equal: 20 records, 4 columns\n");
    let found = diff(&parquet, &["--json"]).expect(0).json();
    assert_eq!(found["equal"], json!(true));
    assert_eq!((&found["records"], &found["differences"]), (&json!({"a": 20, "b": 20}), &json!([])));

    let shorter = diff(&parquet, &["--step", "skip:1", "--json"]).expect(1).json();
    assert_eq!(shorter["records"], json!({"a": 19, "b": 20}));
    let first = |name: &str| {
        let all = shorter["differences"].as_array().unwrap();
        all.iter().find(|difference| difference["name"] == name).map(|difference| difference["first"].clone())
    };
    assert_eq!(first("id"), Some(json!(0)), "{shorter}");
    let fewer = diff(&parquet, &["--step", "map:select,columns=id"]).expect(1);
    assert!(fewer.stdout.starts_with("different: 3 differences\n"), "{fewer}");
    assert!(fewer.stdout.contains("column \"img\": only B has it"), "{fewer}");
    // With a tolerance, or if the other input contains tensors, records are converted to tensors
    // and compared.
    assert!(diff(&parquet, &["--atol", "0.1"]).expect(0).stdout.ends_with(" tensors\n"));
    let tensors = fixtures::cases("safetensors", "all_dtypes").remove(0).input();
    diff(&tensors, &[]).expect(1);
}

#[test]
fn what_a_fixed_shape_would_not_parse_is_noted() {
    let ferry = Ferry::new();
    let input =
        ferry.write("in.jsonl", "{\"a\": [1, 2], \"b\": 1}\n{\"a\": []}\n{\"a\": [3, 4], \"b\": 2}\n");
    let output = ferry.at("out.tfrecord");
    let report = ferry.convert(&input, &output, &["--strict", "--json"]).json();
    let notes: Vec<&str> =
        report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let of = |column: &str| {
        notes.iter().copied().find(|note| note.contains(&format!("column \"{column}\""))).unwrap()
    };
    assert!(of("a").contains("1 have an empty list; FixedLenFeature([2]) fails"), "{notes:?}");
    assert!(of("b").contains("lack the feature; FixedLenFeature([]) fails"), "{notes:?}");
}

/// Writes a file whose records are all similar, except for one near the end.
fn alike_but(path: &Path, odd: &[(&str, Feature)]) {
    let record = |id| {
        if id == 900 {
            example(odd)
        } else {
            example(&[("id", Feature::Ints(vec![id])), ("x", Feature::Floats(vec![0.5; 3]))])
        }
    };
    std::fs::write(path, tfrecords::file((0..1000).map(record))).unwrap();
}

/// Tests that a step can name a column that occurs only in a late record, and not in the records
/// that the schema is guessed from.
#[test]
fn a_step_sees_what_only_a_late_record_has() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["in.tfrecord", "out.jsonl"]);
    alike_but(&input, &[("new", Feature::Ints(vec![7]))]);
    ferry.convert(&input, &output, &["--step", "filter:new = 7"]);
    assert_eq!(std::fs::read_to_string(&output).unwrap().lines().count(), 1);
}

#[test]
fn what_only_a_late_record_shows_is_in_the_schema() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["in.tfrecord", "out.parquet"]);
    let late: [(&[(&str, Feature)], Value); 3] = [
        (&[("new", Feature::Ints(vec![7]))], json!({"new": [999, 7, 7], "id": [1, 0, 999]})),
        (&[("id", Feature::Ints(vec![1, 2000]))], json!({"id": [0, 0, 2000]})),
        (&[("id", Feature::Ints(vec![-5])), ("x", Feature::Floats(vec![]))], json!({"id": [0, -5, 999]})),
    ];
    for (odd, expected) in late {
        alike_but(&input, odd);
        let all = ferry.on("inspect", &input, &["--schema"]).json();
        let _ = std::fs::remove_file(&output);
        ferry.convert(&input, &output, &["--verify"]);
        for path in [&input, &output] {
            let found = ferry.on("inspect", path, &["--json"]).json();
            assert_eq!(found["records"], 1000);
            for (name, expected) in expected.as_object().unwrap() {
                let column =
                    found["schema"].as_array().unwrap().iter().find(|column| column["name"] == *name);
                let column = column.unwrap();
                assert_eq!(json!([column["missing"], column["min"], column["max"]]), *expected);
            }
        }
        let names = |schema: &Value| -> Vec<Value> {
            schema
                .as_array()
                .unwrap()
                .iter()
                .map(|column| json!([column["name"], column["type"], column["shape"]]))
                .collect()
        };
        let found = ferry.on("inspect", &input, &["--json"]).json();
        assert_eq!(names(&found["schema"]), names(&all["columns"]));
    }
}

#[test]
fn a_second_reading_says_nothing_twice_and_forgets_nothing() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["in.tfrecord", "out.parquet"]);
    alike_but(&input, &[("new", Feature::Ints(vec![7]))]);
    // The conversion prints notes about the receipt of an older output, and about a stage from a
    // different machine.
    ferry.convert(&input, &output, &["--receipt"]);
    std::fs::remove_file(&output).unwrap();
    ferry.write(&format!("{}/copied/new/x", staging_area()), "");
    let said = ferry.convert(&input, &output, &[]).stderr;
    for note in ["may be mistaken for a part of it", "not created here"] {
        assert_eq!(said.matches(note).count(), 1, "{note}: {said}");
    }
}

/// Tests that samples without a member are counted per file, even if two of them have the same key.
#[test]
fn rows_that_a_writer_loses_are_not_missing() {
    let ferry = Ferry::new();
    ferry.write("in/0.csv", "key,txt\na,\nb,\nc,x\n");
    ferry.write("in/1.csv", "key,txt\na,\nb,y\nc,\n");
    let output = ferry.at("out.tar");
    let input = ferry.at("in");
    let done = ferry.convert(&input, &output, &["-o", "key=key", "--verify", "--receipt"]);
    done.says(&[
        "lost: record \"4 records\"",
        "all its members are null, so it is not written: sample \"a\", sample \"b\", sample \"a\", sample \"c\"",
    ]);
    assert_eq!(ferry.rows(&output).len(), 2);
    let said = ferry.run(["verify", output.to_str().unwrap()]).expect(0);
    assert!(said.stdout.contains("4 of its 6 records were lost"), "{}", said.stdout);
    let receipt = ferry.at("out.tar.ferry.json");
    let text = std::fs::read_to_string(&receipt).unwrap();
    assert_eq!(text.matches("\"lost\": 4").count(), 1, "{text}");
    std::fs::write(&receipt, text.replace("\"lost\": 4", "\"lost\": 3")).unwrap();
    ferry.run(["verify", output.to_str().unwrap()]).expect(4);
    // A receipt without this count contains only the loss.
    std::fs::write(&receipt, text.replace("\"lost\": 4,", "")).unwrap();
    ferry.run(["verify", output.to_str().unwrap()]).expect(0).prints(&["4 of its 6 records were lost"]);
    std::fs::write(&receipt, text.replace("\"lost\": 4,", "").replace("4 records", "txt")).unwrap();
    ferry.run(["verify", output.to_str().unwrap()]).expect(4);
}

#[test]
fn what_is_wrong_with_a_late_record_names_it() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["in.tfrecord", "out.parquet"]);
    alike_but(&input, &[("id", Feature::Floats(vec![1.0]))]);
    for command in ["inspect", "convert"] {
        let mut arguments = vec![command.as_ref(), input.as_os_str()];
        arguments.extend((command == "convert").then_some(output.as_os_str()));
        let outcome = ferry.run(arguments).expect(3);
        assert!(
            outcome.stderr.contains("record 900") && outcome.stderr.contains("in.tfrecord"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(ferry.names(), ["in.tfrecord"]);
}

/// Tests that a column name with a NUL is refused, because plugins receive names as C strings.
#[test]
fn a_nul_in_the_name_of_a_column_is_refused_by_that_name() {
    let ferry = Ferry::new();
    for (row, name) in [(r#"{"a\u0000b":1}"#, "a\\0b"), (r#"{"c":{"a\u0000b":1}}"#, "\"c\"")] {
        let input = ferry.write("rows.jsonl", format!("{row}\n"));
        for output in ["out.csv", "out.parquet", "out.tfrecord"] {
            let refused = ferry.try_convert(&input, &ferry.at(output), &[]).expect(3);
            refused.says(&["contains a NUL character", name]);
            assert!(!ferry.at(output).exists());
        }
    }
}

/// Tests that a batch that is read in slices has the same rows, also in the middle of the batch.
#[test]
fn the_slices_of_a_large_batch_have_its_rows() {
    const MANY: usize = 5000;
    let ferry = Ferry::new();
    let line = |id: usize| {
        let words: Vec<String> =
            (0..id % 5).map(|word| format!("word {word} {}", "x".repeat(id % 4000))).collect();
        let maybe = (!id.is_multiple_of(3)).then(|| "y".repeat(id % 3000));
        format!(
            "{}\n",
            json!({"id": id, "words": words, "maybe": maybe, "deep": {"n": id, "list": [[id], []]}})
        )
    };
    let input = ferry.write("rows.jsonl", (0..MANY).map(line).collect::<String>());
    let direct = ferry.at("direct.jsonl");
    ferry.convert(&input, &direct, &[]);
    let expected = std::fs::read_to_string(&direct).unwrap();
    assert!(expected.len() > 20 << 20, "{}", expected.len());
    for codec in ["none", "lz4", "zstd"] {
        let [batch, back] = [".arrow", ".jsonl"].map(|suffix| ferry.at(format!("{codec}{suffix}")));
        // A batch is at most a sixteenth of the memory.
        let one = ["-o", "batch_size=64MiB", "-o", "batch_rows=1000000", "--memory", "1GiB"];
        ferry.convert(&input, &batch, &[&one[..], &["-o", &format!("compression={codec}")]].concat());
        ferry.convert(&batch, &back, &["--memory", "16MiB"]);
        assert!(std::fs::read_to_string(&back).unwrap() == expected, "{codec}");
        let some = ferry.at(format!("{codec}.some.jsonl"));
        ferry.convert(&batch, &some, &["--step", "skip:2001", "--step", "take:11"]);
        let lines: Vec<&str> = expected.lines().skip(2001).take(11).collect();
        assert_eq!(std::fs::read_to_string(&some).unwrap().lines().collect::<Vec<_>>(), lines, "{codec}");
    }
}
