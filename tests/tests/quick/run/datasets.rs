//! Tests of datasets. Many files of records are converted to one table in many files with one
//! schema. A fault in a row is reported with its location.

use serde_json::Value;
use std::fs;
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::dataset::{
    FILES, FOLDERS, MANIFEST, ROWS, UNITS, check_rows, dataset, ids, name, read_all, rows,
};
use tensorferry_tests::mutate::flip_middle;
use tensorferry_tests::tfrecords::{Feature, example, file};
use tensorferry_tests::zoo::Zoo;
use tensorferry_tests::{Outcome, args, json};

fn verify(zoo: &Zoo, code: i32) -> Outcome {
    zoo.ferry.run(args!["verify", zoo.path("out")]).expect(code)
}

fn scans(zoo: &Zoo) -> usize {
    let journal = fs::read_to_string(zoo.path("zoo.journal.jsonl")).unwrap();
    journal.lines().filter(|line| line.contains("\"event\":\"scanned\"")).count()
}

#[test]
fn forty_files_are_one_table_in_ten_files() {
    let zoo = dataset();
    let _ = zoo.run(&[]).expect(0);
    assert_eq!((zoo.total("done"), zoo.total("records")), (UNITS, 1600));
    check_rows(&zoo);
    // Each unit is scanned once, and one additional scan covers all units of the same kind.
    assert_eq!(scans(&zoo), 11);
    let outcome = verify(&zoo, 0);
    assert!(outcome.stdout.contains("10 outputs: 10 ok"), "{outcome}");
    for job in zoo.report()["jobs"].as_array().unwrap() {
        assert_eq!(job["verified"], job["records"], "{job}");
        assert_eq!((&job["records"], &job["tensors"]), (&160.into(), &Value::Null), "{job}");
    }
    zoo.nothing_is_staged();

    let stands = zoo.outputs();
    let _ = zoo.run(&[]).expect(0).prints(&[&format!("{UNITS} unchanged")]);
    assert_eq!((zoo.outputs(), scans(&zoo)), (stands.clone(), 11));

    // The changed file has the same rows in a different order, so one unit and one scan run again.
    zoo.write(&name(1, 7), &rows(ids(1, 7).rev(), |_| Vec::new()));
    let outcome = zoo.run(&["--explain"]).expect(0);
    assert!(outcome.stderr.contains("runs: d/s1/group-00001: ") && outcome.stderr.contains("changed"));
    assert_eq!(zoo.jobs("done"), ["d/s1/group-00001"]);
    assert_eq!(scans(&zoo), 12);
    check_rows(&zoo);

    // A new column in one file is added to every output.
    zoo.write(&name(2, 5), &rows(ids(2, 5), |id| vec![("new", Feature::Ints(vec![id]))]));
    let outcome = zoo.run(&["--explain"]).expect(0);
    let why = "the schema of the dataset changed: column \"new\" is new";
    assert_eq!(outcome.stderr.matches(why).count() as u64, UNITS, "{outcome}");
    assert_eq!(zoo.total("done"), UNITS);
    let found = read_all(&zoo);
    let with: Vec<i64> = found.values().filter_map(|row| row["new"].as_i64()).collect();
    assert_eq!(with, ids(2, 5).collect::<Vec<_>>());
    let _ = verify(&zoo, 0);

    // Removing the file also removes the column. Everything runs again, and one unit is smaller.
    fs::remove_file(zoo.path(&name(2, 5))).unwrap();
    let outcome = zoo.run(&["--explain"]).expect(0);
    assert!(outcome.stderr.contains("no longer has the file \"s2/5.tfrecord\""), "{outcome}");
    assert!(outcome.stderr.contains("column \"new\" is gone"), "{outcome}");
    assert_eq!(read_all(&zoo).len() as i64, FOLDERS * FILES * ROWS - ROWS);

    // With larger groups, some old outputs are no longer needed, which is reported.
    zoo.manifest(&MANIFEST.replace("group = 4", "group = 8"));
    let _ = zoo.run(&[]).expect(0).says(&["5 outputs are left of the dataset \"d\"", "part-00001.parquet"]);
}

