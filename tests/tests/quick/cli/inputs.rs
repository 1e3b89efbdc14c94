//! Tests which files are part of an input. If the user passes a file, only that file is read.
//! Splits are not concatenated, and files that cannot be read are named.

use serde_json::Value;
use std::path::Path;
use tensorferry_tests::files::{copy_below, names_in};
use tensorferry_tests::rows::numbered;
use tensorferry_tests::{Ferry, fixtures};

const SHARD: &str = "model-00002-of-00003.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Returns a copy of a fixture's files, without its `expected.json`.
fn copied(section: &str, name: &str) -> Ferry {
    let (ferry, case) = (Ferry::new(), fixtures::case(section, name));
    for file in std::fs::read_dir(&case.folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap();
        if name != "expected.json" {
            std::fs::copy(&file, ferry.at(name)).unwrap();
        }
    }
    ferry
}

#[test]
fn a_named_file_of_records_is_that_file() {
    let ferry = copied("tfrecord", "sharded");
    let rows = |output: &str| ferry.rows(&ferry.at(output)).len();
    for (number, records) in [7, 7, 6].into_iter().enumerate() {
        let (input, output) = (format!("data.tfrecord-0000{number}-of-00003"), format!("{number}.parquet"));
        let done = ferry.convert(&ferry.at(&input), &ferry.at(&output), &["--json"]);
        assert_eq!((rows(&output), &done.json()["files_read"]), (records, &1.into()), "{input}");
    }
    let done = ferry.convert(&ferry.at("data.tfrecord-*"), &ferry.at("all.parquet"), &[]);
    assert!(done.stdout.contains("from 3 files"), "{done}");
    assert_eq!(rows("all.parquet"), 20);
}

#[test]
fn a_named_shard_of_tensors_is_not_guessed_at() {
    let ferry = copied("safetensors", "sharded");
    let (shard, output) = (ferry.at(SHARD), ferry.at("out.pt"));
    let refused = ferry.try_convert(&shard, &output, &[]).expect(2);
    refused.says(&[SHARD, INDEX, "folder", "-i shard=alone"]);
    assert!(!output.exists());
    let _ = ferry.on("diff", &shard, &[ferry.at(INDEX).to_str().unwrap()]).expect(2);
    let shown = ferry.on("inspect", &shard, &["--json"]).expect(0).says(&[INDEX]).json();
    let whole = ferry.inspect(&ferry.at(INDEX));
    let tensors = |document: &serde_json::Value| document["tensors"].as_array().unwrap().len();
    assert!(tensors(&shown) > 0 && tensors(&shown) < tensors(&whole));
    ferry.convert(&shard, &output, &["-i", "shard=alone"]);
    assert_eq!(tensors(&ferry.inspect(&output)), tensors(&shown));
    for whole in [INDEX, "", "model-*.safetensors"] {
        ferry.convert(&ferry.at(whole), &output, &["--force", "-o", "format=zip"]);
        assert_eq!(tensors(&ferry.inspect(&output)), tensors(&ferry.inspect(&ferry.at(INDEX))), "{whole:?}");
    }
}

/// Tests that the file of one rank, which has only a part of each matrix, is not read as a model.
#[test]
fn a_file_of_one_rank_is_not_a_model() {
    let ferry = Ferry::new();
    let tensors: &[(&str, &str, &[u64], &[u8])] = &[("w", "F32", &[2], &[0; 8])];
    let model = ferry.safetensors("model.safetensors", tensors);
    let sets = [
        ["consolidated.00.pth", "consolidated.01.pth"],
        ["rank_0.safetensors", "rank_1.safetensors"],
        ["model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"],
        ["rank0.npz", "rank1.npz"],
    ];
    for (number, names) in sets.into_iter().enumerate() {
        let [zero, one] = names.map(|name| ferry.at(format!("{number}/{name}")));
        ferry.convert(&model, &zero, &[]);
        ferry.convert(&model, &one, &[]);
        let folder = zero.parent().unwrap();
        let output = ferry.at("out.safetensors");
        for input in [&zero, &one] {
            ferry.try_convert(input, &output, &[]).expect(2).says(&["rank", "-i shard=alone"]);
            ferry.on("inspect", input, &[]).expect(0).says(&["a part of a model"]);
        }
        ferry.try_convert(folder, &output, &[]).expect(3).says(&["parts of one model"]);
        ferry.convert(&zero, &output, &["-i", "shard=alone", "--force"]);
    }
    // If there is only one rank, the rank's file is a whole model.
    ferry.convert(&model, &ferry.at("whole/consolidated.00.pth"), &[]);
    for input in ["whole", "whole/consolidated.00.pth"] {
        ferry.convert(&ferry.at(input), &ferry.at("out.safetensors"), &["--force"]);
    }
}

