//! Tests of formats outside the workspace, which are built only with the SDK and put into a plugin
//! folder. They must convert to and from the built-in formats. Some of ferry's own formats are also
//! tested as separate libraries.

use crate::outside;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::{files_below, names_in};
use tensorferry_tests::fixtures::{Facts, case, cases};
use tensorferry_tests::workspace::workspace;
use tensorferry_tests::{Ferry, Outcome, args, seen};

type Tensors = BTreeMap<String, Facts>;

fn ferry() -> Ferry {
    let ferry = Ferry::new();
    ["trial", "rows"].iter().for_each(|name| ferry.add_plugin(&outside::library(name)));
    ferry
}

fn convert(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> Outcome {
    ferry.convert(input, output, &[&["--verify", "--json"][..], options].concat())
}

/// Returns the kind and subject of each loss in the output of `convert --json`.
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
    for word in ["trial", ".trial", "pieces", "tiles", "ferry-plugin-trial", "rows"] {
        assert!(listed.stdout.contains(word), "{word:?} is not in {listed}");
    }
    assert!(listed.json().is_array() || listed.json().is_object());
    let found = ferry.run(["plugin", "list"]).expect(0);
    assert!(
        found.stdout.contains("ferry-plugin-rows") && found.stdout.contains("ferry-plugin-trial"),
        "{found}"
    );
    let index = sample(&ferry);
    let output = ferry.at("out.trial");
    ferry.try_convert(&index, &output, &["-i", "data=grid"]).expect(2).says(&["-o data"]);
}

/// Copies the sample of the trial format to a separate folder.
fn sample(ferry: &Ferry) -> PathBuf {
    let from = outside::sample();
    let from = from.parent().unwrap();
    let names = names_in(from);
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
        // The format can also read files that the host wrote by copying bytes.
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
    // In formats that support only text metadata, typed metadata becomes JSON. In formats without
    // attributes, attributes are lost.
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
    // Two of the seven losses are only notes: a type that is restored, and a copy of a tied tensor.
    // `--strict` does not reject them.
    ferry.run(args!["convert", index, strict, "--strict"]).expect(3).says(&["grid: units", "4 more"]);
    assert!(!strict.exists());
}

/// Tests that a plugin can query the memory limit of the run, and does not load parts of a tensor
/// that exceed the limit.
#[test]
#[ignore = "builds crates out of the workspace"]
fn what_a_plugin_holds_whole_fits_the_memory_of_the_run() {
    let ferry = ferry();
    let input = ferry.safetensors("long.safetensors", &[("a", "U8", &[1, 1 << 20], &vec![7; 1 << 20])]);
    for (way, fits) in [("data=encode", "chunk=1"), ("data=tiles", "pieces=1")] {
        let output = ferry.at(format!("{way}.trial"));
        let options = ["--threads", "2", "-o", way, "-o", fits];
        let tight = [&options[..], &["--limit", "memory_bytes=4MiB"]].concat();
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

#[test]
#[ignore = "builds crates again"]
fn a_format_of_ferrys_own_ships_as_a_library_of_its_own() {
    let crates = ["safetensors", "tf-bundle", "tfrecord", "torch"];
    let ferry = Ferry::with_plugins(&crates.map(outside::of_format));
    // The program is copied to a folder without the library of all formats.
    let program = ferry.write("program/ferry", std::fs::read(&workspace().program).unwrap());
    std::fs::set_permissions(&program, workspace().program.metadata().unwrap().permissions()).unwrap();
    let alone = |arguments: &[&OsStr]| {
        let mut command = Command::new(&program);
        command.arg("--plugin-dir").arg(ferry.plugin_folder()).env("HOME", ferry.home());
        for variable in ["FERRY_PLUGIN_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        run(command.args(arguments)).expect(0)
    };
    let names = crates.map(|name| format!("tensorferry-{name} "));
    alone(&args!["plugin", "list"]).prints(&names.each_ref().map(String::as_str));
    let formats = alone(&args!["formats", "--json"]).json();
    let ids: BTreeSet<&str> =
        formats["formats"].as_array().unwrap().iter().map(|format| format["id"].as_str().unwrap()).collect();
    let expected = ["safetensors", "saved-model", "tf-bundle", "tf-graph", "tfrecord", "torch"];
    assert_eq!(ids, BTreeSet::from(expected));

    let [torch, records] =
        [case("torch", "zip_views").input(), cases("tfrecord", "sharded").remove(0).input()];
    let way = |folder: &Path, convert: &dyn Fn(&[&OsStr])| {
        std::fs::create_dir(folder).unwrap();
        let [weights, bundle, back, rows, columns] =
            ["a.safetensors", "bundle", "back.pt", "rows.tfrecord", "columns.safetensors"]
                .map(|name| folder.join(name));
        convert(&args!["convert", torch, weights]);
        convert(&args!["convert", weights, bundle, "--to", "tf-bundle"]);
        convert(&args!["convert", bundle, back]);
        convert(&args!["convert", records, rows]);
        convert(&args!["convert", rows, columns, "--step", "tensors:column,strings=bytes"]);
        let read = |file: PathBuf| (std::fs::read(folder.join(&file)).unwrap(), file);
        files_below(folder).into_iter().map(read).collect::<Vec<_>>()
    };
    let apart = way(&ferry.at("apart"), &|arguments| drop(alone(arguments)));
    let together = way(&ferry.at("together"), &|arguments| drop(ferry.run(arguments).expect(0)));
    assert!(apart.len() >= 6 && apart == together);
}
