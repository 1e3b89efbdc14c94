//! Tests of conversions between records and tensors. They check the results, the conversions back,
//! and the rejected inputs.

use serde_json::json;
use std::path::{Path, PathBuf};
use tensorferry_tests::model::safetensors;
use tensorferry_tests::rows::MIXED as ROWS;
use tensorferry_tests::zoo::Zoo;
use tensorferry_tests::{Ferry, args, fixtures, rows};

#[test]
fn columns_become_tensors_and_rows_again() {
    let ferry = Ferry::new();
    let path = rows::mixed(&ferry);
    let tensors = ferry.at("rows.safetensors");
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
    assert_eq!(ferry.shapes(&tensors), expected);
    ferry.run(args!["verify", tensors]).expect(0);
    assert!(ferry.equal(&path, &tensors));

    let back = ferry.at("back.jsonl");
    let report = ferry.convert(&tensors, &back, &["--strict", "--verify", "--json", "--receipt"]).json();
    assert_eq!(report["records"], json!(ROWS), "{report}");
    ferry.run(args!["verify", back]).expect(0);
    assert!(ferry.rows(&back) == ferry.rows(&path));
    // Without metadata, only the names show which tensors are columns.
    let bare = ferry.at("bare.jsonl");
    ferry.convert(&tensors, &bare, &["--strict", "--step", "drop_metadata:*"]);
    assert!(ferry.rows(&bare) == ferry.rows(&path));
}

#[test]
fn steps_stand_on_both_sides() {
    let ferry = Ferry::new();
    let path = rows::mixed(&ferry);
    let tensors = ferry.at("some.safetensors");
    let steps = [
        "filter:id < 10",
        "map:select,columns=id pair",
        "cast:f32,where=pair,only=any",
        "rename:id,to=number",
    ];
    let options: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    ferry.convert(&path, &tensors, &options);
    assert_eq!(ferry.shapes(&tensors), json!({"number": ["I64", [10]], "pair": ["F32", [10, 2]]}));
    let rows = ferry.at("some.jsonl");
    let options = ["--step", "cast:f64,where=pair", "--step", "records:row", "--step", "skip:8"];
    ferry.convert(&tensors, &rows, &options);
    let expected = [json!({"number": 8, "pair": [8.0, 7.0]}), json!({"number": 9, "pair": [9.0, 7.0]})];
    assert_eq!(ferry.rows(&rows), expected);
    let shuffled = ferry.at("shuffled.jsonl");
    ferry.convert(&tensors, &shuffled, &["--step", "shuffle:100,seed=3", "--verify"]);
    let mut ids: Vec<i64> = ferry.rows(&shuffled).iter().map(|row| row["number"].as_i64().unwrap()).collect();
    assert_ne!(ids, (0..10).collect::<Vec<_>>());
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());

    let never = ferry.at("never.safetensors");
    for (step, word) in [
        (["rename:a,to=b", "take:1"], "they have become tensors before it"),
        (["records:row", "take:1"], "the input already holds records"),
        (["tensors:column", "tensors:column"], "only one step can convert between"),
    ] {
        ferry.try_convert(&path, &never, &["--step", step[0], "--step", step[1]]).expect(2).says(&[word]);
    }
    let lines = ferry.at("never.jsonl");
    ferry
        .try_convert(&tensors, &lines, &["--step", "interleave:2"])
        .expect(2)
        .says(&["created from tensors"]);
    ferry
        .try_convert(&path, &lines, &["--step", "tensors:column"])
        .expect(2)
        .says(&["if both the input and the output contain records"]);
    let other = ferry.at("never.npz.safetensors");
    ferry
        .try_convert(&tensors, &other, &["--step", "records:row"])
        .expect(2)
        .says(&["both sides are tensors"]);
    assert!(!never.exists() && !lines.exists() && !other.exists());
    ferry.run(["steps"]).expect(0).prints(&["--step records:row", "--step tensors:column"]);
}

