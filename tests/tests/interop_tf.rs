//! TensorFlow and `ferry` see the same in each other's checkpoints and saved models.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::bundle::Bundle;
use tensorferry_tests::ferry::{files_below, names_in};
use tensorferry_tests::fixtures::{Facts, cases, inspected};
use tensorferry_tests::table::Style;
use tensorferry_tests::{Ferry, python};

/// Tensors by name; `None` where TensorFlow lists one that it cannot read.
type Seen = BTreeMap<String, Option<Facts>>;

/// What TensorFlow sees in each of these checkpoints.
fn seen(prefixes: &[PathBuf]) -> Vec<Seen> {
    let document = python::script("tf_see.py", prefixes).json();
    let of = |prefix: &PathBuf| serde_json::from_value(document[prefix.to_str().unwrap()].clone()).unwrap();
    prefixes.iter().map(of).collect()
}

/// The tensors that TensorFlow could read, and the names of the others.
fn split(seen: Seen) -> (BTreeMap<String, Facts>, Vec<String>) {
    let mut read = BTreeMap::new();
    let mut unread = Vec::new();
    for (name, facts) in seen {
        match facts {
            Some(facts) => drop(read.insert(name, facts)),
            None => unread.push(name),
        }
    }
    (read, unread)
}

fn files<const N: usize>(names: [&str; N]) -> (TempDir, [PathBuf; N]) {
    let folder = tempdir().unwrap();
    let paths = names.map(|name| folder.path().join(name));
    (folder, paths)
}

/// The checkpoint of a case of the fixtures.
fn fixture(case: &str) -> (PathBuf, BTreeMap<String, Facts>) {
    let case = cases("tf", case).into_iter().find(|found| found.name == case).unwrap();
    let names = names_in(&case.folder);
    let index = names.iter().find_map(|name| name.strip_suffix(".index"));
    (case.folder.join(index.unwrap_or("model.ckpt-42")), case.tensors(|_, _| true))
}

/// bundle -> safetensors -> bundle, nothing lost on the way there.
fn there_and_back(ferry: &Ferry, from: &Path, to: &Path, options: &[&str]) {
    let folder = tempdir().unwrap();
    let there = folder.path().join("there.safetensors");
    ferry.convert(from, &there, options);
    ferry.convert(&there, to, &["--to", "tf-bundle"]);
}

#[test]
fn bundles_made_by_hand_are_bundles() {
    // What tests/tests/bundle_made.rs has ferry read, TensorFlow reads too.
    let folder = tempdir().unwrap();
    let small = Style { block_bytes: 200, ..Style::default() };
    let styles = [
        ("plain", Style::default()),
        ("unshared", Style { shares: false, shortens: false, ..small.clone() }),
        ("snappy", Style { snappy: true, ..small.clone() }),
        ("after", Style { after_handle: b"\x07more", ..small }),
    ];
    let at = |name: &str, big_endian: bool| folder.path().join(format!("{name}-{big_endian}"));
    let mut made = Vec::new();
    for big_endian in [false, true] {
        for (name, style) in &styles {
            made.push((at(name, big_endian), Bundle::of_every_dtype(big_endian, 64), style.clone()));
        }
    }
    // Slices of big-endian numbers end TensorFlow's process, where it cannot swap the dtype.
    made.push((at("slices", false), Bundle::of_slices(false), Style::default()));
    for (prefix, bundle, style) in &made {
        bundle.write(folder.path(), prefix.file_name().unwrap().to_str().unwrap(), style);
    }
    let prefixes: Vec<PathBuf> = made.iter().map(|(prefix, ..)| prefix.clone()).collect();
    for ((prefix, bundle, _), seen) in made.iter().zip(seen(&prefixes)) {
        let (read, unread) = split(seen);
        // TensorFlow swaps no type of less than a byte and no float of one, and stitches neither those
        // nor some others.
        let unread_dtypes =
            ["F8_", "F4_", "I4_", "U4_", "I2_", "U2_", "F16", "U16", "U32", "U64", "STR", "BF16", "Q"];
        let is_known = |name: &String| {
            let dtype = name.split('/').nth(1).unwrap();
            let few = if name.starts_with("part") { &unread_dtypes[..] } else { &unread_dtypes[..6] };
            few.iter().any(|start| dtype.starts_with(start))
        };
        assert!(unread.iter().all(is_known), "{}: {unread:?}", prefix.display());
        let mut expected = bundle.expected.clone();
        expected.retain(|name, _| !unread.contains(name));
        assert!(expected.len() > 40, "{}: {unread:?}", prefix.display());
        assert_eq!(read, expected, "{}", prefix.display());
    }
}

