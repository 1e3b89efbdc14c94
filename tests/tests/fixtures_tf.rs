//! Checkpoints, saved models and frozen graphs that TensorFlow wrote: what `ferry` finds in them,
//! what it refuses, and that their content survives the way to safetensors and back.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::{files_below, names_in};
use tensorferry_tests::fixtures::{Case, Facts, cases, inspected};

const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// Of a key of the object graph's making; what is before it is the object's path.
const VALUE: &str = "/.ATTRIBUTES/VARIABLE_VALUE";
const DATA: &str = ".data-00000-of-00001";

fn ok_cases() -> Vec<Case> {
    let cases: Vec<_> = cases("tf", "").into_iter().filter(|case| !case.is_error()).collect();
    assert_eq!(cases.len(), 11);
    cases
}

fn case(name: &str) -> Case {
    ok_cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

/// The id of the format that reads a case.
fn format(case: &Case) -> &'static str {
    match case.expected["format"].as_str() {
        Some("tf-bundle" | "tf-v1-checkpoint") => "tf-bundle",
        Some("tf-saved-model") => "saved-model",
        Some("tf-graphdef") => "tf-graph",
        other => panic!("{}: no format is known for {other:?}", case.name),
    }
}

/// Whatever a person would point at, relative to the case's folder: all of it is the same input.
fn doors(case: &Case) -> Vec<String> {
    let members = |prefix: &str, members: &[&str]| -> Vec<String> {
        members.iter().map(|member| format!("{prefix}{member}")).collect()
    };
    match case.name.as_str() {
        "frozen_graph" => vec!["frozen.pb".into(), "frozen.pbtxt".into()],
        "many_keys" | "object_all_dtypes" | "raw_all_dtypes" => {
            [members("ckpt", &["", ".index", DATA]), vec![String::new()]].concat()
        }
        "object_optimizer_slots" => {
            [members("run/ckpt-2", &["", ".index", DATA]), members("run", &["", "/"])].concat()
        }
        "saved_model_pb" => vec!["saved_model".into(), "saved_model/saved_model.pb".into()],
        "saved_model_pbtxt" => vec!["saved_model".into(), "saved_model/saved_model.pbtxt".into()],
        "saver_v1" => vec!["model.ckpt-42".into(), String::new()],
        "saver_v2_plain" | "saver_v2_partitioned_axis0" => {
            [members("model.ckpt-42", &["", ".index", DATA]), vec![String::new()]].concat()
        }
        "saver_v2_sharded" => {
            let shards = ["", ".index", ".data-00000-of-00002", ".data-00001-of-00002"];
            [members("model.ckpt-42", &shards), vec![String::new()]].concat()
        }
        other => panic!("{other}: nobody has said what a person would point at"),
    }
}

/// The first of a case's [`doors`].
fn input(case: &Case) -> PathBuf {
    case.folder.join(&doors(case)[0])
}

/// Cases that are checkpoints of tensors alone.
fn checkpoints() -> Vec<Case> {
    let cases: Vec<_> = ok_cases().into_iter().filter(|case| format(case) == "tf-bundle").collect();
    assert_eq!(cases.len(), 8);
    cases
}

fn losses(document: &Value) -> &[Value] {
    document["losses"].as_array().unwrap()
}

/// What a report lists as lost, of one kind.
fn lost(document: &Value, kind: &str) -> BTreeSet<String> {
    let losses = losses(document).iter().filter(|loss| loss["kind"] == kind);
    losses.map(|loss| loss["what"].as_str().unwrap().to_owned()).collect()
}

/// Whether safetensors has no name for a dtype.
fn is_foreign(dtype: &str) -> bool {
    dtype.ends_with("_UNPACKED")
        || dtype.starts_with("QI")
        || dtype.starts_with("QU")
        || ["STR", "C128", "F8_E4M3B11FNUZ"].contains(&dtype)
}

