//! Formats that the workspace knows nothing of: built with the SDK alone, put into a plugin folder,
//! and converting to and from the built-in ones.

use crate::outside;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tensorferry_tests::files::names_in;
use tensorferry_tests::fixtures::Facts;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::{Ferry, Outcome, args, python, seen};

type Tensors = BTreeMap<String, Facts>;

fn ferry() -> Ferry {
    let ferry = Ferry::new();
    ["npy", "trial", "rows"].iter().for_each(|name| ferry.add_plugin(&outside::library(name)));
    ferry
}

/// Runs one of the npy crate's scripts; gives the tensors that it prints.
fn numpy(script: &str, argument: &Path) -> Tensors {
    let script = outside::folder().join("npy/python").join(script);
    let outcome = python::script(script.to_str().unwrap(), [argument]);
    serde_json::from_value(outcome.json()).unwrap()
}

/// Arrays that numpy wrote, and what is in the archives.
fn arrays(ferry: &Ferry) -> Tensors {
    let tensors = numpy("make_arrays.py", ferry.home());
    assert_eq!(tensors.len(), 14 * 4 * 4 + 1);
    tensors
}

/// The plugin's formats are named where their endings are those of the built-in `numpy` too.
fn plugins_formats<'a>(input: &'a Path, output: &'a Path) -> Vec<&'a str> {
    let flags = [("--from", input), ("--to", output)].into_iter();
    let ending = |path: &'a Path| path.extension()?.to_str().filter(|ending| ["npy", "npz"].contains(ending));
    flags.filter_map(|(flag, path)| Some([flag, ending(path)?])).flatten().collect()
}

