//! Records become tensors and tensors records: what is made of what, what comes back, what is refused, and how
//! much memory it takes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod outside;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::ferry::names_in;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::zoo::Zoo;
use tensorferry_tests::{Ferry, Outcome, fixtures, python};

const ROWS: usize = 20_000;

fn convert(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> Outcome {
    let mut all = vec!["convert".as_ref(), input.as_os_str(), output.as_os_str()];
    all.extend(options.iter().map(std::ffi::OsStr::new));
    ferry.run(all)
}

/// The dtype and shape of each tensor.
fn facts(ferry: &Ferry, path: &Path) -> Value {
    let document = ferry.inspect(path);
    let tensors = document["tensors"].as_array().unwrap().iter();
    tensors
        .map(|tensor| {
            (tensor["name"].as_str().unwrap().to_owned(), json!([tensor["dtype"], tensor["shape"]]))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Rows of JSON: numbers, lists of one length, lists of any, and values that are missing.
fn lines() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let line = |id: usize| {
        let list: Vec<usize> = (0..id % 4).map(|n| id + n).collect();
        let maybe = if id.is_multiple_of(3) { Value::Null } else { json!(id as f64 / 2.0) };
        let deep: Vec<Vec<usize>> = (0..id % 3).map(|n| vec![n; n]).collect();
        let row = json!({"id": id, "pair": [id, 7], "list": list, "maybe": maybe, "deep": deep});
        format!("{row}\n")
    };
    std::fs::write(&path, (0..ROWS).map(line).collect::<String>()).unwrap();
    (folder, path)
}

fn small(rows: &str) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows).unwrap();
    (folder, path)
}

fn rows_of(ferry: &Ferry, path: &Path) -> Vec<Value> {
    let shown = ferry.run(["cat".as_ref(), path.as_os_str()]).expect(0);
    shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn columns_become_tensors_and_rows_again() {
    let ferry = Ferry::new();
    let (folder, path) = lines();
    let tensors = folder.path().join("rows.safetensors");
    let report = ferry.convert(&path, &tensors, &["--strict", "--verify", "--json", "--receipt"]).json();
    assert_eq!((&report["verified"], &report["losses"]), (&json!(true), &json!([])), "{report}");
    let inner: usize = (0..ROWS).map(|id| id % 3).sum();
    let expected = json!({
        "id": ["I64", [ROWS]],
        "pair": ["I64", [ROWS, 2]],
        "list.values": ["I64", [(0..ROWS).map(|id| id % 4).sum::<usize>()]],
        "list.row_splits": ["I64", [ROWS + 1]],
        "maybe": ["F64", [ROWS]],
        "maybe.valid": ["BOOL", [ROWS]],
        "deep.row_splits": ["I64", [ROWS + 1]],
        "deep.values.row_splits": ["I64", [inner + 1]],
        "deep.values.values": ["I64", [(0..ROWS).filter(|id| id % 3 == 2).count()]],
    });
    assert_eq!(facts(&ferry, &tensors), expected);
    ferry.run(["verify".as_ref(), tensors.as_os_str()]).expect(0);
    assert!(ferry.equal(&path, &tensors));

    let back = folder.path().join("back.jsonl");
    let report = ferry.convert(&tensors, &back, &["--strict", "--verify", "--json", "--receipt"]).json();
    assert_eq!(report["records"], json!(ROWS), "{report}");
    ferry.run(["verify".as_ref(), back.as_os_str()]).expect(0);
    assert!(rows_of(&ferry, &back) == rows_of(&ferry, &path));
    // Without what the metadata keep, names alone say what is a column.
    let bare = folder.path().join("bare.jsonl");
    ferry.convert(&tensors, &bare, &["--strict", "--step", "drop_metadata:*"]);
    assert!(rows_of(&ferry, &bare) == rows_of(&ferry, &path));
}

#[test]
fn steps_stand_on_both_sides() {
    let ferry = Ferry::new();
    let (folder, path) = lines();
    let tensors = folder.path().join("some.safetensors");
    let steps = [
        "filter:id < 10",
        "map:select,columns=id pair",
        "cast:f32,where=pair,only=any",
        "rename:id,to=number",
    ];
    let options: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    ferry.convert(&path, &tensors, &options);
    assert_eq!(facts(&ferry, &tensors), json!({"number": ["I64", [10]], "pair": ["F32", [10, 2]]}));
    let rows = folder.path().join("some.jsonl");
    let options = ["--step", "cast:f64,where=pair", "--step", "records:row", "--step", "skip:8"];
    ferry.convert(&tensors, &rows, &options);
    let expected = [json!({"number": 8, "pair": [8.0, 7.0]}), json!({"number": 9, "pair": [9.0, 7.0]})];
    assert_eq!(rows_of(&ferry, &rows), expected);
    let shuffled = folder.path().join("shuffled.jsonl");
    ferry.convert(&tensors, &shuffled, &["--step", "shuffle:100,seed=3", "--verify"]);
    let mut ids: Vec<i64> =
        rows_of(&ferry, &shuffled).iter().map(|row| row["number"].as_i64().unwrap()).collect();
    assert_ne!(ids, (0..10).collect::<Vec<_>>());
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());

    let never = folder.path().join("never.safetensors");
    for (step, word) in [
        (["rename:a,to=b", "take:1"], "they have become tensors before it"),
        (["records:row", "take:1"], "the input holds records already"),
        (["tensors:column", "tensors:column"], "one step leads to the other side"),
    ] {
        convert(&ferry, &path, &never, &["--step", step[0], "--step", step[1]]).expect(2).says(&[word]);
    }
    let lines = folder.path().join("never.jsonl");
    convert(&ferry, &tensors, &lines, &["--step", "interleave:2"]).expect(2).says(&["come of tensors"]);
    convert(&ferry, &path, &lines, &["--step", "tensors:column"]).expect(2).says(&["both sides are records"]);
    let other = folder.path().join("never.npz.safetensors");
    convert(&ferry, &tensors, &other, &["--step", "records:row"]).expect(2).says(&["both sides are tensors"]);
    assert!(!never.exists() && !lines.exists() && !other.exists());
    let shown = ferry.run(["steps"]).expect(0);
    for example in ["--step records:row", "--step tensors:column"] {
        assert!(shown.stdout.contains(example), "{shown}");
    }
}

#[test]
fn strings_say_how_they_can_be_carried() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let path = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let output = folder.path().join("a.safetensors");
    let dry = convert(&ferry, &path, &output, &["--dry-run", "--json"]).expect(0);
    dry.clone().says(&["loss: tensor \"img\"", "strings=bytes"]);
    assert_eq!(dry.json()["tensors"], json!(2));
    convert(&ferry, &path, &output, &["--strict"]).expect(3).says(&["\"img\""]);
    assert_eq!(names_in(folder.path()), [""; 0]);
    let bytes = ["--step", "tensors:column,strings=bytes"];
    ferry.convert(&path, &output, &[&bytes[..], &["--strict"]].concat());
    // A format that has strings takes them as they are, and gives them back.
    let ferry_with_trial = Ferry::new();
    ferry_with_trial.add_plugin(&outside::library("trial"));
    let [trial, back] = ["a.trial", "back.tfrecord"].map(|name| folder.path().join(name));
    ferry_with_trial.convert(&path, &trial, &["--verify"]);
    assert_eq!(facts(&ferry_with_trial, &trial)["s"], json!(["STR", [20, 2]]));
    ferry_with_trial.convert(&trial, &back, &["--verify"]);
    assert_eq!(rows_of(&ferry, &back), rows_of(&ferry, &path));
}