#[test]
fn a_file_that_contradicts_the_others_fails_alone() {
    let zoo = dataset();
    let contradicts = |id: i64| vec![("word", Feature::Ints(vec![id]))];
    let bad = file((0..3).map(|id| example(&contradicts(id))));
    zoo.write(&name(4, 0), &bad);
    let mut damaged = rows(ids(0, 2), |_| Vec::new());
    damaged[100] ^= 1;
    zoo.write(&name(0, 2), &damaged);
    let outcome = zoo.run(&[]).expect(3);
    assert_eq!(zoo.jobs("failed"), ["d/s0/group-00000", "d/s4/group-00000"], "{outcome}");
    assert_eq!(zoo.total("done"), UNITS - 2);
    let report = zoo.report();
    let failure = |name: &str| {
        let jobs = report["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["name"] == name).unwrap()["failure"].clone()
    };
    let detail = |failure: &Value, name: &str| {
        let details = failure["details"].as_array().unwrap();
        let found = details.iter().find(|detail| detail[0] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {failure}"))[1].as_str().unwrap().to_owned()
    };
    let contradiction = failure("d/s4/group-00000");
    assert_eq!(contradiction["exit_code"], 3);
    assert_eq!(detail(&contradiction, "column"), "word");
    assert!(detail(&contradiction, "file").contains("s4/"), "{contradiction}");
    let _ = detail(&contradiction, "record");
    let broken = failure("d/s0/group-00000");
    assert_eq!((&broken["exit_code"], detail(&broken, "file")), (&3.into(), "s0/2.tfrecord".to_owned()));
    assert!(broken["retry"].as_str().unwrap().contains("--only"), "{broken}");

    // After the inputs are fixed, only the failed units run.
    zoo.write(&name(4, 0), &rows(ids(4, 0), |_| Vec::new()));
    zoo.write(&name(0, 2), &rows(ids(0, 2), |_| Vec::new()));
    let _ = zoo.run(&[]).expect(0);
    assert_eq!((zoo.total("done"), zoo.total("unchanged")), (2, UNITS - 2));
    check_rows(&zoo);
}

#[test]
fn a_unit_that_contradicts_the_other_units_is_refused() {
    let zoo = Zoo::new();
    zoo.manifest("[[dataset]]\nroot = \"in\"\noutput = \"out/{path}.parquet\"\n");
    for number in 0..4 {
        zoo.write(&format!("in/{number}.tfrecord"), &rows(number * 10..number * 10 + 10, |_| Vec::new()));
    }
    // The bad file is first by name, but the other files are not compared with it.
    let bad = (0..3).map(|id| example(&[("id", Feature::Floats(vec![id as f32]))]));
    zoo.write("in/!.tfrecord", &file(bad));
    let outcome = zoo.run(&[]).expect(3);
    assert_eq!(zoo.jobs("failed"), ["in/!.tfrecord"], "{outcome}");
    let _ = outcome.says(&["file !.tfrecord", "column id", "record 0", "int64_list", "float_list"]);
    assert_eq!(read_all(&zoo).len(), 40);
}

#[test]
fn a_format_without_schemas_has_one_or_is_refused() {
    let zoo = Zoo::new();
    for number in 0..3 {
        zoo.write(&format!("lines/{number}.jsonl"), format!("{{\"id\": {number}}}\n").as_bytes());
    }
    zoo.write("lines/9.jsonl", b"{\"id\": 9.5}\n");
    for number in [0, 1, 2, 9] {
        let (from, to) = (format!("lines/{number}.jsonl"), format!("in/{number}.parquet"));
        zoo.ferry.convert(&zoo.path(&from), &zoo.path(&to), &[]);
    }
    zoo.manifest("[[dataset]]\nroot = \"in\"\noutput = \"out/{path}.jsonl\"\n");
    let _ = zoo.run(&[]).expect(3).says(&["file 9.parquet", "column id", "expected int64", "found float64"]);
    assert_eq!((zoo.jobs("failed"), zoo.outputs().len()), (vec!["in/9.parquet".to_owned()], 3));

    // With a schema, integers and floats in JSON lines become one column of numbers.
    zoo.manifest("[[dataset]]\nroot = \"lines\"\noutput = \"out/{path}.parquet\"\nverify = true\n");
    let _ = zoo.run(&[]).expect(0);
    for number in [0, 9] {
        let path = zoo.path(&format!("out/{number}.parquet"));
        let schema = zoo.ferry.run(args!["inspect", path, "--schema"]).expect(0);
        assert_eq!(schema.json()["columns"][0]["type"], "float64");
    }
}

#[test]
fn steps_options_shards_and_plans() {
    let zoo = dataset();
    let manifest = format!(
        "{MANIFEST}steps = [\"filter:id >= 100\", \"map:select,columns=id word\"]\ninput_options = {{ bytes = \"utf8\" }}\n"
    );
    zoo.manifest(&manifest);
    let plan = zoo.run(&["--dry-run"]).expect(0);
    assert!(plan.stdout.contains("10 jobs: 10 would run") && !plan.stdout.contains("tensors"), "{plan}");
    assert!(!zoo.path("zoo.journal.jsonl").exists() && zoo.outputs().is_empty());
    let shards: Vec<_> = (1..=2).map(|shard| zoo.start(&["--shard", &format!("{shard}/2")])).collect();
    for mut shard in shards {
        assert!(shard.wait().unwrap().success());
    }
    let _ = zoo.run(&["--only", "d/s2/*"]).expect(0).prints(&["2 jobs: 2 unchanged"]);
    let found = read_all(&zoo);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), (100..FOLDERS * FILES * ROWS).collect::<Vec<_>>());
    assert!(
        found.values().all(|row| row["word"].as_str().unwrap().starts_with('w') && row.get("list").is_none())
    );
    let plan = zoo.run(&["--dry-run"]).expect(0);
    assert!(plan.stdout.contains("10 jobs: 0 would run"), "{plan}");
}