/// The dtypes, shapes and digests alone, sorted, for comparing content under other names.
fn contents(tensors: &BTreeMap<String, Facts>) -> Vec<&Facts> {
    let mut contents: Vec<_> = tensors.values().collect();
    contents.sort();
    contents
}

#[test]
fn every_tensor_is_found_through_every_door() {
    let ferry = Ferry::new();
    let mut seen = 0;
    for case in ok_cases() {
        let expected = case.tensors(|_, _| true);
        for door in doors(&case) {
            let document = ferry.inspect(&case.folder.join(&door));
            let what = format!("{} by {door:?}", case.name);
            assert_eq!(inspected(&document), expected, "{what}");
            assert_eq!(document["format"], format(&case), "{what}");
            if format(&case) == "tf-bundle" {
                assert!(losses(&document).is_empty(), "{what}: {document}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 38);
}

#[test]
fn an_older_checkpoint_is_found_by_its_name() {
    let ferry = Ferry::new();
    let case = case("object_optimizer_slots");
    let older = inspected(&ferry.inspect(&case.folder.join("run/ckpt-1")));
    let latest = case.tensors(|_, _| true);
    assert_eq!(older.keys().collect::<Vec<_>>(), latest.keys().collect::<Vec<_>>());
    let counter = format!("save_counter{VALUE}");
    assert_ne!(older[&counter], latest[&counter]);
}

#[test]
fn a_moved_checkpoint_needs_no_state_file_and_a_stale_one_is_named() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let case = case("object_optimizer_slots");
    for member in [".index", DATA] {
        let name = format!("ckpt-2{member}");
        std::fs::copy(case.folder.join("run").join(&name), folder.path().join(&name)).unwrap();
    }
    assert_eq!(inspected(&ferry.inspect(folder.path())), case.tensors(|_, _| true));
    std::fs::write(folder.path().join("checkpoint"), "model_checkpoint_path: \"ckpt-7\"\n").unwrap();
    // There is one checkpoint only, so that it is plain which is meant.
    let outcome = ferry.run([OsStr::new("inspect"), folder.path().as_ref()]).expect(0);
    assert_eq!(outcome.stderr.matches("\"ckpt-7\" is the latest, and is not there").count(), 1, "{outcome}");
}

#[test]
fn every_malformed_checkpoint_is_refused_by_place() {
    let ferry = Ferry::new();
    // The flipped bit is in the first block of the index, which starts at 0, and in byte 100 of the
    // data file, where tensor "a" has its bytes from 0; the file that was cut ends in tensor "b".
    let places: [(&str, &[&str]); 3] = [
        ("bad_data_flip", &["ckpt.data-00000-of-00001", "\"a\"", "offset 0"]),
        ("bad_data_truncated", &["ckpt.data-00000-of-00001", "\"b\"", "offset 4000"]),
        ("bad_index_flip", &["ckpt.index", "block", "offset 0"]),
    ];
    let bad: Vec<_> = cases("tf", "").into_iter().filter(Case::is_error).collect();
    assert_eq!(bad.len(), places.len());
    for (case, (name, place)) in bad.iter().zip(places) {
        assert_eq!(case.name, name);
        for door in ["ckpt", "ckpt.index", "ckpt.data-00000-of-00001"] {
            let input = case.folder.join(door);
            let command =
                ["inspect".as_ref(), input.as_os_str(), OsStr::new("--digest"), OsStr::new("sha256")];
            ferry.run(command).expect(3).says(&["malformed"]).says(place);
            ferry.refuses(&input, place[0]);
        }
    }
}

#[test]
fn a_copy_holds_the_same() {
    let ferry = Ferry::new();
    for case in checkpoints() {
        let folder = tempdir().unwrap();
        let copy = folder.path().join("copy");
        ferry.convert(&input(&case), &copy, &["--to", "tf-bundle", "--verify", "--strict"]);
        assert_eq!(inspected(&ferry.inspect(&copy)), case.tensors(|_, _| true), "{}", case.name);
        assert!(ferry.equal(&input(&case), &copy), "{}", case.name);
        let names = names_in(folder.path());
        assert_eq!(names, ["copy.data-00000-of-00001", "copy.index"], "{}", case.name);
    }
}

#[test]
fn what_safetensors_has_a_dtype_for_survives_it() {
    let ferry = Ferry::new();
    for case in checkpoints() {
        let folder = tempdir().unwrap();
        let [there, back] = ["there.safetensors", "back"].map(|name| folder.path().join(name));
        let all = ["--json", "-i", "state=all", "-i", "names=key"];
        let report = ferry.convert(&input(&case), &there, &all).json();
        let mut expected = case.tensors(|name, _| name != OBJECT_GRAPH);
        let foreign = expected.extract_if(.., |_, (dtype, ..)| is_foreign(dtype)).map(|(name, _)| name);
        let foreign: BTreeSet<String> = foreign.collect();
        assert_eq!(lost(&report, "tensor"), foreign, "{}", case.name);
        assert_eq!(losses(&report).len(), foreign.len(), "{}: {report}", case.name);
        assert_eq!(inspected(&ferry.inspect(&there)), expected, "{}", case.name);

        ferry.convert(&there, &back, &["--to", "tf-bundle"]);
        let mut found = inspected(&ferry.inspect(&back));
        let graph = found.remove(OBJECT_GRAPH);
        assert_eq!(found, expected, "{}", case.name);
        let original = case.tensors(|name, _| name == OBJECT_GRAPH).remove(OBJECT_GRAPH);
        assert_eq!(graph.is_some(), original.is_some(), "{}", case.name);
        if foreign.is_empty() {
            assert_eq!(graph, original, "{}: nothing was to be pruned", case.name);
        }
    }
}

#[test]
fn each_scheme_of_names_finds_its_way_back() {
    let ferry = Ferry::new();
    let case = case("object_optimizer_slots");
    let keys: BTreeSet<String> =
        case.tensors(|name, tensor| name != OBJECT_GRAPH && tensor["dtype"] != "STR").into_keys().collect();
    assert_eq!(keys.len(), 13);
    let paths: BTreeSet<String> =
        keys.iter().map(|key| key.strip_suffix(VALUE).unwrap().to_owned()).collect();
    // Full names where they are unique; the list's, the dict's and the step's are all "Variable".
    let auto = [
        "b",
        "b/Adam",
        "b/Adam_1",
        "beta1_power",
        "beta2_power",
        "model/dct/k..e.Sy",
        "model/lst/0",
        "model/lst/1",
        "save_counter",
        "step",
        "w",
        "w/Adam",
        "w/Adam_1",
    ];
    let expected: BTreeSet<String> =
        case.tensors(|name, _| name != OBJECT_GRAPH && !name.starts_with("note/")).into_keys().collect();
    for (scheme, names) in [("key", keys), ("path", paths), ("auto", auto.map(str::to_owned).into())] {
        let folder = tempdir().unwrap();
        let [there, back] = ["there.safetensors", "back"].map(|name| folder.path().join(name));
        let options = ["-i", &format!("names={scheme}"), "-i", "state=all"];
        ferry.convert(&input(&case), &there, &options);
        let found = inspected(&ferry.inspect(&there));
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), names, "{scheme}");
        ferry.convert(&there, &back, &["--to", "tf-bundle"]);
        let mut back = inspected(&ferry.inspect(&back));
        assert!(back.remove(OBJECT_GRAPH).is_some(), "{scheme}");
        assert_eq!(back.keys().cloned().collect::<BTreeSet<_>>(), expected, "{scheme}");
        assert_eq!(contents(&back), contents(&found), "{scheme}");
    }
}

#[test]
fn full_names_that_collide_are_refused_by_name() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let (input, output) = (input(&case("object_optimizer_slots")), folder.path().join("out.safetensors"));
    let command =
        ["convert".as_ref(), input.as_os_str(), output.as_os_str(), "-i".as_ref(), "names=full".as_ref()];
    let outcome = ferry.run(command).says(&["Variable"]);
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    assert!(files_below(folder.path()).is_empty());
}

