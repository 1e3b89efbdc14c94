//! Tests that `check.py` verifies outputs with the frameworks' own readers, and finds wrong
//! outputs.

use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::host::{CHECK, JobState, JobSummary, Summary, Totals, receipt_path, report};
use tensorferry_tests::json::edit;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, Outcome, fixtures, python};

/// The number of columns of the fixture `example_plain`.
const COLUMNS: usize = 4;

/// Conversions with receipts, and a report that lists the conversions.
struct Zoo {
    ferry: Ferry,
    jobs: Vec<JobSummary>,
}

impl Zoo {
    fn new() -> Self {
        Self { ferry: Ferry::new(), jobs: Vec::new() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.ferry.at(name)
    }

    fn convert(&mut self, input: &Path, output: &str, options: &[&str]) -> PathBuf {
        let written = self.at(output);
        let options = [options, &["--receipt"]].concat();
        self.ferry.convert(input, &written, &options);
        let receipt = receipt_path(&written);
        assert!(receipt.is_file(), "{}", receipt.display());
        self.jobs.push(JobSummary {
            name: output.to_owned(),
            state: JobState::Done,
            receipt: Some(receipt.display().to_string()),
            ..JobSummary::default()
        });
        receipt
    }

    /// Writes the report, and runs the `check.py` next to it.
    fn check(&self, options: &[&str]) -> Outcome {
        let summary =
            Summary { totals: Totals::of(&self.jobs), jobs: self.jobs.clone(), ..Summary::default() };
        report::write(&self.at("report"), &summary, CHECK).unwrap();
        python::run(&self.at("report/check.py"), options)
    }
}

/// Updates the receipt to the current bytes of the output's only file, so that only the tensors in
/// the file can differ.
fn admit(receipt: &Path, file: &Path) {
    let content = fs::read(file).unwrap();
    edit(receipt, |receipt| {
        receipt["output"]["files"][0]["sha256"] = sha256(&content).into();
        receipt["output"]["files"][0]["bytes"] = content.len().into();
    });
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_frameworks_find_every_tensor() {
    let mut zoo = Zoo::new();
    let model = zoo.at("model.safetensors");
    Model::of_size(4 << 20, 12, 1).write(&model).unwrap();
    let torch = |name: &str| case("torch", name).input();
    let tf = |name: &str| case("tf", name).folder;
    zoo.convert(&model, "a.pt", &[]);
    zoo.convert(&model, "shards/", &["--to", "safetensors", "-o", "max_shard_size=1MB"]);
    zoo.convert(&model, "bundle/model", &["--to", "tf-bundle"]);
    zoo.convert(&torch("zip_module_state_dict"), "b.safetensors", &["--part", "."]);
    zoo.convert(&torch("zip_views"), "c.safetensors", &[]);
    zoo.convert(&tf("saver_v2_plain").join("model.ckpt-42"), "d.safetensors", &[]);
    let outcome = zoo.check(&["--verbose"]).expect(0);
    assert!(outcome.stdout.contains("6 outputs: 0 wrong, 0 not checked in full"), "{outcome}");
    assert_eq!(outcome.stdout.matches("ok: ").count(), 6, "{outcome}");
    let last = outcome.stdout.lines().last().unwrap();
    let numbers: Vec<usize> = last.split([' ', ';', ',']).filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 5 && numbers[3] > 50 && numbers[3] == numbers[4], "{last}");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn damage_is_found_without_ferry() {
    let mut zoo = Zoo::new();
    let model = zoo.at("model.safetensors");
    Model::of_size(1 << 20, 4, 1).write(&model).unwrap();
    let whole = zoo.convert(&model, "whole.safetensors", &[]);
    zoo.convert(&model, "file.safetensors", &[]);
    let tensor = zoo.convert(&model, "tensor.safetensors", &[]);
    let swapped = zoo.convert(&model, "swapped.safetensors", &[]);
    zoo.convert(&model, "gone.safetensors", &[]);
    let leaves = zoo.convert(&model, "leaves.safetensors", &[]);
    zoo.convert(&model, "bundle/model", &["--to", "tf-bundle"]);
    zoo.check(&[]).expect(0);

    for name in ["file.safetensors", "tensor.safetensors", "bundle/model.data-00000-of-00001"] {
        let mut content = fs::read(zoo.at(name)).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(zoo.at(name), content).unwrap();
    }
    admit(&tensor, &zoo.at("tensor.safetensors"));
    // Swap the digests of two tensors of the same shape.
    edit(&swapped, |receipt| {
        let tensors = receipt["models"][0]["tensors"].as_array_mut().unwrap();
        let digest = tensors[0]["content"].take();
        tensors[0]["content"] = tensors[1]["content"].take();
        tensors[1]["content"] = digest;
    });
    fs::remove_file(zoo.at("gone.safetensors")).unwrap();
    edit(&leaves, |receipt| receipt["output"]["files"][0]["name"] = "../elsewhere".into());
    let outcome = zoo.check(&[]).expect(1);
    let said = |part: &str| assert!(outcome.stdout.contains(part), "no {part:?}: {outcome}");
    said("7 outputs: 5 wrong, ");
    said("file 'file.safetensors' has a different sha256");
    said("WRONG: tensor.safetensors");
    said("file 'gone.safetensors' is missing");
    said("a name points outside of its folder");
    said("WRONG: swapped.safetensors");
    said("WRONG: bundle/model");
    assert!(!outcome.stdout.contains("whole.safetensors"), "{outcome}");

    // All outputs are correct, but the source of one output has changed. Nothing is wrong, but not
    // everything can be checked.
    zoo.jobs.retain(|job| job.receipt.as_deref() == whole.to_str());
    zoo.check(&[]).expect(0);
    fs::remove_file(&model).unwrap();
    let outcome = zoo.check(&[]).expect(3);
    assert!(outcome.stdout.contains("not checked: source: "), "{outcome}");
    zoo.check(&["--no-sources"]).expect(0);
    zoo.jobs.clear();
    zoo.check(&[]).expect(2);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_frameworks_read_every_record() {
    let mut zoo = Zoo::new();
    let plain = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let tfrecord = zoo.convert(&plain, "a.tfrecord", &[]);
    zoo.convert(&plain, "b.tfrecord.gz", &["-o", "shards=3"]);
    let parquet = zoo.convert(&plain, "c.parquet", &["-o", "shards=2"]);
    zoo.convert(&plain, "d.jsonl", &[]);
    zoo.convert(&plain, "e.jsonl.gz", &["--step", "take:7"]);
    let outcome = zoo.check(&["--verbose"]).expect(3);
    assert!(outcome.stdout.contains("5 outputs: 0 wrong, 2 not checked in full"), "{outcome}");
    assert!(outcome.stdout.contains("column 'img': the receipt has no digest of binary values"), "{outcome}");
    // The TFRecord and Parquet outputs have three splits with 1, 3 and 2 files, and contain all
    // columns. JSON lacks the columns of bytes.
    let columns = COLUMNS * (1 + 3 + 2) + (COLUMNS - 2) * 2;
    assert!(
        outcome.stdout.contains(&format!("; 87 records read, {columns} columns of files equal")),
        "{outcome}"
    );
    for job in &zoo.jobs {
        let receipt = job.receipt.as_ref().unwrap();
        zoo.ferry.run(["verify", receipt]).expect(0);
    }

    // Flip a bit in the data of a record. If the receipt matches the file, the record's own CRC
    // detects the flip.
    let file = zoo.at("a.tfrecord");
    let mut content = fs::read(&file).unwrap();
    content[40] ^= 1;
    fs::write(&file, &content).unwrap();
    let outcome = zoo.check(&[]).expect(1);
    assert!(outcome.stdout.contains("file 'a.tfrecord' has a different sha256"), "{outcome}");
    admit(&tfrecord, &file);
    let outcome = zoo.check(&[]).expect(1);
    assert!(
        outcome.stdout.contains("'a.tfrecord': its framework cannot read it: DataLossError"),
        "{outcome}"
    );

    edit(&parquet, |receipt| {
        receipt["records"]["columns"][0]["name"] = "other".into();
        receipt["records"]["files"][1]["rows"] = 1.into();
    });
    let outcome = zoo.check(&[]).expect(1);
    for said in [
        "records instead of 1",
        "that is not in the receipt",
        "has no column 'other'",
        "total number of records is not the sum",
    ] {
        assert!(outcome.stdout.contains(said), "no {said:?}: {outcome}");
    }
    zoo.ferry.run(["verify", parquet.to_str().unwrap()]).expect(4);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_frameworks_compare_the_values_of_records() {
    let mut zoo = Zoo::new();
    // The file has a column for every type that has a digest, columns of lists and nested lists,
    // and nulls in all of these columns.
    let made = zoo.at("made.parquet");
    let _ = python::script("parquet_types.py", [&made]);
    // Parquet has no date64. date64 becomes date32, which is reported as a loss, and receipts have
    // no digests of changed columns.
    zoo.convert(&made, "all.parquet", &["--step", "map:drop,columns=date64"]);
    let in_json = "map:drop,columns=bytes lists_of_bytes date32 date64 times zoned lists_of_times";
    zoo.convert(&made, "all.jsonl.gz", &["--step", in_json]);
    let in_tfrecord = "map:drop,columns=date32 date64 times zoned lists_of_times lists lists_of_lists large";
    zoo.convert(&made, "all.tfrecord", &["--step", in_tfrecord]);
    let outcome = zoo.check(&[]).expect(0);
    assert!(outcome.stdout.contains("3 outputs: 0 wrong, 0 not checked in full"), "{outcome}");

    // These outputs have the same number of records with the same columns, in a different order.
    for name in ["all.parquet", "all.jsonl.gz", "all.tfrecord"] {
        let other = zoo.at(&format!("other.{name}"));
        zoo.ferry.convert(&zoo.at(name), &other, &["--step", "shuffle:100,seed=5"]);
        fs::copy(&other, zoo.at(name)).unwrap();
        admit(&receipt_path(&zoo.at(name)), &zoo.at(name));
    }
    let outcome = zoo.check(&[]).expect(1);
    assert!(outcome.stdout.contains("3 outputs: 3 wrong"), "{outcome}");
    assert_eq!(outcome.stdout.matches("column 'int32' has different values").count(), 3, "{outcome}");
}