#[test]
fn a_shard_of_a_set_is_a_file_of_its_own() {
    let zoo = Zoo::new();
    zoo.manifest("[[dataset]]\nroot = \"in\"\noutput = \"out/{stem}.parquet\"\nto = \"parquet\"\n");
    for number in 0..3 {
        let name = format!("in/data.tfrecord-{number:05}-of-00003");
        zoo.write(&name, &rows(number * 10..number * 10 + 10, |_| Vec::new()));
    }
    let _ = zoo.run(&[]).expect(0);
    assert_eq!((zoo.outputs().len(), read_all(&zoo).len()), (3, 30));
    fs::remove_file(zoo.path("in/data.tfrecord-00001-of-00003")).unwrap();
    let _ = zoo.run(&[]).expect(2).says(&["zoo.toml:2:8", "has 3 files, but only 2 exist"]);
}

#[test]
fn damage_is_found_by_verify() {
    let zoo = dataset();
    zoo.manifest(&MANIFEST.replace("parquet", "tfrecord"));
    let _ = zoo.run(&[]).expect(0);
    let _ = verify(&zoo, 0);
    let damaged = zoo.path("out/s3/part-00001.tfrecord");
    flip_middle(&damaged);
    let outcome = verify(&zoo, 4);
    assert!(outcome.stdout.contains("9 ok") && outcome.stdout.contains("1 changed"), "{outcome}");
    assert!(outcome.stdout.contains("a different digest"), "{outcome}");

    // The file is valid, but its rows differ from the receipt.
    let other = rows(ids(3, 0), |_| Vec::new());
    fs::write(&damaged, &other).unwrap();
    let receipt = zoo.path("out/s3/part-00001.tfrecord.ferry.json");
    let mut document: Value = json::read(&receipt);
    let file = &mut document["output"]["files"][0];
    (file["bytes"], file["sha256"]) = (other.len().into(), sha256(&other).into());
    fs::write(&receipt, document.to_string()).unwrap();
    let outcome = verify(&zoo, 4);
    assert!(outcome.stdout.contains("a different number of records: expected 160, found 40"), "{outcome}");
    document["records"]["files"][0]["rows"] = 40.into();
    document["records"]["rows"] = 40.into();
    fs::write(&receipt, document.to_string()).unwrap();
    let outcome = verify(&zoo, 4);
    for said in ["column \"id\" has different content", "does not match its records"] {
        assert!(outcome.stdout.contains(said), "{said:?} is not in {outcome}");
    }
}

