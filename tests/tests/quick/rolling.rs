//! Tests of outputs whose number of files is not known in advance. They check the file lengths and
//! names, and the removal of an older output's files.

use tensorferry_tests::Ferry;
use tensorferry_tests::files::names_in;
use tensorferry_tests::rows::{ids, numbered};
use tensorferry_tests::zoo::Zoo;

fn shards(stem: &str, count: usize, suffix: &str) -> Vec<String> {
    (0..count).map(|shard| format!("{stem}-{shard:05}-of-{count:05}{suffix}")).collect()
}

#[test]
fn files_roll_by_rows_in_every_format() {
    let ferry = Ferry::new();
    let input = numbered(&ferry, "rows.jsonl", 0..1000);
    for (format, suffix) in [("jsonl", ".jsonl"), ("parquet", ".parquet")] {
        let output = ferry.at(format!("{format}/"));
        ferry.convert(&input, &output, &["--to", format, "-o", "shard_rows=300", "--verify", "--receipt"]);
        let mut names = names_in(&output);
        names.retain(|name| name.contains("-of-"));
        assert_eq!(names, shards("data", 4, suffix));
        assert_eq!(ids(&ferry.rows(&output)), (0..1000).collect::<Vec<i64>>());
        assert_eq!(ferry.rows(&output.join(&shards("data", 4, suffix)[3])).len(), 100);
        ferry.run(["verify", output.to_str().unwrap()]).expect(0);
    }
    let output = ferry.at("x.tfrecord");
    ferry.convert(&input, &output, &["-o", "shard_rows=999", "-o", "compression=gzip"]);
    for (shard, rows) in shards("x.tfrecord", 2, "").iter().zip([999, 1]) {
        assert_eq!(ferry.on("cat", ferry.at(shard), &[]).expect(0).stdout.lines().count(), rows);
    }
}

#[test]
fn files_roll_by_size_whatever_the_number_of_threads() {
    let ferry = Ferry::new();
    let input = numbered(&ferry, "rows.jsonl", 0..20_000);
    for format in ["jsonl", "tfrecord", "parquet"] {
        let mut seen = Vec::new();
        for threads in ["1", "3"] {
            let output = ferry.at(format!("{format}-{threads}/"));
            let size =
                ["--to", format, "-o", "max_shard_size=200kB", "--threads", threads, "--memory", "64MiB"];
            ferry.convert(&input, &output, &size);
            let files: Vec<_> = names_in(&output)
                .iter()
                .map(|name| (name.clone(), std::fs::read(output.join(name)).unwrap()))
                .collect();
            assert!(files.len() > 1, "{format}: {:?}", names_in(&output));
            seen.push(files);
        }
        assert!(seen[0] == seen[1], "{format}");
    }
}