/// Writes tensors of every kind, whose numbers of rows differ.
fn unequal(ferry: &Ferry) -> PathBuf {
    let file = safetensors(&[
        ("a", "F32", &[2, 3], &[1; 24]),
        ("b", "BF16", &[5], &[2; 10]),
        ("c", "F8_E4M3", &[3, 1], &[3; 3]),
        ("d", "I64", &[], &[4; 8]),
        ("e", "BOOL", &[0, 4], &[]),
    ]);
    ferry.write("model.safetensors", file)
}

#[test]
fn a_model_is_records_of_whole_tensors() {
    let ferry = Ferry::new();
    let model = unequal(&ferry);
    let never = ferry.at("never.parquet");
    ferry.try_convert(&model, &never, &[]).expect(2).says(&[
        "records:tensor",
        "2 rows",
        "5 rows",
        "no leading",
    ]);
    assert!(!never.exists());
    for name in ["m.parquet", "m.tfrecord"] {
        let [records, back] = [name.to_owned(), format!("{name}.safetensors")].map(|n| ferry.at(n));
        ferry.convert(&model, &records, &["--step", "records:tensor", "--verify", "--strict"]);
        ferry.convert(&records, &back, &["--step", "tensors:record", "--verify", "--strict"]);
        assert!(ferry.equal(&model, &back), "{name}");
        assert_eq!(ferry.shapes(&back), ferry.shapes(&model), "{name}");
    }
    // Each record becomes a tensor. Only two tensors are selected, and one of them is renamed.
    let some = ferry.at("some.safetensors");
    let steps = ["filter:name = 'a' or name = 'd'", "tensors:record", "rename:^a$,to=x"];
    let options: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    ferry.convert(&ferry.at("m.parquet"), &some, &options);
    assert_eq!(ferry.shapes(&some), json!({"x": ["F32", [2, 3]], "d": ["I64", []]}));
}