#[test]
fn a_receipt_outlives_no_output_that_has_none() {
    let zoo = Zoo::new();
    zoo.write("in/a.tfrecord", &rows(0..10, |_| Vec::new()));
    let (input, output) = (zoo.path("in/a.tfrecord"), zoo.path("a.jsonl"));
    zoo.ferry.convert(&input, &output, &["--receipt"]);
    let receipt = zoo.path("a.jsonl.ferry.json");
    let document: Value = json::read(&receipt);
    assert_eq!(document["records"]["rows"], 10);
    // `word` is bytes, which JSON lines store as base64. A loss names the column, and the column
    // has no digest.
    let columns = document["records"]["columns"].as_array().unwrap();
    let word = columns.iter().position(|column| column["name"] == "word").unwrap();
    assert_eq!(document["records"]["files"][0]["columns"][word], Value::Null);
    let outcome = zoo.ferry.run(args!["verify", output]).expect(0);
    assert!(outcome.stdout.contains("not compared: column \"word\""), "{outcome}");
    zoo.ferry.convert(&input, &output, &["--force"]);
    assert!(!receipt.exists());
}

#[test]
fn mistakes_have_their_place() {
    let zoo = dataset();
    zoo.manifest(
        "[[dataset]]\nroot = \"in\"\noutput = \"out/{path}.parquet\"\ngroup = 0\nsteps = [\"filter:id > 1\", \"shuffle:10\", \"drop:x\"]\n\
         [[dataset]]\nroot = \"in\"\noutput = \"out/b/{grp}.parquet\"\ngruop = 3\n\
         [[dataset]]\nname = \"c\"\nroot = \"in\"\noutput = \"out/all.parquet\"\nfrom = \"safetensors\"\ninclude = [\"s9/*\", \"s1/0*\"]\n\
         [[dataset]]\nname = \"e\"\nroot = \"in\"\noutput = \"out/one.parquet\"\n",
    );
    let outcome = zoo.run(&[]).expect(2);
    for said in [
        "zoo.toml:4:9: `group` must be at least 1",
        "zoo.toml:5:27: the step shuffle:10: ",
        "needs all records in one flow",
        "zoo.toml:5:41: the step drop:x: needs tensors",
        "zoo.toml:9:1: unknown key \"gruop\"; did you mean \"group\"?",
        "zoo.toml:8:10: unknown field {grp} in the template; known names: dataset, group, name",
        "zoo.toml:7:8: two datasets have the name \"in\"",
        "zoo.toml:14:8: the format safetensors does not support records",
        "zoo.toml:15:12: \"s9/*\" matches no file",
        "zoo.toml:19:10: two jobs write",
    ] {
        assert!(outcome.stderr.contains(said), "{said:?} is not in {outcome}");
    }
    assert_eq!(outcome.stderr.matches("two jobs write").count(), 1, "{outcome}");
    assert!(zoo.outputs().is_empty());
}

/// Tests that a table with a log is refused, because only the log determines which files are part
/// of the table.
#[test]
fn files_of_a_table_with_a_log_are_refused() {
    let ferry = tensorferry_tests::Ferry::new();
    let rows = tensorferry_tests::rows::numbered(&ferry, "rows.jsonl", 0..3);
    ferry.convert(&rows, &ferry.at("in/table/a.parquet"), &[]);
    ferry.write("in/table/_delta_log/0.json", "{}");
    let run = |more: &str| {
        let text = format!("[[dataset]]\nroot = \"in\"\noutput = \"out/{{stem}}.jsonl\"\n{more}");
        ferry.run(args!["run", ferry.write("m.toml", text), "--dry-run"])
    };
    run("").expect(2).says(&["_delta_log", "table_log"]);
    run("input_options = { table_log = \"ignore\" }\n").expect(0).prints(&["1 would run"]);
}