/// Tests that no file exceeds the maximum length. In some formats, especially in tar, rows take
/// more bytes than they take in memory.
#[test]
fn no_file_is_longer_than_it_may_be() {
    let ferry = Ferry::new();
    let number = |n: u64| format!("{:016x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |id: u64| (5 * id..5 * id + 5).map(number);
    let line = |id| format!("{{\"id\":\"{id:05}\",\"text\":\"{}\"}}\n", text(id).collect::<String>());
    let input = ferry.write("rows.jsonl", (0..4000).map(line).collect::<String>());
    for format in ["jsonl", "csv", "parquet", "arrow", "tfrecord", "webdataset", "mds"] {
        let output = ferry.at(format!("{format}/"));
        let mut options = vec!["--to", format, "-o", "max_shard_size=100kB", "--verify"];
        options.extend(["-o", "key=id"].iter().filter(|_| format == "webdataset"));
        ferry.convert(&input, &output, &options);
        let is_data = |name: &String| name != "index.json";
        let bytes = |name: String| std::fs::metadata(output.join(name)).unwrap().len();
        let files: Vec<u64> = names_in(&output).into_iter().filter(is_data).map(bytes).collect();
        // The maximum leaves room for the end of a tar, and for the footers of Parquet and Arrow.
        assert!(files.iter().all(|bytes| *bytes <= 112_000), "{format}: {files:?}");
        let average = files.iter().sum::<u64>() / files.len() as u64;
        assert!(files.len() > 2 && average > 50_000, "{format}: {files:?}");
    }
    let grouped = ferry.at("grouped.parquet");
    ferry.convert(&input, &grouped, &["-o", "row_group_size=20kB", "--json"]);
    let one = ferry.at("one.parquet");
    ferry.convert(&input, &one, &[]);
    // Each row group has its own entry in the footer.
    let len = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
    assert!(len(&grouped) > len(&one) + 2000, "{} and {}", len(&grouped), len(&one));
}

#[test]
fn older_shards_go_by_force_alone() {
    let ferry = Ferry::new();
    let input = numbered(&ferry, "in/rows.jsonl", 0..100);
    let output = ferry.at("set/out.jsonl");
    let convert = |rows: &str, more: &[&str]| {
        let option = format!("shard_rows={rows}");
        let arguments = [&[output.to_str().unwrap(), "-o", &option], more].concat();
        ferry.on("convert", &input, &arguments)
    };
    convert("40", &[]).expect(0);
    std::fs::write(ferry.at("set/mine-00000-of-00009.jsonl"), "{}").unwrap();
    let mine = || vec!["mine-00000-of-00009.jsonl".to_owned()];
    let with_mine = |mut shards: Vec<String>| {
        shards.splice(0..0, mine());
        shards
    };
    assert_eq!(names_in(&ferry.at("set")), with_mine(shards("out", 3, ".jsonl")));
    // The names are in use, so the command fails, and no new files remain.
    convert("41", &[]).expect(2);
    assert_eq!(names_in(&ferry.at("set")), with_mine(shards("out", 3, ".jsonl")));
    convert("60", &["--force"]).expect(0);
    assert_eq!(names_in(&ferry.at("set")), with_mine(shards("out", 2, ".jsonl")));
    // The options for dividing rows are mutually exclusive.
    ferry
        .on("convert", &input, &[output.to_str().unwrap(), "-o", "shards=2", "-o", "shard_rows=1"])
        .expect(2);
    let empty = ferry.write("empty.jsonl", "");
    ferry
        .on(
            "convert",
            &empty,
            &[
                ferry.at("none/").to_str().unwrap(),
                "--to",
                "parquet",
                "--allow-empty",
                "-o",
                "max_shard_size=1MB",
            ],
        )
        .expect(0);
    assert_eq!(names_in(&ferry.at("none")), shards("data", 1, ".parquet"));
}

/// Tests that a job with a changed option replaces its own output, and that a job with a missing
/// output file runs again.
#[test]
fn a_run_leaves_no_file_of_its_older_output() {
    let zoo = Zoo::new();
    numbered(&zoo.ferry, "in/rows.jsonl", 0..100);
    let run = |rows: u32, says: &str| {
        zoo.manifest(&format!(
            "[[job]]\ninput = \"in/rows.jsonl\"\noutput = \"out/\"\nto = \"jsonl\"\nverify = true\n\
             receipt = true\noutput_options = {{ shard_rows = {rows} }}\n"
        ));
        let outcome = zoo.run(&[]).expect(0);
        assert!(outcome.stdout.contains(says), "{outcome}");
        zoo.ferry.on("verify", zoo.path("out"), &[]).expect(0);
        let mut names = names_in(&zoo.path("out"));
        names.retain(|name| name.ends_with(".jsonl"));
        names
    };
    assert_eq!(run(15, "1 done"), shards("data", 7, ".jsonl"));
    assert_eq!(run(40, "1 done"), shards("data", 3, ".jsonl"));
    assert_eq!(run(40, "1 unchanged"), shards("data", 3, ".jsonl"));
    std::fs::remove_file(zoo.path("out").join(&shards("data", 3, ".jsonl")[1])).unwrap();
    assert_eq!(run(40, "1 done"), shards("data", 3, ".jsonl"));
    assert_eq!(ids(&zoo.ferry.rows(&zoo.path("out"))), (0..100).collect::<Vec<i64>>());
}