#[test]
fn tensorflow_reads_every_bit_of_what_ferry_writes() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut outputs = Vec::new();
    // Copies of what TensorFlow wrote, V1 too; some in several data files.
    for (number, case) in [
        "many_keys",
        "object_all_dtypes",
        "raw_all_dtypes",
        "saver_v1",
        "saver_v2_partitioned_axis0",
        "saver_v2_plain",
        "saver_v2_sharded",
    ]
    .into_iter()
    .enumerate()
    {
        let (input, expected) = fixture(case);
        let shards = format!("shards={}", number % 3 + 1);
        ferry.convert(&input, &at(case), &["--to", "tf-bundle", "-o", &shards, "--strict"]);
        outputs.push((at(case), expected));
    }
    // Copies of what TensorFlow itself cannot read as it stands.
    for (name, bundle) in [
        ("big", Bundle::of_every_dtype(true, 1)),
        ("parts", Bundle::of_slices(false)),
        ("big-parts", Bundle::of_slices(true)),
    ] {
        bundle.write(folder.path(), &format!("{name}-made"), &Style::default());
        ferry.convert(&at(&format!("{name}-made")), &at(name), &["--to", "tf-bundle", "--strict"]);
        outputs.push((at(name), bundle.expected));
    }
    // What came from another format.
    for (section, case) in
        [("safetensors", "all_dtypes"), ("safetensors", "odd_names"), ("torch", "zip_module_state_dict")]
    {
        let case = cases(section, case).pop().unwrap();
        ferry.convert(&case.input(), &at(&case.name), &["--to", "tf-bundle"]);
        let expected = inspected(&ferry.inspect(&at(&case.name)));
        let mut source = case.tensors(|_, _| true);
        source.retain(|name, _| expected.contains_key(name));
        assert!(expected.len() > 3 && source == expected, "{}", case.name);
        outputs.push((at(&case.name), expected));
    }
    let prefixes: Vec<_> = outputs.iter().map(|(prefix, _)| prefix.clone()).collect();
    for ((prefix, expected), seen) in outputs.iter().zip(seen(&prefixes)) {
        let (read, unread) = split(seen);
        assert!(unread.is_empty(), "{}: {unread:?}", prefix.display());
        assert_eq!(&read, expected, "{}", prefix.display());
    }
}

#[test]
fn what_tensorflow_wrote_in_pieces_is_whole() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let nothing = Bundle::default();
    std::fs::write(folder.path().join("nothing.index"), nothing.index(&Style::default())).unwrap();
    let truth = python::script("tf_pieces.py", [folder.path()]).json();
    for name in ["merged", "uneven", "policy"] {
        let expected: BTreeMap<String, Facts> = serde_json::from_value(truth[name].clone()).unwrap();
        let mut found = inspected(&ferry.inspect(&folder.path().join(name)));
        assert_eq!(found.remove("_CHECKPOINTABLE_OBJECT_GRAPH").is_some(), name == "policy");
        assert_eq!(found, expected, "{name}: {:?}", names_in(folder.path()));
    }
}