fn convert(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> Outcome {
    let mut all = [&["--verify", "--json"][..], &plugins_formats(input, output)].concat();
    all.extend(options);
    ferry.convert(input, output, &all)
}

/// The losses of a `convert --json`, as kind and thing.
fn losses(outcome: &Outcome) -> Vec<(String, String)> {
    let text = |loss: &Value, key: &str| loss[key].as_str().unwrap().to_owned();
    let document = outcome.json();
    seen::losses(&document).iter().map(|loss| (text(loss, "kind"), text(loss, "what"))).collect()
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn outside_formats_are_listed_with_their_options() {
    let ferry = ferry();
    let listed = ferry.run(["formats", "--json"]).expect(0);
    for word in ["npy", "npz", "trial", ".npz", "byte_order", "fortran", "ferry-plugin-npy"] {
        assert!(listed.stdout.contains(word), "no {word:?} in {listed}");
    }
    assert!(listed.json().is_array() || listed.json().is_object());
    let found = ferry.run(["plugin", "list"]).expect(0);
    assert!(
        found.stdout.contains("ferry-plugin-npy") && found.stdout.contains("ferry-plugin-trial"),
        "{found}"
    );
    let index = sample(&ferry);
    let [archive, output] = ferry.paths(["a.npz", "b.npz"]);
    ferry.convert(&index, &archive, &["--to", "npz"]);
    let options = [&["-i", "compress=stored"][..], &plugins_formats(&archive, &output)].concat();
    ferry.try_convert(&archive, &output, &options).expect(2).says(&["-o compress"]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn numpy_and_ferry_see_the_same_arrays() {
    let ferry = ferry();
    let expected = arrays(&ferry);
    for name in ["all.npz", "compressed.npz"] {
        let input = ferry.at(name);
        assert_eq!(ferry.tensors(&input), expected, "{name}");
        for compress in ["stored", "deflate"] {
            let output = ferry.at(format!("{compress}.{name}"));
            convert(&ferry, &input, &output, &["-o", &format!("compress={compress}"), "--memory", "16MiB"]);
            assert_eq!(numpy("see_arrays.py", &output), expected, "{name} {compress}");
            assert!(ferry.equal(&input, &output), "{name} {compress}");
        }
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn an_array_is_written_as_numpy_writes_it() {
    let ferry = ferry();
    let _ = arrays(&ferry);
    let cases = [
        ("plain.npy", ["order=c", "byte_order=little"]),
        ("fortran.npy", ["order=fortran", "byte_order=little"]),
        ("big.npy", ["order=c", "byte_order=big"]),
        ("fortran_big.npy", ["order=fortran", "byte_order=big"]),
    ];
    let written = ferry.at("written");
    std::fs::create_dir(&written).unwrap();
    for name in ["plain.npy", "fortran_big.npy", "version_1.npy", "version_2.npy", "version_3.npy"] {
        let (input, output) = (ferry.at(name), written.join(name));
        for (like, [order, byte_order]) in cases {
            let outcome = convert(&ferry, &input, &output, &["--force", "-o", order, "-o", byte_order]);
            assert_eq!(losses(&outcome), [], "{outcome}");
            let expected = std::fs::read(ferry.at(like)).unwrap();
            assert!(std::fs::read(&output).unwrap() == expected, "{name} as {like}");
        }
    }
    // The file's name is the tensor's: another file is another name.
    let renamed = convert(&ferry, &ferry.at("plain.npy"), &written.join("renamed.npy"), &[]);
    assert_eq!(losses(&renamed), [("name".to_owned(), "plain".to_owned())]);
    for (input, why) in [("objects.npy", "Python objects"), ("strings.npy", "strings")] {
        let output = ferry.at("none.safetensors");
        ferry.try_convert(&ferry.at(input), &output, &["--from", "npy"]).expect(3).says(&[why, input]);
        assert!(!output.exists());
    }
    let (several, one) = (ferry.at("all.npz"), ferry.at("none.npy"));
    ferry.try_convert(&several, &one, &plugins_formats(&several, &one)).expect(2).says(&[".npz"]);
}

/// There and back through each built-in format: what it holds is the same, the rest is a loss.
#[test]
#[ignore = "builds crates out of the workspace"]
fn archives_go_through_the_built_in_formats_and_back() {
    let ferry = ferry();
    let expected = arrays(&ferry);
    let input = ferry.at("all.npz");
    for (between, lost) in [("between.safetensors", Some("C128")), ("between.pt", None)] {
        let between = ferry.at(between);
        let outcome = convert(&ferry, &input, &between, &[]);
        let kept: Tensors = expected
            .iter()
            .filter(|(_, facts)| Some(&*facts.0) != lost)
            .map(|(n, f)| (n.clone(), f.clone()))
            .collect();
        let lost_count = losses(&outcome).iter().filter(|(kind, _)| kind == "tensor").count();
        assert_eq!(lost_count, expected.len() - kept.len(), "{outcome}");
        assert_eq!(ferry.tensors(&between), kept);
        assert_eq!(ferry.equal(&input, &between), lost.is_none());

        for compress in ["compress=stored", "compress=deflate"] {
            let back = ferry.at(format!("back.{compress}.npz"));
            convert(&ferry, &between, &back, &["--force", "-o", compress]);
            assert_eq!(numpy("see_arrays.py", &back), kept, "{compress}");
            assert!(ferry.equal(&between, &back), "{compress}");
        }
    }
}

/// The sample of the trial format, copied to a folder of its own.
fn sample(ferry: &Ferry) -> PathBuf {
    let from = outside::folder().join("trial/sample");
    let names = names_in(&from);
    assert_eq!(names.len(), 3);
    for name in names {
        std::fs::copy(from.join(&name), ferry.at(&name)).unwrap();
    }
    ferry.at("sample.trial")
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_trial_format_comes_back_bit_for_bit() {
    let ferry = ferry();
    let index = sample(&ferry);
    let expected = ferry.tensors(&index);
    assert_eq!(expected.len(), 12);
    assert_eq!(expected["quantized"].0, "Q4_0");
    let values = |path: &Path| {
        let seen = ferry.inspect(path);
        let tensors = seen["tensors"].as_array().unwrap().iter();
        let attributes: BTreeMap<String, Value> =
            tensors.map(|tensor| (tensor["name"].to_string(), tensor["attributes"].clone())).collect();
        (seen["metadata"].clone(), attributes)
    };
    let (metadata, attributes) = values(&index);
    assert_eq!(metadata["step"], u64::MAX);
    assert_eq!(metadata["training"]["rates"], serde_json::json!([0.1, 2.5]));
    assert_eq!(attributes["\"grid\""], serde_json::json!({"units": ["mm", "s"]}));
    let ways: [&[&str]; 7] = [
        &["data=grid"],
        &["data=grid", "pieces=3", "files=3"],
        &["data=carry", "files=4"],
        &["data=encode"],
        &["data=encode", "chunk=1", "files=5"],
        &["data=tiles", "files=1"],
        &["data=tiles", "pieces=3", "files=3"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let output = ferry.at(format!("out{number}.trial"));
        let options: Vec<&str> = way.iter().flat_map(|option| ["-o", option]).collect();
        let outcome = convert(&ferry, &index, &output, &options);
        assert_eq!(losses(&outcome), [], "{way:?}");
        assert_eq!(ferry.tensors(&output), expected, "{way:?}");
        assert!(ferry.equal(&index, &output), "{way:?}");
        assert_eq!(values(&output), (metadata.clone(), attributes.clone()), "{way:?}");
        // And from there on: what the host's copy wrote is what it reads.
        let again = ferry.at(format!("again{number}.trial"));
        convert(&ferry, &output, &again, &["-o", "data=carry"]);
        assert!(ferry.equal(&index, &again), "{way:?}");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_trial_format_goes_through_the_built_in_ones() {
    let ferry = ferry();
    let index = sample(&ferry);
    let expected = ferry.tensors(&index);
    // Typed metadata is JSON where there is nothing but text, and a format without attributes loses them.
    let texts = ferry.at("texts.safetensors");
    let outcome = convert(&ferry, &index, &texts, &[]);
    let found = losses(&outcome);
    for loss in [("metadata", "step"), ("metadata", "training"), ("attribute", "grid: units")] {
        assert!(found.contains(&(loss.0.to_owned(), loss.1.to_owned())), "{loss:?} in {outcome}");
    }
    let metadata = &ferry.inspect(&texts)["metadata"];
    assert_eq!(metadata["training"], r#"{"step":18446744073709551615,"rates":[0.1,2.5]}"#);
    assert_eq!(metadata["made by"], "hand");
    for between in ["between.safetensors", "between.pt", "between.npz"] {
        let between = ferry.at(between);
        let outcome = convert(&ferry, &index, &between, &[]);
        let lost: Vec<String> =
            losses(&outcome).into_iter().filter(|(kind, _)| kind == "tensor").map(|(_, what)| what).collect();
        assert_eq!(lost.iter().filter(|name| *name == "quantized").count(), 1, "{outcome}");
        let kept: Tensors = expected
            .iter()
            .filter(|(name, _)| !lost.contains(name))
            .map(|(n, f)| (n.clone(), f.clone()))
            .collect();
        assert!(kept.len() >= 8, "{outcome}");
        assert_eq!(ferry.tensors(&between), kept);
        for data in ["data=grid", "data=carry", "data=encode", "data=tiles"] {
            let back = ferry.at("back.trial");
            convert(&ferry, &between, &back, &["--force", "-o", data]);
            assert_eq!(ferry.tensors(&back), kept, "{data}");
            assert!(ferry.equal(&between, &back), "{data}");
        }
    }
    let strict = ferry.at("strict.safetensors");
    // Of the seven, the entry that comes back with its type is a note, which is not refused.
    ferry.run(args!["convert", index, strict, "--strict"]).expect(3).says(&["grid: units", "5 more"]);
    assert!(!strict.exists());
}

/// A plugin asks how much memory the run has, and holds no part of a tensor that is too long for it.
#[test]
#[ignore = "builds crates out of the workspace"]
fn what_a_plugin_holds_whole_fits_the_memory_of_the_run() {
    let ferry = ferry();
    let input = ferry.safetensors("long.safetensors", &[("a", "U8", &[1, 1 << 20], &vec![7; 1 << 20])]);
    for (way, fits) in [("data=encode", "chunk=1"), ("data=tiles", "pieces=1")] {
        let output = ferry.at(format!("{way}.trial"));
        let options = ["--threads", "2", "-o", way, "-o", fits];
        let tight = [&options[..], &["--bound", "memory_bytes=4MiB"]].concat();
        ferry.try_convert(&input, &output, &tight).expect(3).says(&[
            "too long for memory",
            "raise --memory",
            "expected at most 524288 bytes",
            "found 1048576",
        ]);
        assert!(!output.exists());
        ferry.convert(&input, &output, &[&options[..], &["--verify"]].concat());
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn damaged_data_of_an_outside_format_exits_3_and_leaves_nothing() {
    let ferry = ferry();
    let index = sample(&ferry);
    for (name, place) in [("sample.trial", 40), ("sample.trial.0", 20), ("sample.trial.1", 50)] {
        let path = ferry.at(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[place] ^= 1;
        std::fs::write(&path, bad).unwrap();
        let output = ferry.at("out.pt");
        ferry.run(args!["convert", index, output]).expect(3).says(&["crc32c", "is wrong", name]);
        assert!(!output.exists());
        std::fs::write(&path, good).unwrap();
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn records_go_through_an_outside_format_and_back() {
    let ferry = ferry();
    let mut count = 0;
    for name in ["example_plain", "example_gzip", "sharded"] {
        let input = cases("tfrecord", name).remove(0).input();
        let [rows, back] = ["rows", "tfrecord"].map(|suffix| ferry.at(format!("{name}.{suffix}")));
        let small = ["-o", "piece=3"];
        assert_eq!(losses(&convert(&ferry, &input, &rows, &small)), [], "{name}");
        let outcome = convert(&ferry, &rows, &back, &["-i", "split=2"]);
        assert_eq!(losses(&outcome), [], "{name}");
        let cat = |path: &Path| ferry.run(args!["cat", path]).expect(0).stdout;
        assert_eq!(cat(&back), cat(&input), "{name}");
        count += cat(&back).lines().count();
        let diff = ferry.run(args!["diff", input, rows]).expect(0);
        assert!(diff.stdout.starts_with("equal: "), "{diff}");
        let seen = |path: &Path| ferry.run(args!["inspect", path, "--json"]).expect(0).json();
        let (there, here) = (seen(&rows), seen(&input));
        assert_eq!((&there["format"], &there["schema"]), (&"rows".into(), &here["schema"]), "{name}");
    }
    assert_eq!(count, 60);
    let cut = ferry.at("cut.rows");
    let whole = std::fs::read(ferry.at("sharded.rows")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let output = ferry.at("cut.tfrecord");
    ferry.run(args!["convert", cut, output]).expect(3).says(&["cut.rows", "ends too early"]);
    assert!(!output.exists());
}