#[test]
fn splits_are_not_run_together() {
    let ferry = Ferry::new();
    for (name, ids) in
        [("train-00000-of-00002", 0..3), ("train-00001-of-00002", 3..5), ("test-00000-of-00001", 5..6)]
    {
        numbered(&ferry, &format!("set/data/{name}.jsonl"), ids);
    }
    ferry.write("set/README.md", "# A data set");
    // The input may be the root of a dataset on the Hub, or the folder of its files.
    for (number, input) in ["set", "set/data", "set/data/t"].into_iter().enumerate() {
        let (input, output) = (ferry.at(input), ferry.at(format!("{number}.parquet")));
        let refused = ferry.try_convert(&input, &output, &[]).expect(2);
        refused.says(&["\"train\" (2 files", "\"test\" (1 file", "--part train", "--part test", "files="]);
        assert!(!output.exists());
        for command in ["inspect", "cat"] {
            ferry.on(command, &input, &[]).expect(2).says(&["--part train"]);
        }
        for (options, rows) in [
            (["--part", "train"], 5),
            (["--part", "test"], 1),
            (["-i", "files=**/test*"], 1),
            (["-i", "files=**/*.jsonl*"], 6),
        ] {
            ferry.convert(&input, &output, &[&options[..], &["--force"]].concat());
            assert_eq!(ferry.rows(&output).len(), rows, "{options:?}");
            assert_eq!(ferry.on("cat", &input, &options).expect(0).stdout.lines().count(), rows);
        }
        let refused = ferry.try_convert(&input, &output, &["--force", "--part", "dev"]).expect(2);
        refused.says(&["no such split or set: \"dev\"", "--part test, --part train"]);
    }
    let (train, test) = (ferry.at("set/data/train*"), ferry.at("set/data/test*"));
    assert_eq!((ferry.rows(&train).len(), ferry.rows(&test).len()), (5, 1));
    ferry.on("diff", ferry.at("set"), &[train.to_str().unwrap(), "--part", "train"]).expect(0);
}

/// Tests tables whose log lists their files. Other files in the folder may contain deleted rows.
#[test]
fn a_table_with_a_log_is_not_the_sum_of_its_files() {
    let ferry = Ferry::new();
    let rows = numbered(&ferry, "rows.jsonl", 0..3);
    for (log, file) in [("_delta_log", "0.json"), (".hoodie", "x"), ("metadata", "v1.metadata.json")] {
        for name in ["day=1/a.parquet", "day=1/b.parquet"] {
            ferry.convert(&rows, &ferry.at(format!("{log}-table/{name}")), &[]);
        }
        ferry.write(&format!("{log}-table/{log}/{file}"), "{}");
        for input in ["", "day=1", "day=1/*.parquet"] {
            let input = ferry.at(format!("{log}-table/{input}"));
            let output = ferry.at("out.jsonl");
            for command in ["cat", "inspect"] {
                ferry.on(command, &input, &[]).expect(3).says(&[log, "-i table_log=ignore"]);
            }
            ferry.try_convert(&input, &output, &[]).expect(3).says(&[log]);
            let all = ferry.on("cat", &input, &["-i", "table_log=ignore"]).expect(0);
            assert_eq!(all.stdout.lines().count(), 6);
        }
        // If the user passes a file, only that file is read.
        assert_eq!(ferry.rows(&ferry.at(format!("{log}-table/day=1/a.parquet"))).len(), 3);
    }
    ferry.write("other/metadata/notes.json", "{}");
    ferry.convert(&rows, &ferry.at("other/a.parquet"), &[]);
    assert_eq!(ferry.rows(&ferry.at("other")).len(), 3);
    std::fs::create_dir_all(ferry.at("splits")).unwrap();
    std::fs::rename(ferry.at("_delta_log-table"), ferry.at("splits/train")).unwrap();
    ferry.on("cat", ferry.at("splits"), &[]).expect(3).says(&["_delta_log"]);
}

