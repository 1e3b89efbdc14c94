//! Tests of generated files of `torch.save`, `torch.jit.save` and `torch.export.save`. `ferry` must
//! read the same contents as torch, and torch must load the output of `ferry`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_tests::fixtures::{Facts, inspected};
use tensorferry_tests::seen::{Seen, inspect, lost};
use tensorferry_tests::workspace::root;
use tensorferry_tests::{Ferry, args, json, python};

/// Returns a folder with the files that a script wrote, and the output of the script.
fn made_by(script: &str) -> (Ferry, Value) {
    let ferry = Ferry::new();
    let printed = python::script(script, [ferry.home()]).json();
    (ferry, printed)
}

/// Like [`made_by`], but for a script that writes the files of the plugin's own tests and describes
/// their contents.
fn made_by_plugin(set: &str) -> (Ferry, Value) {
    let script = root().join("plugins/torch/tests").join(set).join("make.py");
    let ferry = Ferry::new();
    python::script(script.to_str().unwrap(), [ferry.home()]);
    let expected = json::read(&ferry.at("expected.json"));
    (ferry, expected)
}

/// Returns a file's tensors from the description that a script printed.
fn described(tensors: &Value) -> BTreeMap<String, Facts> {
    let tensors = tensors.as_object().unwrap().iter();
    let fact = |fact: &Value| {
        let text = |key: &str| fact[key].as_str().unwrap().to_owned();
        (text("dtype"), serde_json::from_value(fact["shape"].clone()).unwrap(), text("sha256"))
    };
    tensors.map(|(name, facts)| (name.clone(), fact(facts))).collect()
}

fn cases(printed: &Value) -> Vec<(&String, &Value)> {
    printed.as_object().unwrap().iter().collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_whole_module_is_its_state_dict() {
    let (ferry, printed) = made_by("torch_modules.py");
    let mut seen = 0;
    for (case, truth) in cases(&printed) {
        let truth = Seen::printed(truth);
        let [input, back, flat] =
            ["pt", "back.pt", "safetensors"].map(|end| ferry.at(format!("{case}.{end}")));
        assert_eq!(Seen::by_ferry(&ferry, &input, &[]), truth, "{case}");
        ferry.convert(&input, &back, &["--verify"]);
        assert_eq!(Seen::by_framework(&back), truth, "{case}");
        if case == "two" {
            ferry.run(args!["convert", input, flat]).expect(2).says(&["--part d", "--part g"]);
            continue;
        }
        ferry.convert(&input, &flat, &["--verify"]);
        let names = truth.tensors.into_iter();
        let own: BTreeMap<String, Facts> =
            names.map(|(name, facts)| (name.trim_start_matches("net.").to_owned(), facts)).collect();
        assert_eq!(Seen::by_framework(&flat).tensors, own, "{case}");
        seen += 1;
    }
    assert_eq!(seen, 13);
    // The tensors are in the modules' order, and the modules can load them.
    python::script("torch_modules.py", args![ferry.home(), "--check"]);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn tensors_that_are_more_than_elements_are_read_as_torch_has_them() {
    let (ferry, expected) = made_by_plugin("values");
    let mut read = 0;
    for (file, by_options) in cases(&expected) {
        for (options, truth) in cases(by_options) {
            let options: Vec<&str> = [options.as_str()].into_iter().filter(|o| !o.is_empty()).collect();
            let truth = described(truth);
            let input = ferry.at(file);
            let document = inspect(&ferry, &input, &options).expect(0).json();
            let mut found = inspected(&document);
            let values = |name: &str| name.strip_suffix(".shape").map(|of| format!("{of}.values"));
            found.retain(|name, _| values(name).is_none_or(|values| !truth.contains_key(&values)));
            assert_eq!(found, truth, "{file} {options:?}");
            read += truth.len();
            if file == "classes.pt" {
                let without_data = BTreeSet::from(["meta", "wrapper"].map(str::to_owned));
                assert_eq!(lost(&document, "tensor"), without_data);
            }
            // If the case has an option, the tensors can also become plain tensors.
            if let [option] = &*options {
                let (flat, back) = (input.with_extension("safetensors"), input.with_extension("back.pt"));
                ferry.convert(&input, &flat, &["-i", option, "--verify"]);
                assert_eq!(Seen::by_framework(&flat).tensors, truth, "{file} {option}");
                ferry.convert(&input, &back, &["-i", option, "--verify"]);
                assert_eq!(Seen::by_framework(&back).tensors, truth, "{file} {option}");
            }
        }
    }
    assert_eq!(read, 388);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn quantized_and_sparse_tensors_come_back_as_what_they_were() {
    let (ferry, _) = made_by_plugin("values");
    // A tensor whose packed elements do not fill whole bytes cannot be stored. Each such tensor is
    // reported as a loss, and None is stored instead.
    for (file, gone) in [("quantized.pt", &["quint2x4.3x3", "quint4x2.3x3"][..]), ("sparse.pt", &[])] {
        let input = ferry.at(file);
        let said: BTreeSet<String> = gone.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(lost(&inspect(&ferry, &input, &[]).expect(0).json(), "tensor"), said, "{file}");
        let copy = input.with_extension("copy.pt");
        ferry.convert(&input, &copy, &["--strict", "--allow-loss", "tensor", "--verify"]);
        let files = args![input, copy];
        python::script("same_composed.py", files.into_iter().chain(gone.iter().map(OsStr::new)));
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn programs_give_their_tensors() {
    let (ferry, expected) = made_by_plugin("files");
    let mut read = 0;
    for (file, truth) in cases(&expected) {
        let input = ferry.at(file);
        let truth = described(truth);
        let document = inspect(&ferry, &input, &[]).expect(0).json();
        assert_eq!(inspected(&document), truth, "{file}");
        assert_eq!(lost(&document, "graph").is_empty(), file == "tar.pt", "{file}: the program");
        let flat = input.with_extension("safetensors");
        ferry.convert(&input, &flat, &["--part", ".", "--verify"]);
        assert_eq!(Seen::by_framework(&flat).tensors, truth, "{file}");
        read += 1;
    }
    assert_eq!(read, 4);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_state_is_the_same_in_every_container_and_protocol() {
    let (ferry, printed) = made_by("torch_containers.py");
    let mut content = BTreeSet::new();
    for (file, truth) in cases(&printed) {
        let input = ferry.at(file);
        let truth = Seen::printed(truth);
        assert_eq!(Seen::by_ferry(&ferry, &input, &[]), truth, "{file}");
        let flat = input.with_extension("safetensors");
        ferry.convert(&input, &flat, &["--part", ".", "--verify"]);
        assert_eq!(Seen::by_framework(&flat).tensors, truth.tensors, "{file}");
        for (format, copy) in ["zip", "legacy"].map(|format| (format, copy_of(&input, format))) {
            let said = ferry.convert(&input, &copy, &["-o", &format!("format={format}"), "--verify"]);
            assert_eq!(Seen::by_ferry(&ferry, &copy, &[]), truth, "{file} as {format}");
            assert_eq!(said.stderr.contains("cannot be memory-mapped"), format == "legacy", "{said}");
            content.insert(fs::read(&copy).unwrap());
        }
    }
    assert_eq!(cases(&printed).len(), 9);
    assert_eq!(content.len(), 2, "the same state yields the same file from any source");
}

fn copy_of(input: &Path, format: &str) -> PathBuf {
    // An archive's root folder is named after the file, so bytes can be compared only if the file
    // names are the same.
    let folder = input.with_extension(format);
    fs::create_dir(&folder).unwrap();
    folder.join("copy.pt")
}