#[test]
fn arrays_of_an_outside_format_are_columns() {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("npy"));
    let (folder, path) = lines();
    let [archive, back, array, column] =
        ["rows.npz", "back.jsonl", "id.npy", "id.jsonl"].map(|name| folder.path().join(name));
    ferry.convert(&path, &archive, &["--verify", "--strict"]);
    let script = outside::folder().join("npy/python/see_arrays.py");
    let seen = python::script(script.to_str().unwrap(), [&archive]).json();
    assert_eq!((&seen["pair"][0], &seen["pair"][1]), (&json!("I64"), &json!([ROWS, 2])));
    assert_eq!(seen["maybe.valid"][0], "BOOL");
    ferry.convert(&archive, &back, &["--verify", "--strict"]);
    // Members of an archive have an order of their own; a row is the same.
    assert!(rows_of(&ferry, &back) == rows_of(&ferry, &path));
    ferry.convert(&path, &array, &["--step", "map:select,columns=id"]);
    ferry.convert(&array, &column, &[]);
    let ids: Vec<Value> = (0..ROWS).map(|id| json!({"id": id})).collect();
    assert!(rows_of(&ferry, &column) == ids);
}

/// Tensors of every kind that have no row in common.
fn unequal(folder: &Path) -> PathBuf {
    let path = folder.join("model.safetensors");
    let file = safetensors(&[
        ("a", "F32", &[2, 3], &[1; 24]),
        ("b", "BF16", &[5], &[2; 10]),
        ("c", "F8_E4M3", &[3, 1], &[3; 3]),
        ("d", "I64", &[], &[4; 8]),
        ("e", "BOOL", &[0, 4], &[]),
    ]);
    std::fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_model_is_records_of_whole_tensors() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let model = unequal(folder.path());
    let never = folder.path().join("never.parquet");
    convert(&ferry, &model, &never, &[]).expect(2).says(&[
        "records:tensor",
        "2 rows",
        "5 rows",
        "no leading",
    ]);
    assert!(!never.exists());
    for name in ["m.parquet", "m.tfrecord"] {
        let [records, back] = [name.to_owned(), format!("{name}.safetensors")].map(|n| folder.path().join(n));
        ferry.convert(&model, &records, &["--step", "records:tensor", "--verify", "--strict"]);
        ferry.convert(&records, &back, &["--step", "tensors:record", "--verify", "--strict"]);
        assert!(ferry.equal(&model, &back), "{name}");
        assert_eq!(facts(&ferry, &back), facts(&ferry, &model), "{name}");
    }
    // A tensor at a time, some of them, under another name.
    let some = folder.path().join("some.safetensors");
    let steps = ["filter:name = 'a' or name = 'd'", "tensors:record", "rename:^a$,to=x"];
    let options: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    ferry.convert(&folder.path().join("m.parquet"), &some, &options);
    assert_eq!(facts(&ferry, &some), json!({"x": ["F32", [2, 3]], "d": ["I64", []]}));
}

