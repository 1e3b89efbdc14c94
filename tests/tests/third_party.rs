//! Formats that the workspace knows nothing of: built with the SDK alone, put into a plugin folder,
//! and converting to and from the built-in ones.
#![expect(clippy::unwrap_used, reason = "tests")]

mod outside;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::fixtures::{Facts, cases, inspected};
use tensorferry_tests::{Ferry, Outcome, python};

type Tensors = BTreeMap<String, Facts>;

fn ferry() -> Ferry {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("npy"));
    ferry.add_plugin(&outside::library("trial"));
    ferry.add_plugin(&outside::library("rows"));
    ferry
}

/// Runs one of the npy crate's scripts; gives the tensors that it prints.
fn numpy(script: &str, argument: &Path) -> Tensors {
    let script = outside::folder().join("npy/python").join(script);
    let outcome = python::script(script.to_str().unwrap(), [argument]);
    serde_json::from_value(outcome.json()).unwrap()
}

/// Arrays that numpy wrote, and what is in the archives.
fn arrays() -> (TempDir, Tensors) {
    let folder = tempdir().unwrap();
    let tensors = numpy("make_arrays.py", folder.path());
    assert_eq!(tensors.len(), 14 * 4 * 4 + 1);
    (folder, tensors)
}

fn convert(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> Outcome {
    let mut all = vec!["--verify", "--json"];
    all.extend(options);
    ferry.convert(input, output, &all)
}

/// The losses of a `convert --json`, as kind and thing.
fn losses(outcome: &Outcome) -> Vec<(String, String)> {
    let document = outcome.json();
    let text = |loss: &serde_json::Value, key: &str| loss[key].as_str().unwrap().to_owned();
    document["losses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|loss| (text(loss, "kind"), text(loss, "what")))
        .collect()
}

#[test]
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
    let (folder, index) = sample();
    let [archive, output] = ["a.npz", "b.npz"].map(|name| folder.path().join(name));
    ferry.convert(&index, &archive, &[]);
    let wrong_side = [
        "convert".as_ref(),
        archive.as_os_str(),
        output.as_os_str(),
        "-i".as_ref(),
        "compress=stored".as_ref(),
    ];
    ferry.run(wrong_side).expect(2).says(&["-o compress"]);
}

#[test]
fn numpy_and_ferry_see_the_same_arrays() {
    let (folder, expected) = arrays();
    let ferry = ferry();
    for name in ["all.npz", "compressed.npz"] {
        let input = folder.path().join(name);
        assert_eq!(inspected(&ferry.inspect(&input)), expected, "{name}");
        for compress in ["stored", "deflate"] {
            let output = folder.path().join(format!("{compress}.{name}"));
            convert(&ferry, &input, &output, &["-o", &format!("compress={compress}"), "--memory", "16MiB"]);
            assert_eq!(numpy("see_arrays.py", &output), expected, "{name} {compress}");
            assert!(ferry.equal(&input, &output), "{name} {compress}");
        }
    }
}

#[test]
fn an_array_is_written_as_numpy_writes_it() {
    let (folder, _) = arrays();
    let ferry = ferry();
    let cases = [
        ("plain.npy", ["order=c", "byte_order=little"]),
        ("fortran.npy", ["order=fortran", "byte_order=little"]),
        ("big.npy", ["order=c", "byte_order=big"]),
        ("fortran_big.npy", ["order=fortran", "byte_order=big"]),
    ];
    let written = folder.path().join("written");
    std::fs::create_dir(&written).unwrap();
    for name in ["plain.npy", "fortran_big.npy", "version_1.npy", "version_2.npy", "version_3.npy"] {
        let (input, output) = (folder.path().join(name), written.join(name));
        for (like, [order, byte_order]) in cases {
            let outcome = convert(&ferry, &input, &output, &["--force", "-o", order, "-o", byte_order]);
            assert_eq!(losses(&outcome), [], "{outcome}");
            let expected = std::fs::read(folder.path().join(like)).unwrap();
            assert!(std::fs::read(&output).unwrap() == expected, "{name} as {like}");
        }
    }
    // The file's name is the tensor's: another file is another name.
    let renamed = ferry.convert(&folder.path().join("plain.npy"), &written.join("renamed.npy"), &["--json"]);
    assert_eq!(losses(&renamed), [("name".to_owned(), "plain".to_owned())]);
    for (input, why) in [("objects.npy", "Python objects"), ("strings.npy", "strings")] {
        let output = folder.path().join("none.safetensors");
        let arguments = ["convert".into(), folder.path().join(input), output.clone()];
        ferry.run(arguments).expect(3).says(&[why, input]);
        assert!(!output.exists());
    }
    let several = ["convert".into(), folder.path().join("all.npz"), folder.path().join("none.npy")];
    ferry.run(several).expect(2).says(&[".npz"]);
}

/// There and back through each built-in format: what it holds is the same, the rest is a loss.
#[test]
fn archives_go_through_the_built_in_formats_and_back() {
    let (folder, expected) = arrays();
    let ferry = ferry();
    let input = folder.path().join("all.npz");
    for (between, lost) in [("between.safetensors", Some("C128")), ("between.pt", None)] {
        let between = folder.path().join(between);
        let outcome = convert(&ferry, &input, &between, &[]);
        let kept: Tensors = expected
            .iter()
            .filter(|(_, facts)| Some(&*facts.0) != lost)
            .map(|(n, f)| (n.clone(), f.clone()))
            .collect();
        let lost_count = losses(&outcome).iter().filter(|(kind, _)| kind == "tensor").count();
        assert_eq!(lost_count, expected.len() - kept.len(), "{outcome}");
        assert_eq!(inspected(&ferry.inspect(&between)), kept);
        assert_eq!(ferry.equal(&input, &between), lost.is_none());

        for compress in ["compress=stored", "compress=deflate"] {
            let back = folder.path().join(format!("back.{compress}.npz"));
            convert(&ferry, &between, &back, &["--force", "-o", compress]);
            assert_eq!(numpy("see_arrays.py", &back), kept, "{compress}");
            assert!(ferry.equal(&between, &back), "{compress}");
        }
    }
}

/// The sample of the trial format, copied to a folder of its own.
fn sample() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let from = outside::folder().join("trial/sample");
    let mut count = 0;
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        count += 1;
    }
    assert_eq!(count, 3);
    let index = folder.path().join("sample.trial");
    (folder, index)
}