/// Tests saved datasets, whose folders may also contain caches of `map`.
#[test]
fn the_state_of_a_saved_data_set_lists_its_files() {
    let ferry = Ferry::new();
    let state = |files: &str| format!(r#"{{"_data_files": [{files}], "_split": "train"}}"#);
    for (name, ids) in [("data-00000-of-00002", 0..2), ("data-00001-of-00002", 2..5), ("cache-1a", 7..9)] {
        let rows = numbered(&ferry, "rows.jsonl", ids);
        for split in ["train", "test"] {
            ferry.convert(&rows, &ferry.at(format!("set/{split}/{name}.arrow")), &[]);
        }
    }
    let both = r#"{"filename": "data-00001-of-00002.arrow"}, {"filename": "data-00000-of-00002.arrow"}"#;
    for split in ["train", "test"] {
        ferry.write(&format!("set/{split}/state.json"), state(both));
    }
    let ids = |rows: &[serde_json::Value]| rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    let found = ferry.on("cat", ferry.at("set/train"), &[]).expect(0).says(&["cache-1a.arrow"]);
    assert_eq!(found.stdout.lines().count(), 5);
    assert_eq!(ids(&ferry.rows(&ferry.at("set/train"))), [2, 3, 4, 0, 1]);
    let split = ferry.on("cat", ferry.at("set"), &["--part", "test"]).expect(0);
    assert_eq!(split.stdout.lines().count(), 5);
    for (files, said) in [
        (r#"{"filename": "gone.arrow"}"#, "gone.arrow"),
        (r#"{"filename": "../test/cache-1a.arrow"}"#, "leaves its folder"),
    ] {
        ferry.write("set/train/state.json", state(files));
        ferry.on("cat", ferry.at("set/train"), &[]).expect(3).says(&[said]);
    }
}

/// Tests folders with temporary names, which a program renames when the checkpoint is complete.
#[test]
fn a_checkpoint_that_was_never_finished_is_not_read() {
    let ferry = Ferry::new();
    ferry.safetensors("run/checkpoint-1/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let unfinished = "run/checkpoint-2.orbax-checkpoint-tmp-17";
    ferry.safetensors(&format!("{unfinished}/model.safetensors"), &[("w", "F32", &[2], &[0; 8])]);
    for input in [unfinished.to_owned(), format!("{unfinished}/model.safetensors")] {
        ferry.on("inspect", ferry.at(&input), &[]).expect(3).says(&["never finished"]);
    }
    ferry.convert(&ferry.at("run"), &ferry.at("out/"), &["--to", "torch"]);
    assert!(ferry.at("out/checkpoint-1/pytorch_model.bin").exists());
    assert!(!ferry.at("out").join("checkpoint-2.orbax-checkpoint-tmp-17/pytorch_model.bin").exists());
    // The folder also contains a model.
    ferry.safetensors("m/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    ferry.safetensors("m/tmp-checkpoint-2/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    ferry.write("m/tmp-checkpoint-2/config.json", "{}");
    let done = ferry.convert(&ferry.at("m"), &ferry.at("copy/"), &["--to", "torch"]);
    done.says(&["lost: input \"tmp-checkpoint-2\"", "unfinished checkpoint"]);
    assert!(!ferry.at("copy/tmp-checkpoint-2").exists());
}

/// Tests that the vendor's rank files, which contain the same model in a different layout, are not
/// read.
#[test]
fn the_vendors_own_layout_is_superseded() {
    let ferry = Ferry::new();
    ferry.safetensors("m/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    for rank in 0..2 {
        let rank = ferry.at(format!("m/original/consolidated.0{rank}.pth"));
        ferry.convert(&ferry.at("m/model.safetensors"), &rank, &["--to", "torch"]);
    }
    ferry.write("m/config.json", "{}");
    ferry.write("m/original/params.json", "{}");
    let (input, output) = (ferry.at("m"), ferry.at("out/"));
    let done = ferry.convert(&input, &output, &["--to", "safetensors", "--strict"]);
    done.says(&["another form of the same model", "consolidated.00.pth", "consolidated.01.pth"]);
    assert_eq!(names_in(&output.join("original")), ["params.json"]);
    // A single rank file can be read as a separate model.
    std::fs::remove_file(input.join("original/consolidated.01.pth")).unwrap();
    let done = ferry.convert(&input, &output, &["--to", "safetensors", "--strict", "--force"]);
    done.says(&["another form of the same model", "consolidated.00.pth"]);
    assert_eq!(names_in(&output.join("original")), ["params.json"]);
    // Weights in such a folder that have a different name are a model.
    ferry.safetensors("m/original/model.safetensors", &[("v", "F32", &[2], &[0; 8])]);
    ferry.convert(&input, &ferry.at("both/"), &["--to", "torch"]);
    assert!(ferry.at("both/original").is_dir());
}

/// Tests sets whose numbered names contain the number of files. Files that ferry itself writes next
/// to them are not part of the set.
#[test]
fn a_set_with_a_hole_is_no_smaller_set() {
    let ferry = Ferry::new();
    let rows = numbered(&ferry, "rows.jsonl", 0..30);
    for (suffix, key) in [
        (".jsonl", None),
        (".csv", None),
        (".parquet", None),
        (".arrow", None),
        (".tar", Some("key=id")),
        (".tfrecord", None),
    ] {
        let folder = ferry.at(suffix);
        let mut options = vec!["-o", "shards=3", "--receipt"];
        options.extend(key.iter().flat_map(|key| ["-o", key]));
        ferry.convert(&rows, &folder.join(format!("train{suffix}")), &options);
        let lines =
            |input: &Path, options: &[&str]| ferry.on("cat", input, options).expect(0).stdout.lines().count();
        assert_eq!(lines(&folder, &[]), 30, "{suffix}");
        let first = names_in(&folder).into_iter().find(|name| name.contains("-00000-of-")).unwrap();
        let beyond = folder.join(first.replace("-00000-", "-00003-"));
        std::fs::copy(folder.join(first), &beyond).unwrap();
        ferry.on("cat", &folder, &[]).expect(3).says(&["shards beyond its count", "-i files=GLOB"]);
        std::fs::remove_file(beyond).unwrap();
        let hole = names_in(&folder).into_iter().find(|name| name.contains("-00001-of-")).unwrap();
        std::fs::remove_file(folder.join(&hole)).unwrap();
        let missing = ["some shards of the set are missing", "without number [1]", "-i files=GLOB"];
        ferry.on("cat", &folder, &["--part", "train"]).expect(3).says(&missing);
        if [".parquet", ".tfrecord"].contains(&suffix) {
            for input in [folder.clone(), folder.join("train")] {
                ferry.try_convert(&input, &ferry.at("out.jsonl"), &[]).expect(3).says(&missing);
            }
            assert_eq!(lines(&folder, &["-i", "files=train*"]), 20, "{suffix}");
            assert_eq!(lines(&folder.join(hole.replace("-00001-", "-00002-")), &[]), 10, "{suffix}");
        }
    }
    assert!(!ferry.at("out.jsonl").exists());
    // Files that ferry wrote itself are next to an index, or among files with the suffix of the
    // data.
    ferry.convert(&rows, &ferry.at("mds/"), &["--to", "mds", "-o", "lists=json", "--receipt"]);
    numbered(&ferry, "runs/rows.jsonl", 0..30);
    ferry.write(
        "runs/zoo.journal.jsonl",
        "{\"event\":\"begin\",\"at\":\"2026-01-01T00:00:00Z\",\"ferry\":\"1\"}\n",
    );
    // Data with the name of a journal is still data.
    ferry.write("diary/my.journal.jsonl", "{\"day\":1}\n");
    ferry.write("diary/rest.jsonl", "{\"day\":2}\n{\"day\":3}\n");
    for (folder, rows) in [("mds", 30), ("runs", 30), ("diary", 3)] {
        assert_eq!(ferry.on("cat", ferry.at(folder), &[]).expect(0).stdout.lines().count(), rows, "{folder}");
    }
}

/// Tests that a shard that is missing from the index is a loss. An index may be incomplete, or
/// older than the files next to it.
#[test]
fn a_shard_that_no_index_names_is_a_loss() {
    let ferry = Ferry::new();
    let (mds, keras) = (ferry.at("mds"), ferry.at("keras"));
    copy_below(&fixtures::folder().join("mds/sharded_hashed"), &mds);
    std::fs::copy(mds.join("shard.00000.mds"), mds.join("shard.00005.mds")).unwrap();
    ferry.convert(&mds, &ferry.at("rows.jsonl"), &[]).says(&["lost: input \"shard.00005.mds\""]);
    copy_below(&fixtures::folder().join("keras/weights_sharded"), &keras);
    let map = keras.join("model.weights.json");
    let mut without: Value = serde_json::from_slice(&std::fs::read(&map).unwrap()).unwrap();
    without["weight_map"].as_object_mut().unwrap().retain(|_, files| files[0] == "model_00000.weights.h5");
    std::fs::write(&map, without.to_string()).unwrap();
    for (input, kind) in [(&keras, "input"), (&map, "tensor")] {
        let done = ferry.convert(input, &ferry.at("model.safetensors"), &["--force"]);
        done.says(&[&format!("lost: {kind} \"model_00001.weights.h5\"")]);
    }
}

/// Tests that ferry names the files that it does not read, and reports which of them could be read.
#[test]
fn what_a_folder_has_beside_and_below_is_named() {
    let ferry = Ferry::new();
    let rows = numbered(&ferry, "rows.jsonl", 0..3);
    for name in ["hub/en/train.jsonl", "hub/de/1.0.0/train.jsonl", "plain/train.json", "plain/test.json"] {
        numbered(&ferry, name, 0..3);
    }
    ferry.on("inspect", ferry.at("hub"), &[]).expect(3).says(&["\"en\"", "\"de/1.0.0\""]);
    ferry.on("inspect", ferry.at("plain"), &[]).expect(3).says(&["\"train.json\"", "--from jsonl"]);
    std::fs::create_dir(ferry.at("mixed")).unwrap();
    ferry.convert(&rows, &ferry.at("mixed/a.parquet"), &[]);
    numbered(&ferry, "mixed/c.jsonl", 0..3);
    ferry.write("mixed/b.csv", "id\n1\n");
    let done = ferry.convert(&ferry.at("mixed"), &ferry.at("out.jsonl"), &[]);
    done.says(&["lost: input \"b.csv\"", "lost: input \"c.jsonl\""]);
    // Add files with a different compression, files in sub-folders, and files that cannot be read.
    numbered(&ferry, "more/a.jsonl", 0..3);
    ferry.write("more/b.jsonl.bz2", "BZh91A");
    numbered(&ferry, "more/sub/c.jsonl", 0..3);
    ferry.write("more/_SUCCESS", "");
    std::os::unix::fs::symlink("gone", ferry.at("more/README.md")).unwrap();
    let (more, output) = (ferry.at("more"), ferry.at("more.jsonl"));
    ferry.convert(&more, &output, &["--force"]).says(&["b.jsonl.bz2", "sub/c.jsonl", "README.md"]);
    ferry.try_convert(&more, &output, &["--force", "--strict"]).expect(3).says(&["--allow-loss input"]);
    std::os::unix::fs::symlink("gone", ferry.at("more/D.JSONL")).unwrap();
    for refused in [ferry.try_convert(&more, &output, &["--force"]), ferry.on("cat", &more, &[])] {
        refused.expect(3).says(&["D.JSONL", "a link whose target is missing"]);
    }
    ferry.convert(&more, &output, &["--force", "--strict", "--allow-loss", "input"]).says(&["D.JSONL"]);
    ferry.on("inspect", &more, &[]).expect(0).says(&["D.JSONL"]);
}

/// Tests that uppercase suffixes such as `B.JSONL` are recognized, as on Windows.
#[test]
fn suffixes_in_capitals_are_the_same() {
    let ferry = Ferry::new();
    numbered(&ferry, "in/a.jsonl", 0..3);
    numbered(&ferry, "in/B.JSONL", 3..5);
    let texts = [("O.TSV", &b"\t"[..]), ("O.CSV.GZ", b"\x1f\x8b"), ("O.ARROWS", b"\xff\xff\xff\xff")];
    for (name, has) in texts {
        let output = ferry.at(name);
        ferry.convert(&ferry.at("in"), &output, &[]);
        let bytes = std::fs::read(&output).unwrap();
        assert!(bytes.windows(has.len()).take(64).any(|part| part == has), "{name}");
        assert_eq!(ferry.on("cat", &output, &[]).expect(0).stdout.lines().count(), 5, "{name}");
    }
}

/// Tests a dataset in the layout of `tensorflow_datasets` that has a split with an unusual name.
#[test]
fn splits_are_told_by_what_the_data_set_lists() {
    let ferry = copied("tfrecord", "sharded");
    for split in ["unsupervised", "train"] {
        for number in 0..3 {
            let from = ferry.at(format!("data.tfrecord-0000{number}-of-00003"));
            std::fs::copy(&from, ferry.at(format!("x-{split}.tfrecord-0000{number}-of-00003"))).unwrap();
        }
    }
    for number in 0..3 {
        std::fs::remove_file(ferry.at(format!("data.tfrecord-0000{number}-of-00003"))).unwrap();
    }
    ferry.write("dataset_info.json", r#"{"splits":[{"name":"train"},{"name":"unsupervised"}]}"#);
    ferry.on("cat", ferry.home(), &[]).expect(2).says(&["--part train", "--part unsupervised"]);
    let rows = ferry.on("cat", ferry.home(), &["--part", "unsupervised"]).expect(0);
    assert_eq!(rows.stdout.lines().count(), 20);
}

#[test]
fn plain_files_of_one_kind_are_one_data_set() {
    let ferry = Ferry::new();
    for (name, ids) in [("a", 0..3), ("latest", 3..5), ("contest", 5..6)] {
        numbered(&ferry, &format!("rows/{name}.jsonl"), ids);
    }
    assert_eq!(ferry.rows(&ferry.at("rows")).len(), 6);
    for split in ["train", "test"] {
        numbered(&ferry, &format!("hive/split={split}/rows.jsonl"), 0..2);
        let (input, output) =
            (ferry.at(format!("hive/split={split}")), format!("parts/split={split}/x.parquet"));
        std::fs::create_dir_all(ferry.at(&output).parent().unwrap()).unwrap();
        ferry.convert(&input, &ferry.at(output), &[]);
    }
    // The names of partition folders are the values of a column, so all of these files belong to
    // one table.
    assert_eq!(ferry.rows(&ferry.at("parts")).len(), 4);
}

#[test]
fn what_lies_in_the_place_of_a_file_is_named() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    for name in ["m.safetensors", "m.pt", "m.bin", "m.tfrecord", "m.parquet", "m.jsonl", "m.pb", "m.index"] {
        for (bytes, said) in [(pointer, "git lfs pull"), ("<!DOCTYPE html>\n<title>Sign in", "a web page")] {
            let ferry = Ferry::new();
            let input = ferry.write(name, bytes);
            let output = ferry.at("out");
            ferry.try_convert(&input, &output, &["--to", "safetensors"]).expect(3).says(&[said, name]);
            assert_eq!(ferry.names(), [name]);
        }
    }
    for name in ["m.safetensors", "m.pt", "m.parquet", "m.pb"] {
        let ferry = Ferry::new();
        ferry.on("inspect", ferry.write(name, ""), &[]).expect(3).says(&["the file is empty", name]);
    }
    let ferry = copied("safetensors", "sharded");
    std::fs::remove_file(ferry.at(INDEX)).unwrap();
    std::fs::rename(ferry.at(SHARD), ferry.at(format!("{SHARD}.incomplete"))).unwrap();
    let refused = ferry.try_convert(ferry.home(), &ferry.at("out.pt"), &[]).expect(3);
    refused.says(&["a shard is missing", "still being downloaded", "number 2"]);
    ferry.on("inspect", ferry.at(format!("{SHARD}.incomplete")), &[]).expect(0);
}

#[test]
fn an_input_that_holds_nothing_is_an_error() {
    let ferry = Ferry::new();
    let tensors = ferry.safetensors("none.safetensors", &[]);
    let records = ferry.write("none.jsonl", "\n\n");
    for (input, output, said) in [
        (&tensors, "a.pt", "no tensor"),
        (&tensors, "a.jsonl", "no tensor"),
        (&records, "a.parquet", "no record"),
        (&records, "a.safetensors", "no record"),
    ] {
        let output = ferry.at(output);
        ferry.try_convert(input, &output, &[]).expect(3).says(&[said, "--allow-empty"]);
        assert!(!output.exists());
        let can_be_empty = !(input == &tensors && output.extension().unwrap() == "jsonl");
        ferry.try_convert(input, &output, &["--allow-empty"]).expect(if can_be_empty { 0 } else { 2 });
        ferry.on("inspect", input, &[]).expect(0);
    }
    // Rows that steps remove still count as rows of the input.
    let rows = numbered(&ferry, "rows.jsonl", 0..3);
    ferry.convert(&rows, &ferry.at("few.parquet"), &["--step", "take:0"]);
    assert_eq!(ferry.rows(&ferry.at("few.parquet")).len(), 0);
    // A file with one line of JSON is a document, unless it has a suffix for JSON lines.
    let document = ferry.write("config.json", "{\"a\": 1}\n");
    ferry.try_convert(&document, &ferry.at("c.parquet"), &[]).expect(3).says(&["no plugin recognizes"]);
    ferry.convert(&document, &ferry.at("c.parquet"), &["--from", "jsonl"]);
}

/// Tests that an error about a limit names the limit, that `--limit` raises the limit (also in a
/// job's process), and that `formats` lists it.
#[test]
fn a_limit_can_be_raised_and_lowered() {
    let ferry = Ferry::new();
    let rows = ferry.write("rows.jsonl", "{\"a\": 1, \"b\": 2, \"c\": {\"d\": 3}}\n");
    ferry.on("inspect", &rows, &["--limit", "columns=3"]).expect(3).says(&["columns"]);
    ferry.on("inspect", &rows, &["--limit", "columns=4"]).expect(0);
    ferry.on("inspect", &rows, &["--limit", "collumns=4"]).expect(2).says(&["collumns", "columns"]);
    ferry.on("inspect", &rows, &["--limit", "nesting=1000000"]).expect(2);
    let model = ferry.safetensors("m.safetensors", &[("w", "F32", &[4], &[0; 16])]);
    let output = ferry.at("m.pt");
    let options = ["--limit", "tensors=3", "--step", "unstack:w,to=w$i"];
    ferry.try_convert(&model, &output, &options).expect(3).says(&["too many parts"]);
    ferry.write("zoo.toml", "[[job]]\ninput = \"rows.jsonl\"\noutput = \"rows.parquet\"\n");
    let manifest = ferry.at("zoo.toml");
    ferry.on("run", &manifest, &["--limit", "columns=3"]).expect(3).says(&["columns"]);
    ferry.on("run", &manifest, &[]).expect(0);
    let listed = ferry.run(["formats", "--json", "--limit", "tensors=3"]).expect(0).json();
    assert_eq!(listed["limits"]["tensors"], 3);
    assert!(listed["limits"]["columns"].as_u64().unwrap() > 1_000);
}

/// Tests a diffusers pipeline, which has a model in each sub-folder and no model in its root.
#[test]
fn a_folder_of_models_is_shown_as_it_is_converted() {
    let ferry = Ferry::new();
    for folder in ["unet", "vae"] {
        ferry.safetensors(&format!("pipe/{folder}/model.safetensors"), &[(folder, "F32", &[2], &[0; 8])]);
    }
    ferry.write("pipe/model_index.json", "{}");
    let shown = ferry.on("inspect", ferry.at("pipe"), &["--json", "--digest", "sha256"]).expect(0).json();
    let models = shown["models"].as_array().unwrap();
    let named = |model: &serde_json::Value| (model["folder"].clone(), model["tensors"][0]["name"].clone());
    assert_eq!(
        models.iter().map(named).collect::<Vec<_>>(),
        [("unet".into(), "unet".into()), ("vae".into(), "vae".into())]
    );
    assert!(models[0]["tensors"][0]["digest"]["sha256"].is_string());
    let text = ferry.on("inspect", ferry.at("pipe"), &[]).expect(0).stdout;
    assert!(text.contains("unet") && text.contains("vae"), "{text}");
    std::fs::create_dir(ferry.at("empty")).unwrap();
    ferry.on("inspect", ferry.at("empty"), &[]).expect(3);
}

/// Tests that a split of records next to models is not read as a dataset, that an unknown format is
/// rejected, and that an index is not read as data.
#[test]
fn what_lies_below_is_not_taken_for_more_than_it_is() {
    let ferry = Ferry::new();
    ferry.safetensors("pipe/unet/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    numbered(&ferry, "pipe/test/rows.jsonl", 0..3);
    ferry.convert(&ferry.at("pipe"), &ferry.at("out/"), &["--to", "torch"]);
    assert_eq!(ferry.inspect(&ferry.at("out/unet"))["tensors"][0]["name"], "w");

    numbered(&ferry, "set/train/rows.jsonl", 0..3);
    ferry.on("cat", ferry.at("set"), &["--from", "jsnol"]).expect(2).says(&["jsnol"]);
    assert_eq!(ferry.on("cat", ferry.at("set"), &[]).expect(0).stdout.lines().count(), 3);

    let records = copied("tfrecord", "example_plain");
    let data = records.at("data.tfrecord");
    for split in ["train", "test"] {
        let file = records.at(format!("splits/{split}.tfrecord"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(&data, &file).unwrap();
        records.on("index", &file, &[]).expect(0);
    }
    let rows = records.on("cat", records.at("splits"), &["--part", "train"]).expect(0);
    assert_eq!(rows.stdout.lines().count(), 20);
}

/// Tests that a folder with only weights is converted to a prefix if the output format has
/// prefixes, and that a model folder is converted to a folder.
#[test]
fn a_folder_of_weights_becomes_a_prefix() {
    let ferry = Ferry::new();
    ferry.safetensors("m/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let to_bundle = ["--to", "tf-bundle", "--allow-loss", "graph"];
    for (output, files) in [
        ("out/ckpt", ["ckpt.data-00000-of-00001", "ckpt.index"].as_slice()),
        ("folder/", &["checkpoint", "model.ckpt.data-00000-of-00001", "model.ckpt.index"]),
    ] {
        ferry.convert(&ferry.at("m"), &ferry.at(output), &to_bundle);
        let folder = ferry.at(output.split('/').next().unwrap());
        assert_eq!(names_in(&folder), files, "{output}");
    }
    ferry.convert(&ferry.at("out"), &ferry.at("again/ckpt"), &to_bundle);
    assert!(ferry.at("again/ckpt.index").is_file());
    // If the input is a glob, other files in the folder are not sidecars.
    std::fs::write(ferry.at("again/notes.txt"), "").unwrap();
    ferry.convert(&ferry.at("again/ckp?.*"), &ferry.at("glob.safetensors"), &["--strict"]);

    std::fs::write(ferry.at("m/config.json"), "{}").unwrap();
    ferry.convert(&ferry.at("m"), &ferry.at("model/tf"), &to_bundle);
    assert!(ferry.at("model/tf/config.json").is_file());
    // The output is a folder instead of a prefix, because it may consist of several shards.
    ferry.convert(&ferry.at("out"), &ferry.at("shards"), &["--to", "safetensors"]);
    assert!(ferry.at("shards/model.safetensors").is_file());
}
