//! Tests that TensorFlow and `ferry` read the same contents from each other's checkpoints and saved
//! models.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry_tests::bundle::Bundle;
use tensorferry_tests::files::{files_below, names_in};
use tensorferry_tests::fixtures::{self, Facts, case};
use tensorferry_tests::model::Model;
use tensorferry_tests::table::Style;
use tensorferry_tests::{Ferry, args, python};

/// Tensors by name, with `None` for those that TensorFlow lists but cannot read.
type Seen = BTreeMap<String, Option<Facts>>;

/// Returns the tensors that TensorFlow finds in each of these checkpoints.
fn seen(prefixes: &[PathBuf]) -> Vec<Seen> {
    let document = python::script("tf_see.py", prefixes).json();
    let of = |prefix: &PathBuf| serde_json::from_value(document[prefix.to_str().unwrap()].clone()).unwrap();
    prefixes.iter().map(of).collect()
}

/// Returns the tensors that TensorFlow could read, and the names of the other tensors.
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

/// Returns the checkpoint of a fixture.
fn fixture(name: &str) -> (PathBuf, BTreeMap<String, Facts>) {
    let case = case("tf", name);
    let names = names_in(&case.folder);
    let index = names.iter().find_map(|name| name.strip_suffix(".index"));
    (case.folder.join(index.unwrap_or("model.ckpt-42")), case.all())
}