#[test]
fn optimizer_state_is_left_out_and_said() {
    let ferry = Ferry::new();
    let case = case("object_optimizer_slots");
    let folder = tempdir().unwrap();
    let output = folder.path().join("model.safetensors");
    let convert = |options: &[&str]| {
        let mut command = vec!["convert".as_ref(), OsStr::new("--json"), OsStr::new("--force")];
        let input = input(&case);
        command.extend([input.as_os_str(), output.as_os_str()]);
        command.extend(options.iter().map(OsStr::new));
        ferry.run(command)
    };
    let model = ["b", "model/dct/k..e.Sy", "model/lst/0", "model/lst/1", "save_counter", "step", "w"];
    let names = |path: &Path| inspected(&ferry.inspect(path)).into_keys().collect::<Vec<_>>();

    let report = convert(&[]).expect(0).json();
    let state: Vec<_> = losses(&report).iter().filter(|loss| loss["kind"] == "state").collect();
    assert_eq!(state.len(), 1, "one for each optimizer: {report}");
    let said = state[0].to_string();
    assert!(said.contains("optimizer") && said.contains('6') && said.contains("state=all"), "{said}");
    assert_eq!(names(&output), model);

    let report = convert(&["-i", "state=model"]).expect(0).json();
    assert!(lost(&report, "state").is_empty(), "what was asked for is no loss: {report}");
    assert_eq!(names(&output), model);

    let report = convert(&["-i", "state=all"]).expect(0).json();
    assert!(lost(&report, "state").is_empty(), "{report}");
    assert_eq!(names(&output).len(), 13);

    // The string is lost either way.
    convert(&["--strict", "--allow-loss", "tensor"]).expect(3).says(&["state", "optimizer"]);
    let _ = convert(&["--strict", "--allow-loss", "tensor", "-i", "state=model"]).expect(0);
}