#[test]
fn records_that_are_no_tensors_are_refused() {
    let ferry = Ferry::new();
    let cases = [
        (r#"{"name":"a","dtype":"F32","shape":[1],"data":"AAAA"}"#, 2, "bytes"),
        (r#"{"name":"a","dtype":"F32","shape":[1]}"#, 2, "name, dtype, shape and data"),
    ];
    for (rows, code, word) in cases {
        let (folder, path) = small(rows);
        let output = folder.path().join("out.safetensors");
        convert(&ferry, &path, &output, &["--step", "tensors:record"]).expect(code).says(&[word]);
        assert_eq!(names_in(folder.path()), ["rows.jsonl"]);
    }
    let folder = tempdir().unwrap();
    let model = unequal(folder.path());
    let records = folder.path().join("m.parquet");
    ferry.convert(&model, &records, &["--step", "records:tensor", "--step", "repeat:2"]);
    let twice = folder.path().join("twice.safetensors");
    convert(&ferry, &records, &twice, &["--step", "tensors:record"])
        .expect(3)
        .says(&["two records have one name"]);
    assert!(!twice.exists());
}

#[test]
fn names_that_collide_are_listed() {
    let ferry = Ferry::new();
    let (folder, path) = small("{\"x\":1,\"x.valid\":true}\n{\"x\":null,\"x.valid\":false}\n");
    let output = folder.path().join("out.safetensors");
    convert(&ferry, &path, &output, &[]).expect(2).says(&["\"x.valid\"", "map:rename"]);
    assert_eq!(names_in(folder.path()), ["rows.jsonl"]);
    ferry.convert(&path, &output, &["--step", "map:rename,columns=x.valid,to=y"]);
    assert_eq!(facts(&ferry, &output)["y"], json!(["BOOL", [2]]));
}

#[test]
fn splits_that_lie_are_refused() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let splits: [(&[i64], &str); 6] = [
        (&[0, 3, 2, 4], "descend"),
        (&[0, 3, 9, 4], "reach past"),
        (&[0, 1, 2, 3], "do not cover"),
        (&[1, 2, 3, 4], "do not cover"),
        (&[0, -1, 2, 4], "descend"),
        (&[0, i64::MAX, 2, 4], "reach past"),
    ];
    let path = folder.path().join("hostile.safetensors");
    for (splits, word) in splits {
        let bytes: Vec<u8> = splits.iter().flat_map(|split| split.to_le_bytes()).collect();
        let file = safetensors(&[("x.values", "F32", &[4], &[0; 16]), ("x.row_splits", "I64", &[4], &bytes)]);
        std::fs::write(&path, file).unwrap();
        let outputs =
            ["jsonl", "parquet", "tfrecord"].map(|suffix| folder.path().join(format!("out.{suffix}")));
        for output in outputs {
            let arguments = ["convert".as_ref(), path.as_os_str(), output.as_os_str()];
            ferry.run_bounded(arguments).expect(3).says(&["row splits", word, "x.row_splits"]);
            assert_eq!(names_in(folder.path()), ["hostile.safetensors"]);
        }
    }
    // Shapes that cost nothing and claim everything.
    for shape in [&[1 << 60, 0][..], &[2, 1 << 60, 0], &[2, 0, 1 << 60]] {
        std::fs::write(&path, safetensors(&[("x", "F32", shape, &[])])).unwrap();
        let output = folder.path().join("out.jsonl");
        let arguments = ["convert".as_ref(), path.as_os_str(), output.as_os_str()];
        ferry.run_bounded(arguments).expect(3).says(&["records:tensor"]);
        assert_eq!(names_in(folder.path()), ["hostile.safetensors"]);
    }
}

#[test]
fn dtypes_without_a_column_say_what_carries_them() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    // 1.5 and -2.
    std::fs::write(&path, safetensors(&[("w", "BF16", &[2], &[0xc0, 0x3f, 0x00, 0xc0])])).unwrap();
    let output = folder.path().join("w.jsonl");
    convert(&ferry, &path, &output, &[]).expect(3).says(&["BF16", "cast:f32", "records:tensor", "\"w\""]);
    assert!(!output.exists());
    ferry.convert(&path, &output, &["--step", "cast:f32"]);
    assert_eq!(rows_of(&ferry, &output), [json!({"w": 1.5}), json!({"w": -2.0})]);
}

