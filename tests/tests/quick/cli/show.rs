//! Tests that `show` prints values in the same way as numpy, reads only the selected slices, and
//! prints records as a table.

use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::model::Tensors;
use tensorferry_tests::{Ferry, args};

const BASE: Tensors<'_> = &[
    ("a[0].w", "I8", &[2, 3], &[1, 2, 3, 4, 5, 255]),
    ("f", "F32", &[3], &[0, 0, 128, 63, 0, 0, 192, 191, 0, 0, 192, 127]),
    ("s", "BOOL", &[], &[1]),
    ("packed", "F4", &[2, 4], &[0x21, 0x43, 0xa9, 0xcb]),
];

#[test]
fn values_stand_as_numpy_prints_them() {
    let ferry = Ferry::new();
    let input = ferry.safetensors("base.safetensors", BASE);
    for (wanted, expected) in [
        ("a[0].w", "a[0].w: I8 [2, 3]\n[[ 1  2  3]\n [ 4  5 -1]]\n"),
        ("a[0].w[1, ::-1]", "a[0].w[1, ::-1]: I8 [3] of [2, 3]\n[-1  5  4]\n"),
        ("a[0].w[-1, -1]", "a[0].w[-1, -1]: I8 [] of [2, 3]\n-1\n"),
        ("a[0].w[:, 5:]", "a[0].w[:, 5:]: I8 [2, 0] of [2, 3]\n[]\n"),
        ("f", "f: F32 [3]\n[ 1.  -1.5  nan]\n"),
        ("f[::2]", "f[::2]: F32 [2] of [3]\n[ 1. nan]\n"),
        ("s", "s: BOOL []\nTrue\n"),
        ("packed[:, 1::2]", "packed[:, 1::2]: F4 [2, 2] of [2, 4]\n[[ 1.  2.]\n [-1. -2.]]\n"),
    ] {
        assert_eq!(ferry.run(args!["show", input, wanted]).expect(0).stdout, expected, "{wanted}");
    }
    let both = ferry.run(args!["show", input, "[fs]"]).expect(0);
    assert_eq!(both.stdout, "f: F32 [3]\n[ 1.  -1.5  nan]\n\ns: BOOL []\nTrue\n");
    let json = ferry.run(args!["show", input, "f", "a[0].w[0]", "--json"]).expect(0).json();
    assert_eq!(json["tensors"][0]["values"], serde_json::json!([1.0, -1.5, "NaN"]));
    assert_eq!(json["tensors"][1]["values"], serde_json::json!([1, 2, 3]));
    assert_eq!(json["tensors"][1]["slice_shape"], serde_json::json!([3]));
    assert!(json["read_bytes"].as_u64().unwrap() < 1000, "{json}");
}

#[test]
fn the_ends_of_large_tensors_are_shown() {
    let ferry = Ferry::new();
    let bytes: Vec<u8> = (0..2500_u16).flat_map(u16::to_le_bytes).collect();
    let input = ferry.safetensors("large.safetensors", &[("w", "U16", &[50, 50], &bytes)]);
    let shown = ferry.run(args!["show", input, "w"]).expect(0).stdout;
    assert_eq!(
        shown,
        "w: U16 [50, 50]\n[[   0    1    2 ...   47   48   49]\n [  50   51   52 ...   97   98   99]\n \
         [ 100  101  102 ...  147  148  149]\n ...\n [2350 2351 2352 ... 2397 2398 2399]\n \
         [2400 2401 2402 ... 2447 2448 2449]\n [2450 2451 2452 ... 2497 2498 2499]]\n"
    );
    let all = ferry.run(args!["show", input, "w", "--all", "--width", "400"]).expect(0).stdout;
    assert_eq!((all.lines().count(), all.contains("...")), (51, false), "{all}");
    let few = ferry.run(args!["show", input, "w[0]", "--threshold", "7"]).expect(0).stdout;
    assert_eq!(few, "w[0]: U16 [50] of [50, 50]\n[ 0  1  2 ... 47 48 49]\n");
}