#[test]
fn objects_consume_what_comes_back() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    python::script("tf_objects.py", ["make".as_ref(), folder.path().as_os_str()]);
    let cases = names_in(folder.path());
    assert_eq!(cases.len(), 7, "{cases:?}");
    for case in &cases {
        let original = folder.path().join(case).join("original");
        let all = folder.path().join(case).join("all");
        there_and_back(&ferry, &original, &all, &["--strict", "-i", "state=all"]);
        // Every key, and the object graph as it stood.
        assert_eq!(inspected(&ferry.inspect(&all)), inspected(&ferry.inspect(&original)), "{case}");
        there_and_back(&ferry, &original, &folder.path().join(case).join("model"), &[]);
        let copy = folder.path().join(case).join("copy");
        ferry.convert(&original, &copy, &["--to", "tf-bundle", "--strict"]);
    }
    for (prefix, state) in [("all", "all"), ("copy", "all"), ("model", "model")] {
        let arguments = [OsStr::new("check"), folder.path().as_ref(), prefix.as_ref(), state.as_ref()];
        let said = python::script("tf_objects.py", arguments).stdout;
        assert_eq!(said.lines().count(), cases.len(), "{said}");
    }
}

#[test]
fn a_graph_can_be_taken_from_another_checkpoint() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    python::script("tf_objects.py", ["make".as_ref(), folder.path().as_os_str()]);
    for case in names_in(folder.path()) {
        let here = |name: &str| folder.path().join(&case).join(name);
        // By way of a format that keeps no metadata of ours: the names are keys.
        ferry.convert(&here("original"), &here("there.safetensors"), &["-i", "state=all", "-i", "names=key"]);
        ferry.convert(&here("there.safetensors"), &here("there.pt"), &[]);
        let like = format!("like={}", here("original").display());
        ferry.convert(&here("there.pt"), &here("like"), &["--to", "tf-bundle", "-o", &like]);
    }
    let arguments = [OsStr::new("check"), folder.path().as_ref(), OsStr::new("like"), OsStr::new("all")];
    python::script("tf_objects.py", arguments);
}

#[test]
fn a_saver_restores_name_based_checkpoints() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    python::script("tf_saver.py", ["make".as_ref(), folder.path().as_os_str()]);
    for case in ["plain", "partitioned", "sharded", "v1", "v1_partitioned"] {
        let original = folder.path().join(case);
        let (back, copy) =
            (folder.path().join(format!("{case}-back")), folder.path().join(format!("{case}-copy")));
        there_and_back(&ferry, &original, &back, &["--strict"]);
        ferry.convert(&original, &copy, &["--to", "tf-bundle", "--strict"]);
    }
    for prefix in ["back", "copy"] {
        let arguments = [OsStr::new("check"), folder.path().as_ref(), prefix.as_ref()];
        assert_eq!(python::script("tf_saver.py", arguments).stdout.lines().count(), 5);
    }
}

#[test]
fn without_an_object_graph_a_bundle_is_said_to_be_name_based() {
    let ferry = Ferry::new();
    let (_folder, [model, output]) = files(["model.safetensors", "output"]);
    tensorferry_tests::model::Model::of_size(1 << 16, 6, 1).write(&model).unwrap();
    let report = ferry.convert(&model, &output, &["--to", "tf-bundle", "--json"]).json();
    let losses = report["losses"].as_array().unwrap();
    let is_said =
        |loss: &Value| loss["kind"] == "graph" && loss["why"].to_string().contains("tf.train.Checkpoint");
    assert!(losses.iter().any(is_said), "{report}");
}

