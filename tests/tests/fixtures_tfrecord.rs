//! Every TFRecord fixture through the program: what `cat` and `inspect` give, what is refused with which
//! place, and the ways to point at one. What the records hold is compared in the plugin's own tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsStr;
use std::path::Path;
use tempfile::tempdir;
use tensorferry_tests::ferry::names_in;
use tensorferry_tests::fixtures::{Case, cases};
use tensorferry_tests::{Ferry, Outcome};

fn all() -> Vec<Case> {
    let cases = cases("tfrecord", "");
    assert_eq!(cases.len(), 14);
    cases
}

fn case(name: &str) -> Case {
    all().into_iter().find(|case| case.name == name).unwrap()
}

fn run(ferry: &Ferry, command: &str, input: &Path, options: &[&str]) -> Outcome {
    let mut arguments: Vec<&OsStr> = vec![command.as_ref(), input.as_os_str()];
    arguments.extend(options.iter().map(OsStr::new));
    ferry.run(arguments)
}

fn records(outcome: &Outcome) -> u64 {
    outcome.json()["records"].as_u64().unwrap_or_else(|| panic!("no count of records: {outcome}"))
}

#[test]
fn records_are_shown_and_counted() {
    let ferry = Ferry::new();
    for case in all().into_iter().filter(|case| !case.is_error()) {
        let count = case.expected["n_records"].as_u64().unwrap();
        let shown = run(&ferry, "cat", &case.input(), &[]).expect(0);
        assert_eq!(shown.stdout.lines().count() as u64, count, "{}", case.name);
        let first = run(&ferry, "cat", &case.input(), &["--limit", "2"]).expect(0);
        assert_eq!(first.stdout.lines().count() as u64, count.min(2), "{}", case.name);
        let inspected = run(&ferry, "inspect", &case.input(), &["--json"]);
        if case.name == "example_type_changes" {
            inspected.expect(3).says(&[
                "data.tfrecord",
                "record 1",
                "column \"a\"",
                "int64_list",
                "float_list",
            ]);
        } else {
            assert_eq!(records(&inspected.expect(0)), count, "{}", case.name);
        }
    }
}

#[test]
fn damage_is_refused_with_its_place() {
    let ferry = Ferry::new();
    let mut seen = 0;
    for case in all().into_iter().filter(Case::is_error) {
        let before = case.expected["records_before_error"].as_u64().unwrap();
        let place = [
            case.input().file_name().unwrap().to_str().unwrap().to_owned(),
            format!("record {before}"),
            "offset".to_owned(),
        ];
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let shown = run(&ferry, "cat", &case.input(), &[]).expect(3).says(&place);
        assert_eq!(shown.stdout.lines().count() as u64, before, "{}", case.name);
        run(&ferry, "inspect", &case.input(), &["--json"]).expect(3).says(&place);
        let folder = tempdir().unwrap();
        let output = folder.path().join("out.tfrecord");
        let convert = ["convert".into(), case.input().into_os_string(), output.into_os_string()];
        ferry.run(convert).expect(3).says(&place);
        assert!(names_in(folder.path()).is_empty(), "{}", case.name);
        if case.input().extension().is_some_and(|extension| extension == "tfrecord") {
            let index = folder.path().join("index");
            ferry
                .run([OsStr::new("index"), case.input().as_os_str(), index.as_os_str()])
                .expect(3)
                .says(&place);
        }
        // What comes before the damage is kept, and the damage is listed.
        let skip = ["-i", "on_error=skip", "-i", "decode=raw", "--json"];
        let kept = records(&run(&ferry, "inspect", &case.input(), &skip).expect(0));
        assert_eq!(kept, if case.name == "bad_flip_data" { 19 } else { before }, "{}", case.name);
        seen += 1;
    }
    assert_eq!(seen, 6);
}

#[test]
fn any_shard_the_prefix_and_the_folder_are_the_set() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let case = case("sharded");
    for name in names_in(&case.folder).iter().filter(|name| name.starts_with("data")) {
        std::fs::copy(case.folder.join(name), folder.path().join(name)).unwrap();
    }
    let expected = run(&ferry, "cat", &case.input(), &[]).expect(0).stdout;
    assert_eq!(expected.lines().count(), 20);
    for input in ["data.tfrecord-00002-of-00003", "data.tfrecord", ""] {
        assert_eq!(
            run(&ferry, "cat", &folder.path().join(input), &[]).expect(0).stdout,
            expected,
            "{input:?}"
        );
    }
    let one = run(&ferry, "cat", folder.path(), &["-i", "files=*-00001-of-*"]).expect(0);
    assert_eq!(one.stdout.lines().count(), 7);
    std::fs::remove_file(folder.path().join("data.tfrecord-00001-of-00003")).unwrap();
    run(&ferry, "cat", folder.path(), &[]).expect(3).says(&["[1]"]);
}

#[test]
fn an_index_is_written_and_used() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = folder.path().join("data.tfrecord");
    std::fs::copy(case("example_plain").input(), &input).unwrap();
    let before = run(&ferry, "inspect", &input, &["--json"]).expect(0).stdout;
    run(&ferry, "index", &input, &[]).expect(0);
    let index = std::fs::read_to_string(folder.path().join("data.tfrecord.idx")).unwrap();
    assert!(index.starts_with("0 211\n211 220\n") && index.lines().count() == 20, "{index}");
    assert_eq!(run(&ferry, "inspect", &input, &["--json"]).expect(0).stdout, before);
}

#[test]
fn a_printed_schema_is_a_schema_to_read_by() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    for name in ["example_plain", "example_ragged_missing", "sequence_example", "raw_and_big_records"] {
        let input = case(name).input();
        let schema = folder.path().join(format!("{name}.json"));
        std::fs::write(&schema, run(&ferry, "inspect", &input, &["--schema"]).expect(0).stdout).unwrap();
        let option = format!("schema={}", schema.display());
        let columns = |outcome: Outcome| outcome.expect(0).json()["schema"].clone();
        let by_schema = columns(run(&ferry, "inspect", &input, &["--json", "-i", &option]));
        assert_eq!(by_schema, columns(run(&ferry, "inspect", &input, &["--json"])), "{name}");
        // And to write by: the same records.
        let output = folder.path().join(format!("{name}.tfrecord"));
        ferry.convert(&input, &output, &["-o", &option]);
        if name != "example_ragged_missing" {
            let shown = |path: &Path| run(&ferry, "cat", path, &[]).expect(0).stdout.lines().count();
            assert_eq!(shown(&output), shown(&input), "{name}");
        }
    }
}