#[test]
fn mistakes_are_named() {
    let ferry = Ferry::new();
    let input = ferry.safetensors("base.safetensors", BASE);
    let rows = ferry.write("rows.jsonl", "{\"a\": 1}\n{\"a\": 2}\n");
    for (wanted, says) in [
        ("f[3]", &["axis 0", "length is 3", "-3 to 2"][..]),
        ("a[0].w[0, -4]", &["axis 1", "length is 3"]),
        ("a[0].w[0, 0, 0]", &["3 indices for 2 axes"]),
        ("f[None]", &["a new axis"]),
        ("?[0]", &["1 index for 0 axes", "\"s\""]),
        ("f[::0]", &["step of 0"]),
        ("f[x]", &["is not an index"]),
        ("ff", &["no tensor of this name", "did you mean \"f\""]),
        ("packe[0]", &["did you mean \"packed\""]),
        ("nothing.like.it", &["no tensor of this name", "ferry inspect"]),
    ] {
        ferry.run(args!["show", input, wanted]).expect(2).says(says);
    }
    ferry.run(args!["show", input]).expect(2).says(&["name a tensor", "\"f\""]);
    ferry.run(args!["show", input, "--rows", "0:3"]).expect(2).says(&["--rows needs a dataset"]);
    ferry.run(args!["show", input, "f", "--columns", "a"]).expect(2).says(&["--columns needs a dataset"]);
    ferry.run(args!["show", rows, "f"]).expect(2).says(&["contains records", "--columns"]);
    ferry.run(args!["show", rows, "--columns", "b"]).expect(2).says(&["no such column", "\"b\""]);
    ferry.run(args!["show", rows, "--rows", "1:2:3"]).expect(2).says(&["START:STOP"]);
    ferry.run(args!["show", ferry.at("not_there"), "f"]).expect(2);
    let refused = ferry.run(args!["show", input, "f[3]", "--json"]).expect(2).json();
    assert_eq!(refused["error"]["tensor"], "f", "{refused}");
}

/// Applies an index to nested lists.
fn taken(value: &Value, entries: &[&str]) -> Value {
    let Some((entry, rest)) = entries.split_first() else { return value.clone() };
    let list = value.as_array().unwrap();
    match *entry {
        ":" => list.iter().map(|one| taken(one, rest)).collect(),
        "::-2" => list.iter().rev().step_by(2).map(|one| taken(one, rest)).collect(),
        "1:" => list.iter().skip(1).map(|one| taken(one, rest)).collect(),
        "-1" => taken(&list[list.len() - 1], rest),
        other => panic!("{other}"),
    }
}