/// Converts a bundle to safetensors and back. Checks that the conversion to safetensors has no
/// losses.
fn there_and_back(ferry: &Ferry, from: &Path, to: &Path, options: &[&str]) {
    let folder = tempdir().unwrap();
    let there = folder.path().join("there.safetensors");
    ferry.convert(from, &there, options);
    ferry.convert(&there, to, &["--to", "tf-bundle"]);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn bundles_made_by_hand_are_bundles() {
    // TensorFlow must also read the bundles that ferry reads in tests/tests/quick/bundle/made.rs.
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
    // Slices of big-endian numbers crash TensorFlow if it cannot swap the bytes of the dtype.
    made.push((at("slices", false), Bundle::of_slices(false), Style::default()));
    for (prefix, bundle, style) in &made {
        bundle.write(folder.path(), prefix.file_name().unwrap().to_str().unwrap(), style);
    }
    let prefixes: Vec<PathBuf> = made.iter().map(|(prefix, ..)| prefix.clone()).collect();
    for ((prefix, bundle, _), seen) in made.iter().zip(seen(&prefixes)) {
        let (read, unread) = split(seen);
        // TensorFlow cannot swap the bytes of types smaller than a byte or of one-byte floats.
        // TensorFlow also cannot join slices of these and some other types.
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
#[ignore = "installs torch and tensorflow from PyPI"]
fn tensorflow_reads_every_bit_of_what_ferry_writes() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let mut outputs = Vec::new();
    // Copy files that TensorFlow wrote, including V1 files. Some of the copies have several data
    // files.
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
    // Copy files that TensorFlow itself cannot read.
    for (name, bundle) in [
        ("big", Bundle::of_every_dtype(true, 1)),
        ("parts", Bundle::of_slices(false)),
        ("big-parts", Bundle::of_slices(true)),
    ] {
        bundle.write(ferry.home(), &format!("{name}-made"), &Style::default());
        ferry.convert(&at(&format!("{name}-made")), &at(name), &["--to", "tf-bundle", "--strict"]);
        outputs.push((at(name), bundle.expected));
    }
    // Convert files in other formats.
    for (section, case) in
        [("safetensors", "all_dtypes"), ("safetensors", "odd_names"), ("torch", "zip_module_state_dict")]
    {
        let case = fixtures::case(section, case);
        ferry.convert(&case.input(), &at(&case.name), &["--to", "tf-bundle"]);
        let expected = ferry.tensors(&at(&case.name));
        let mut source = case.all();
        source.retain(|name, _| expected.contains_key(name));
        assert!(expected.len() > 3 && source == expected, "{}", case.name);
        outputs.push((at(&case.name), expected));
    }
    let prefixes: Vec<_> = outputs.iter().map(|(prefix, _)| prefix.clone()).collect();
    for ((prefix, expected), seen) in outputs.iter().zip(seen(&prefixes)) {
        let (mut read, unread) = split(seen);
        // This tensor contains metadata of other formats, for which a bundle has no other place.
        read.remove("_TENSORFERRY_METADATA");
        assert!(unread.is_empty(), "{}: {unread:?}", prefix.display());
        assert_eq!(&read, expected, "{}", prefix.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn what_tensorflow_wrote_in_pieces_is_whole() {
    let ferry = Ferry::new();
    let nothing = Bundle::default();
    std::fs::write(ferry.at("nothing.index"), nothing.index(&Style::default())).unwrap();
    let truth = python::script("tf_pieces.py", [ferry.home()]).json();
    for name in ["merged", "uneven", "policy"] {
        let expected: BTreeMap<String, Facts> = serde_json::from_value(truth[name].clone()).unwrap();
        let mut found = ferry.tensors(&ferry.at(name));
        assert_eq!(found.remove("_CHECKPOINTABLE_OBJECT_GRAPH").is_some(), name == "policy");
        assert_eq!(found, expected, "{name}: {:?}", ferry.names());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn objects_consume_what_comes_back() {
    let ferry = Ferry::new();
    python::script("tf_objects.py", args!["make", ferry.home()]);
    let cases = ferry.names();
    assert_eq!(cases.len(), 7, "{cases:?}");
    for case in &cases {
        let here = |name: &str| ferry.at(case).join(name);
        let original = here("original");
        ferry.convert(&original, &here("copy"), &["--to", "tf-bundle", "--strict"]);
        there_and_back(&ferry, &original, &here("all"), &["--strict", "-i", "state=all"]);
        // All keys are written, and the object graph is unchanged.
        assert_eq!(ferry.tensors(&here("all")), ferry.tensors(&original), "{case}");
        there_and_back(&ferry, &original, &here("model"), &[]);
        // If only the names are known, use the graph of a different checkpoint.
        for names in ["key", "auto"] {
            let there = here(&format!("{names}.safetensors"));
            ferry.convert(&original, &there, &["-i", "state=all", "-i", &format!("names={names}")]);
            forget_metadata(&there);
            let like = format!("like={}", original.display());
            let options = ["--to", "tf-bundle", "--strict", "-o", &like];
            ferry.convert(&there, &here(&format!("like-{names}")), &options);
        }
    }
    let wanted = ["copy:all", "all:all", "model:model", "like-key:all", "like-auto:all"];
    let folder = ferry.home().to_str().unwrap();
    let said = python::script("tf_objects.py", ["check", folder].iter().chain(&wanted)).stdout;
    assert_eq!(said.lines().count(), cases.len() * wanted.len(), "{said}");
}

/// Removes the metadata from a safetensors file. A program that rewrites the file may do the same.
fn forget_metadata(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap());
    let mut header: Value = serde_json::from_slice(header).unwrap();
    header.as_object_mut().unwrap().remove("__metadata__").expect("there is some");
    let header = header.to_string();
    std::fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()).unwrap();
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_saver_restores_name_based_checkpoints() {
    let ferry = Ferry::new();
    python::script("tf_saver.py", args!["make", ferry.home()]);
    for case in ["plain", "partitioned", "sharded", "v1", "v1_partitioned"] {
        let original = ferry.at(case);
        let (back, copy) = (ferry.at(format!("{case}-back")), ferry.at(format!("{case}-copy")));
        there_and_back(&ferry, &original, &back, &["--strict"]);
        ferry.convert(&original, &copy, &["--to", "tf-bundle", "--strict"]);
    }
    let checked = python::script("tf_saver.py", args!["check", ferry.home(), "back", "copy"]);
    assert_eq!(checked.stdout.lines().count(), 10);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_saved_model_with_other_weights_computes_what_they_say() {
    let ferry = Ferry::new();
    python::script("tf_saved_model.py", args!["make", ferry.home()]);
    for kind in ["tf1", "module", "keras"] {
        let here = |name: &str| ferry.at(kind).join(name);
        let like = format!("like={}", here("like").display());
        ferry.convert(&here("other"), &here("weights.safetensors"), &[]);
        let options = ["--to", "saved-model", "-o", &like];
        ferry.convert(&here("weights.safetensors"), &here("through-safetensors"), &options);
        ferry.convert(&here("other/variables/variables"), &here("from-its-bundle"), &options);
        for output in ["through-safetensors", "from-its-bundle"] {
            let mut files = files_below(&here("like"));
            // Ignore the fingerprint. A copied one would describe the old variables.
            files.retain(|file| file != Path::new("fingerprint.pb"));
            let mut found = files_below(&here(output));
            found.retain(|file| file != Path::new("fingerprint.pb"));
            assert_eq!(found, files, "{kind}: {output}");
        }
    }
    let checked = python::script(
        "tf_saved_model.py",
        args!["check", ferry.home(), "through-safetensors", "from-its-bundle"],
    );
    assert_eq!(checked.stdout.lines().count(), 6);
    // Test a weight without a variable in the model, and a variable without a weight.
    let [strange, output] = ferry.paths(["strange.safetensors", "output"]);
    Model::of_size(1 << 16, 6, 1).write(&strange).unwrap();
    let like = format!("like={}", ferry.at("module/like").display());
    let outcome = ferry.try_convert(&strange, &output, &["--to", "saved-model", "-o", &like]);
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    outcome.says(&["model.layers.0.part_0.weight"]);
    assert!(!output.exists());
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_messages_are_tensorflows() {
    let ferry = Ferry::new();
    let descriptors = ferry.at("descriptors.bin");
    std::fs::write(&descriptors, tensorferry_proto::DESCRIPTORS).unwrap();
    let compared = python::script("tf_descriptors.py", [&descriptors]).json();
    assert!(compared["messages"].as_u64() >= Some(72), "{compared}");
    assert!(compared["fields"].as_u64() >= Some(197), "{compared}");
    assert!(compared["values"].as_u64() >= Some(39), "{compared}");
}