#[test]
fn a_saved_model_with_other_weights_computes_what_they_say() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    python::script("tf_saved_model.py", ["make".as_ref(), folder.path().as_os_str()]);
    for kind in ["tf1", "module", "keras"] {
        let here = |name: &str| folder.path().join(kind).join(name);
        let like = format!("like={}", here("like").display());
        ferry.convert(&here("other"), &here("weights.safetensors"), &[]);
        let options = ["--to", "saved-model", "-o", &like];
        ferry.convert(&here("weights.safetensors"), &here("through-safetensors"), &options);
        ferry.convert(&here("other/variables/variables"), &here("from-its-bundle"), &options);
        for output in ["through-safetensors", "from-its-bundle"] {
            let mut files = files_below(&here("like"));
            // It would vouch for the variables that were there before.
            files.retain(|file| file != Path::new("fingerprint.pb"));
            let mut found = files_below(&here(output));
            found.retain(|file| file != Path::new("fingerprint.pb"));
            assert_eq!(found, files, "{kind}: {output}");
        }
    }
    for output in ["through-safetensors", "from-its-bundle"] {
        let arguments = [OsStr::new("check"), folder.path().as_ref(), output.as_ref()];
        assert_eq!(python::script("tf_saved_model.py", arguments).stdout.lines().count(), 3);
    }
    // A weight that the model has no place for, and a place that no weight is for.
    let (_folder, [strange, output]) = files(["strange.safetensors", "output"]);
    tensorferry_tests::model::Model::of_size(1 << 16, 6, 1).write(&strange).unwrap();
    let like = format!("like={}", folder.path().join("module/like").display());
    let command = ["convert".as_ref(), strange.as_os_str(), output.as_os_str()];
    let options = ["--to", "saved-model", "-o", &like].map(OsStr::new);
    let outcome = ferry.run(command.into_iter().chain(options));
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    outcome.says(&["model.layers.0.part_0.weight"]);
    assert!(!output.exists());
}

#[test]
fn the_messages_are_tensorflows() {
    let (_folder, [descriptors]) = files(["descriptors.bin"]);
    std::fs::write(&descriptors, tensorferry_proto::DESCRIPTORS).unwrap();
    let compared = python::script("tf_descriptors.py", [&descriptors]).json();
    assert!(compared["messages"].as_u64() >= Some(72), "{compared}");
    assert!(compared["fields"].as_u64() >= Some(197), "{compared}");
    assert!(compared["values"].as_u64() >= Some(39), "{compared}");
}

#[test]
fn content_is_the_same_in_all_three_formats() {
    let ferry = Ferry::new();
    for (section, name) in
        [("torch", "zip_module_state_dict"), ("torch", "zip_views"), ("safetensors", "special_values")]
    {
        let case = cases(section, name).into_iter().find(|case| case.name == name).unwrap();
        let (_folder, [torch, bundle, safetensors, back]) = files(["a.pt", "b", "c.safetensors", "d.pt"]);
        ferry.convert(&case.input(), &torch, &[]);
        ferry.convert(&torch, &bundle, &["--to", "tf-bundle", "--verify"]);
        ferry.convert(&bundle, &safetensors, &["--verify", "--strict"]);
        ferry.convert(&safetensors, &back, &["--verify", "--strict"]);
        let digests = [&torch, &bundle, &safetensors, &back].map(|path| contents(&ferry, path));
        assert!(digests[0].0.len() > 3, "{name}");
        for other in &digests[1..] {
            assert_eq!(other, &digests[0], "{name}");
        }
        assert!(ferry.equal(&torch, &bundle) && ferry.equal(&bundle, &safetensors), "{name}");
    }
}

/// The content digest of each tensor, and of them all.
fn contents(ferry: &Ferry, path: &Path) -> (BTreeMap<String, Value>, Value) {
    let options = ["--json", "--digest", "blake3"].map(OsStr::new);
    let document =
        ferry.run(["inspect".as_ref(), path.as_os_str()].into_iter().chain(options)).expect(0).json();
    let tensors = document["tensors"].as_array().unwrap();
    let digest =
        |tensor: &Value| (tensor["name"].as_str().unwrap().to_owned(), tensor["digest"]["blake3"].clone());
    (tensors.iter().map(digest).collect(), document["content"].clone())
}