#[test]
fn inspect_shows_full_name_and_path_beside_the_key() {
    let ferry = Ferry::new();
    let document = ferry.inspect(&input(&case("object_optimizer_slots")));
    let tensors = document["tensors"].as_array().unwrap();
    let tensor = tensors.iter().find(|tensor| tensor["name"] == format!("model/dct/k..e.Sy{VALUE}")).unwrap();
    let text = tensor.to_string();
    assert!(text.contains("\"Variable\"") && text.contains("\"model/dct/k..e.Sy\""), "{text}");
}

#[test]
fn inspect_shows_what_a_saved_model_offers() {
    let ferry = Ferry::new();
    for name in ["saved_model_pb", "saved_model_pbtxt"] {
        let input = input(&case(name));
        let outcome = ferry.run([OsStr::new("inspect"), input.as_ref()]).expect(0);
        let json = ferry.inspect(&input).to_string();
        for word in ["serve", "serving_default", "vocab.txt"] {
            assert!(outcome.stdout.contains(word), "no {word}: {outcome}");
            assert!(json.contains(word), "no {word}: {json}");
        }
        ferry
            .run(["inspect".as_ref(), input.as_os_str(), "-i".as_ref(), "tags=train".as_ref()])
            .expect(2)
            .says(&["serve", "train"]);
    }
}