#[test]
fn faults_of_records_leave_nothing() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let path = folder.path().join("data.tfrecord");
    let plain = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let mut bytes = std::fs::read(plain).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let output = folder.path().join("out.safetensors");
    convert(&ferry, &path, &output, &[]).expect(3).says(&["record 19", "data.tfrecord"]);
    assert_eq!(names_in(folder.path()), ["data.tfrecord"]);
    // What is skipped is told, and the others are there.
    let options = ["-i", "on_error=skip", "--json", "--step", "map:select,columns=id"];
    let report = ferry.convert(&path, &output, &options).json();
    assert_eq!(report["losses"][0]["kind"], json!("record"), "{report}");
    assert_eq!(facts(&ferry, &output), json!({"id": ["I64", [19, 4]]}));
}

#[test]
fn a_manifest_leads_across() {
    let zoo = Zoo::new();
    let (_folder, rows) = lines();
    zoo.write("in/rows.jsonl", &std::fs::read(&rows).unwrap());
    zoo.manifest(
        "[defaults]\nverify = true\n\
         [[job]]\nname = \"there\"\ninput = \"in/rows.jsonl\"\noutput = \"out/rows.safetensors\"\n\
         steps = [\"map:select,columns=id pair\", \"tensors:column\", \"cast:f32,where=pair,only=any\"]\n",
    );
    zoo.run(&[]).expect(0);
    let output = zoo.path("out/rows.safetensors");
    assert_eq!(facts(&zoo.ferry, &output), json!({"id": ["I64", [ROWS]], "pair": ["F32", [ROWS, 2]]}));
    // Again, there is nothing to do.
    let identity = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let before = identity(&output);
    zoo.run(&[]).expect(0);
    assert_eq!(identity(&output), before);
}

#[test]
fn memory_is_the_budget_whatever_the_rows() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [path, records, back] =
        ["big.safetensors", "big.parquet", "back.safetensors"].map(|name| folder.path().join(name));
    let (rows, width) = (400_000_u64, 96_u64);
    let numbers: Vec<u8> = (0..400_000 * 96_u32)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) & 0x3fff_ffff).to_le_bytes())
        .collect();
    let splits: Vec<u8> = (0..=rows).flat_map(|row| (row / 2 * width).to_le_bytes()).collect();
    let half = &numbers[..numbers.len() / 2];
    let file = safetensors(&[
        ("x", "F32", &[rows, width], &numbers),
        ("y.values", "F32", &[rows * width / 2], half),
        ("y.row_splits", "I64", &[rows + 1], &splits),
    ]);
    std::fs::write(&path, &file).unwrap();
    let len = file.len() as u64;
    drop((file, numbers));
    for (from, to) in [(&path, &records), (&records, &back)] {
        let arguments =
            ["convert".as_ref(), from.as_os_str(), to.as_os_str(), "--memory".as_ref(), "16MiB".as_ref()];
        let command = ferry.command(arguments);
        let peak =
            python::script("peak.py", [command.get_program()].into_iter().chain(command.get_args())).json();
        let peak = peak.as_u64().unwrap();
        // The program and its plugins take 30 MiB, whatever they do.
        assert!(peak < 128 << 20 && len > 200 << 20, "{peak} bytes for {len}");
    }
    assert!(ferry.equal(&path, &back));
}