#[test]
fn the_trial_format_comes_back_bit_for_bit() {
    let (folder, index) = sample();
    let ferry = ferry();
    let expected = inspected(&ferry.inspect(&index));
    assert_eq!(expected.len(), 10);
    assert_eq!(expected["quantized"].0, "Q4_0");
    let ways: [&[&str]; 5] = [
        &["data=grid"],
        &["data=grid", "pieces=3", "files=3"],
        &["data=carry", "files=4"],
        &["data=encode"],
        &["data=encode", "chunk=1", "files=5"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let output = folder.path().join(format!("out{number}.trial"));
        let options: Vec<&str> = way.iter().flat_map(|option| ["-o", option]).collect();
        let outcome = convert(&ferry, &index, &output, &options);
        assert_eq!(losses(&outcome), [], "{way:?}");
        assert_eq!(inspected(&ferry.inspect(&output)), expected, "{way:?}");
        assert!(ferry.equal(&index, &output), "{way:?}");
        // And from there on: what the host's copy wrote is what it reads.
        let again = folder.path().join(format!("again{number}.trial"));
        convert(&ferry, &output, &again, &["-o", "data=carry"]);
        assert!(ferry.equal(&index, &again), "{way:?}");
    }
}

#[test]
fn the_trial_format_goes_through_the_built_in_ones() {
    let (folder, index) = sample();
    let ferry = ferry();
    let expected = inspected(&ferry.inspect(&index));
    for between in ["between.safetensors", "between.pt", "between.npz"] {
        let between = folder.path().join(between);
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
        assert_eq!(inspected(&ferry.inspect(&between)), kept);
        for data in ["data=grid", "data=carry", "data=encode"] {
            let back = folder.path().join("back.trial");
            convert(&ferry, &between, &back, &["--force", "-o", data]);
            assert_eq!(inspected(&ferry.inspect(&back)), kept, "{data}");
            assert!(ferry.equal(&between, &back), "{data}");
        }
    }
    let strict = folder.path().join("strict.safetensors");
    let arguments = ["convert".as_ref(), index.as_os_str(), strict.as_os_str(), "--strict".as_ref()];
    ferry.run(arguments).expect(3).says(&["quantized"]);
    assert!(!strict.exists());
}

#[test]
fn damaged_data_of_an_outside_format_exits_3_and_leaves_nothing() {
    let (folder, index) = sample();
    let ferry = ferry();
    for (name, place) in [("sample.trial", 40), ("sample.trial.0", 20), ("sample.trial.1", 50)] {
        let path = folder.path().join(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[place] ^= 1;
        std::fs::write(&path, bad).unwrap();
        let output = folder.path().join("out.pt");
        ferry
            .run(["convert".as_ref(), index.as_os_str(), output.as_os_str()])
            .expect(3)
            .says(&["crc32c", "is wrong", name]);
        assert!(!output.exists());
        std::fs::write(&path, good).unwrap();
    }
}

#[test]
fn records_go_through_an_outside_format_and_back() {
    let ferry = ferry();
    let folder = tempdir().unwrap();
    let mut count = 0;
    for name in ["example_plain", "example_gzip", "sharded"] {
        let input = cases("tfrecord", name).remove(0).input();
        let [rows, back] = ["rows", "tfrecord"].map(|suffix| folder.path().join(format!("{name}.{suffix}")));
        let small = ["-o", "piece=3"];
        assert_eq!(losses(&convert(&ferry, &input, &rows, &small)), [], "{name}");
        let outcome = convert(&ferry, &rows, &back, &["-i", "split=2"]);
        assert_eq!(losses(&outcome), [], "{name}");
        let cat = |path: &Path| ferry.run(["cat".as_ref(), path.as_os_str()]).expect(0).stdout;
        assert_eq!(cat(&back), cat(&input), "{name}");
        count += cat(&back).lines().count();
        let diff = ferry.run(["diff".as_ref(), input.as_os_str(), rows.as_os_str()]).expect(0);
        assert!(diff.stdout.starts_with("equal: "), "{diff}");
        let seen = |path: &Path| {
            ferry.run(["inspect".as_ref(), path.as_os_str(), "--json".as_ref()]).expect(0).json()
        };
        let (there, here) = (seen(&rows), seen(&input));
        assert_eq!((&there["format"], &there["schema"]), (&"rows".into(), &here["schema"]), "{name}");
    }
    assert_eq!(count, 60);
    let cut = folder.path().join("cut.rows");
    let whole = std::fs::read(folder.path().join("sharded.rows")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let output = folder.path().join("cut.tfrecord");
    ferry
        .run(["convert".as_ref(), cut.as_os_str(), output.as_os_str()])
        .expect(3)
        .says(&["cut.rows", "ends too early"]);
    assert!(!output.exists());
}