#[test]
fn slices_of_every_fixture_are_those_of_the_whole() {
    let ferry = Ferry::new();
    let (mut inputs, mut slices) = (0, 0);
    for section in ["safetensors", "torch", "numpy", "tf", "gguf", "onnx", "quantised"] {
        // Each case runs three processes, so use only a third of the cases, which covers every kind
        // of storage.
        for case in cases(section, "").iter().filter(|case| !case.is_error()).step_by(3) {
            let input = case.input();
            let seen = ferry.run(args!["inspect", input, "--json"]);
            let Ok(document) = serde_json::from_str::<Value>(&seen.stdout) else { continue };
            let Some(tensors) = document["tensors"].as_array() else { continue };
            let is_small = |tensor: &&Value| tensor["bytes"].as_u64().is_some_and(|bytes| bytes < 20_000);
            let names: Vec<&str> = tensors
                .iter()
                .filter(is_small)
                .take(12)
                .filter_map(|tensor| tensor["name"].as_str())
                .collect();
            let show = |texts: &[String]| {
                let words =
                    [&["show".to_owned(), input.display().to_string(), "--json".to_owned()], texts].concat();
                ferry.run(&words)
            };
            let texts: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            if texts.is_empty() {
                continue;
            }
            // Skip inputs that need an option for their dtype, or that lack a part. Other tests
            // cover them.
            let whole = show(&texts);
            if whole.code != Some(0) {
                assert!(!whole.stderr.contains("panicked") && whole.code != Some(5), "{whole}");
                continue;
            }
            let whole = whole.json();
            inputs += 1;
            let mut expected = Vec::new();
            let mut wanted = Vec::new();
            for (name, tensor) in names.iter().zip(whole["tensors"].as_array().unwrap()) {
                let shape: Vec<u64> =
                    tensor["shape"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
                if shape.is_empty() || shape.contains(&0) {
                    continue;
                }
                for pattern in [["::-2", "1:"], ["-1", "::-2"], [":", "-1"]] {
                    let entries: Vec<&str> = pattern.iter().copied().cycle().take(shape.len()).collect();
                    wanted.push(format!("{name}[{}]", entries.join(", ")));
                    expected.push(taken(&tensor["values"], &entries));
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let sliced = show(&wanted).expect(0).json();
            let found = sliced["tensors"].as_array().unwrap();
            for ((wanted, expected), found) in wanted.iter().zip(&expected).zip(found) {
                assert_eq!(found["values"], *expected, "{} {wanted}", input.display());
                slices += 1;
            }
        }
    }
    assert!(inputs > 20 && slices > 150, "{inputs} inputs, {slices} slices");
}

#[test]
fn a_slice_of_a_huge_model_reads_what_it_needs() {
    const SHARDS: u64 = 20;
    const ROWS: u64 = 1_310_720;
    let ferry = Ferry::new();
    let folder = ferry.at("huge");
    std::fs::create_dir(&folder).unwrap();
    let mut places = serde_json::Map::new();
    let bytes = ROWS * 4096;
    for shard in 1..=SHARDS {
        let name = format!("model-{shard:05}-of-{SHARDS:05}.safetensors");
        let header = serde_json::json!({
            format!("layer.{shard}.w"): { "dtype": "F32", "shape": [ROWS, 1024], "data_offsets": [0, bytes] }
        });
        let header = header.to_string();
        let file = File::create(folder.join(&name)).unwrap();
        file.write_all_at(&(header.len() as u64).to_le_bytes(), 0).unwrap();
        file.write_all_at(header.as_bytes(), 8).unwrap();
        file.set_len(8 + header.len() as u64 + bytes).unwrap();
        let at = 8 + header.len() as u64 + (ROWS - 1) * 4096 + 8;
        file.write_all_at(&2.5_f32.to_le_bytes(), at).unwrap();
        places.insert(format!("layer.{shard}.w"), name.into());
    }
    let index = serde_json::json!({ "metadata": { "total_size": SHARDS * bytes }, "weight_map": places });
    std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let started = Instant::now();
    let shown = ferry.run(args!["show", folder, "layer.7.w[-2:, 1:4]", "--json"]).expect(0).json();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(shown["tensors"][0]["values"], serde_json::json!([[0.0, 0.0, 0.0], [0.0, 2.5, 0.0]]));
    let read = shown["read_bytes"].as_u64().unwrap();
    assert!(read < 20_000 && seconds < 5.0, "{read} bytes, {seconds} s");
    // The summary reads only the start and end of the tensor.
    let ends = ferry.run(args!["show", folder, "layer.20.w"]).expect(0).stdout;
    assert!(ends.contains("[0.  0.  2.5 ... 0.  0.  0. ]]"), "{ends}");
}

#[test]
fn rows_are_a_table_or_lines() {
    let ferry = Ferry::new();
    let lines: String = (0..25)
        .map(|id| {
            format!(
                "{{\"id\": {id}, \"name\": {}, \"list\": [{id}, 2]}}\n",
                if id == 3 { "null".to_owned() } else { format!("\"n{id}\"") }
            )
        })
        .collect();
    let rows = ferry.write("rows.jsonl", &lines);
    let parquet = ferry.at("rows.parquet");
    ferry.convert(&rows, &parquet, &[]);
    let table = ferry.run(args!["show", parquet, "--rows", "2:4"]).expect(0).stdout;
    let shown: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(shown[0], "rows 2 to 3 of 25, 3 columns");
    assert!(
        shown[2].contains("id  name") && shown[4].starts_with("2   2") || shown[4].contains("n2"),
        "{table}"
    );
    assert!(shown[5].contains("null") && shown[5].contains("[3, 2]"), "{table}");
    let first = ferry.run(args!["show", rows]).expect(0).stdout;
    assert!(first.contains("rows 0 to 9 of 25, 3 columns"), "{first}");
    let last = ferry.run(args!["show", parquet, "--rows", "-2:", "--columns", "id,name", "--json"]).expect(0);
    assert_eq!(last.stdout, "{\"id\":23,\"name\":\"n23\"}\n{\"id\":24,\"name\":\"n24\"}\n");
    ferry.run(args!["show", parquet, "--rows", "25"]).expect(2).says(&["row 25 does not exist", "25"]);
    let none = ferry.run(args!["show", parquet, "--rows", "90:99"]).expect(0).stdout;
    assert!(none.contains("no rows of 25"), "{none}");
}

#[test]
fn rows_are_read_from_their_place_alone() {
    let ferry = Ferry::new();
    let lines: String =
        (0..1000).map(|row| format!("{{\"id\":{row},\"word\":\"w{}\"}}\n", row * row)).collect();
    let lines = ferry.write("rows.jsonl", lines);
    let path = ferry.at("rows.parquet");
    ferry.convert(&lines, &path, &["-o", "row_group_rows=50"]);
    // Damage the first third of the file.
    let mut bytes = std::fs::read(&path).unwrap();
    let third = bytes.len() / 3;
    bytes[4..third].fill(0xee);
    std::fs::write(&path, bytes).unwrap();
    ferry.run(args!["cat", path]).expect(3);
    let shown = ferry.run(args!["show", path, "--rows", "990:992", "--columns", "word", "--json"]).expect(0);
    assert_eq!(shown.stdout, "{\"word\":\"w980100\"}\n{\"word\":\"w982081\"}\n");
}