#[test]
fn a_saved_model_gives_its_variables_and_says_what_stays_behind() {
    let ferry = Ferry::new();
    for name in ["saved_model_pb", "saved_model_pbtxt"] {
        let case = case(name);
        let folder = tempdir().unwrap();
        let output = folder.path().join("model.safetensors");
        let report = ferry.convert(&input(&case), &output, &["--json"]).json();
        // The full names are "kernel", "Variable" and "Variable"; of the last two one is a string.
        let found = inspected(&ferry.inspect(&output));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["b", "kernel"], "{name}");
        let expected =
            case.tensors(|_, tensor| ["F32", "BF16"].iter().any(|dtype| tensor["dtype"] == *dtype));
        assert_eq!(contents(&found), contents(&expected), "{name}");
        assert!(!lost(&report, "graph").is_empty(), "{name}: {report}");
        let tensors = lost(&report, "tensor");
        assert!(tensors.len() == 1 && tensors.iter().all(|what| what.contains("vocab")), "{name}: {report}");
    }
}

#[test]
fn constants_of_a_frozen_graph_arrive() {
    let ferry = Ferry::new();
    let case = case("frozen_graph");
    for door in doors(&case) {
        let folder = tempdir().unwrap();
        let output = folder.path().join("model.safetensors");
        let report = ferry.convert(&case.folder.join(&door), &output, &["--json"]).json();
        assert_eq!(inspected(&ferry.inspect(&output)), case.tensors(|_, _| true), "{door}");
        assert!(!lost(&report, "graph").is_empty(), "{door}: {report}");
    }
}

#[test]
fn a_meta_graph_beside_a_checkpoint_is_a_sidecar_at_most() {
    let ferry = Ferry::new();
    for name in ["saver_v2_plain", "saver_v1"] {
        let case = case(name);
        let folder = tempdir().unwrap();
        let output = folder.path().join("out");
        ferry.convert(&case.folder, &output, &["--to", "safetensors"]);
        let mut expected = case.tensors(|_, _| true);
        expected.retain(|_, (dtype, ..)| !is_foreign(dtype));
        assert_eq!(inspected(&ferry.inspect(&output)), expected, "{name}");
        assert!(output.join("model.ckpt-42.meta").exists(), "{name}: {:?}", names_in(&output));
        assert!(!output.join("checkpoint").exists(), "{name}: a state file that names what is not there");
    }
}

#[test]
fn a_folder_of_its_own_gets_a_state_file() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let case = case("saver_v2_plain");
    let output = folder.path().join("new/");
    ferry.convert(&input(&case), &output, &["--to", "tf-bundle"]);
    assert!(output.join("checkpoint").exists(), "{:?}", names_in(&output));
    assert_eq!(inspected(&ferry.inspect(&output)), case.tensors(|_, _| true));

    // In a folder that was there it is somebody else's, unless asked for.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    ferry.convert(&input(&case), &other.join("m"), &["--to", "tf-bundle"]);
    assert_eq!(names_in(&other), ["m.data-00000-of-00001", "m.index"]);
    ferry.convert(&input(&case), &other.join("n"), &["--to", "tf-bundle", "-o", "latest=true"]);
    assert_eq!(names_in(&other).len(), 5);
    assert!(std::fs::read_to_string(other.join("checkpoint")).unwrap().contains("\"n\""));
}

#[test]
fn shards_are_cut_as_asked() {
    let ferry = Ferry::new();
    let case = case("raw_all_dtypes");
    for (option, at_least) in [("shards=3", 3), ("max_shard_size=1KB", 4)] {
        let folder = tempdir().unwrap();
        let output = folder.path().join("out");
        ferry.convert(&input(&case), &output, &["--to", "tf-bundle", "-o", option, "--strict"]);
        let names = names_in(folder.path());
        let shards: Vec<_> = names.iter().filter(|name| name.contains(".data-")).collect();
        assert!(shards.len() >= at_least, "{option}: {names:?}");
        for (number, name) in shards.iter().enumerate() {
            assert_eq!(**name, format!("out.data-{number:05}-of-{:05}", shards.len()), "{option}");
        }
        assert_eq!(inspected(&ferry.inspect(&output)), case.tensors(|_, _| true), "{option}");
    }
}