#[test]
fn records_that_are_no_tensors_are_refused() {
    let ferry = Ferry::new();
    let cases = [
        (r#"{"name":"a","dtype":"F32","shape":[1],"data":"AAAA"}"#, 2, "bytes"),
        (r#"{"name":"a","dtype":"F32","shape":[1]}"#, 2, "name, dtype, shape and data"),
    ];
    for (rows, code, word) in cases {
        let path = ferry.write("rows.jsonl", rows);
        let output = ferry.at("out.safetensors");
        ferry.try_convert(&path, &output, &["--step", "tensors:record"]).expect(code).says(&[word]);
        assert_eq!(ferry.names(), ["rows.jsonl"]);
    }
    let model = unequal(&ferry);
    let records = ferry.at("m.parquet");
    ferry.convert(&model, &records, &["--step", "records:tensor", "--step", "repeat:2"]);
    let twice = ferry.at("twice.safetensors");
    ferry
        .try_convert(&records, &twice, &["--step", "tensors:record"])
        .expect(3)
        .says(&["two records have the same name"]);
    assert!(!twice.exists());
}

#[test]
fn names_that_collide_are_listed() {
    let ferry = Ferry::new();
    let path = ferry.write("rows.jsonl", "{\"x\":1,\"x.valid\":true}\n{\"x\":null,\"x.valid\":false}\n");
    let output = ferry.at("out.safetensors");
    ferry.try_convert(&path, &output, &[]).expect(2).says(&["\"x.valid\"", "map:rename"]);
    assert_eq!(ferry.names(), ["rows.jsonl"]);
    ferry.convert(&path, &output, &["--step", "map:rename,columns=x.valid,to=y"]);
    assert_eq!(ferry.shapes(&output)["y"], json!(["BOOL", [2]]));
}

#[test]
fn splits_that_lie_are_refused() {
    let ferry = Ferry::new();
    let splits: [(&[i64], &str); 6] = [
        (&[0, 3, 2, 4], "decrease"),
        (&[0, 3, 9, 4], "exceed the number of values"),
        (&[0, 1, 2, 3], "do not cover"),
        (&[1, 2, 3, 4], "do not cover"),
        (&[0, -1, 2, 4], "decrease"),
        (&[0, i64::MAX, 2, 4], "exceed the number of values"),
    ];
    let path = ferry.at("hostile.safetensors");
    for (splits, word) in splits {
        let bytes: Vec<u8> = splits.iter().flat_map(|split| split.to_le_bytes()).collect();
        let file = safetensors(&[("x.values", "F32", &[4], &[0; 16]), ("x.row_splits", "I64", &[4], &bytes)]);
        std::fs::write(&path, file).unwrap();
        let outputs = ["jsonl", "parquet", "tfrecord"].map(|suffix| ferry.at(format!("out.{suffix}")));
        for output in outputs {
            ferry.run_bounded(args!["convert", path, output]).expect(3).says(&[
                "row splits",
                word,
                "x.row_splits",
            ]);
            assert_eq!(ferry.names(), ["hostile.safetensors"]);
        }
    }
    // These shapes have no bytes, but huge dimensions.
    for shape in [&[1 << 60, 0][..], &[2, 1 << 60, 0], &[2, 0, 1 << 60]] {
        std::fs::write(&path, safetensors(&[("x", "F32", shape, &[])])).unwrap();
        ferry.run_bounded(args!["convert", path, ferry.at("out.jsonl")]).expect(3).says(&["records:tensor"]);
        assert_eq!(ferry.names(), ["hostile.safetensors"]);
    }
}

#[test]
fn dtypes_without_a_column_say_what_carries_them() {
    let ferry = Ferry::new();
    // The values of the tensor are 1.5 and -2.
    let path = ferry.write("m.safetensors", safetensors(&[("w", "BF16", &[2], &[0xc0, 0x3f, 0x00, 0xc0])]));
    let output = ferry.at("w.jsonl");
    ferry.try_convert(&path, &output, &[]).expect(3).says(&["BF16", "cast:f32", "records:tensor", "\"w\""]);
    assert!(!output.exists());
    ferry.convert(&path, &output, &["--step", "cast:f32"]);
    assert_eq!(ferry.rows(&output), [json!({"w": 1.5}), json!({"w": -2.0})]);
}

#[test]
fn faults_of_records_leave_nothing() {
    let ferry = Ferry::new();
    let plain = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let mut bytes = std::fs::read(plain).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    let path = ferry.write("data.tfrecord", bytes);
    let output = ferry.at("out.safetensors");
    ferry.try_convert(&path, &output, &[]).expect(3).says(&["record 19", "data.tfrecord"]);
    assert_eq!(ferry.names(), ["data.tfrecord"]);
    // Skipped records are reported, and all other records are converted.
    let options = ["-i", "on_error=skip", "--json", "--step", "map:select,columns=id"];
    let report = ferry.convert(&path, &output, &options).json();
    assert_eq!(report["losses"][0]["kind"], json!("record"), "{report}");
    assert_eq!(ferry.shapes(&output), json!({"id": ["I64", [19, 4]]}));
}

#[test]
fn a_manifest_leads_across() {
    let zoo = Zoo::new();
    zoo.write("in/rows.jsonl", &std::fs::read(rows::mixed(&zoo.ferry)).unwrap());
    zoo.manifest(
        "[defaults]\nverify = true\n\
         [[job]]\nname = \"there\"\ninput = \"in/rows.jsonl\"\noutput = \"out/rows.safetensors\"\n\
         steps = [\"map:select,columns=id pair\", \"tensors:column\", \"cast:f32,where=pair,only=any\"]\n",
    );
    zoo.run(&[]).expect(0);
    let output = zoo.path("out/rows.safetensors");
    assert_eq!(zoo.ferry.shapes(&output), json!({"id": ["I64", [ROWS]], "pair": ["F32", [ROWS, 2]]}));
    // A second run has nothing to do.
    let identity = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let before = identity(&output);
    zoo.run(&[]).expect(0);
    assert_eq!(identity(&output), before);
}
