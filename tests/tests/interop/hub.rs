//! Tests of model folders of the Hugging Face libraries. transformers must load ferry's conversions
//! of its folders, and all other files must be copied along with the model.

use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use tensorferry_tests::files::paths_below;
use tensorferry_tests::fixtures::inspected;
use tensorferry_tests::seen::{Seen, inspect};
use tensorferry_tests::{Ferry, python, seen};

fn is_weights(name: &str) -> bool {
    [".safetensors", ".bin", ".index.json", ".index.fp16.json"].iter().any(|ending| name.ends_with(ending))
}

/// Checks that all files except the weights are the same in the two folders.
fn assert_rest_is_carried(from: &Path, to: &Path) {
    let rest = |folder| -> BTreeSet<String> {
        paths_below(folder).into_iter().filter(|name| !is_weights(name)).collect()
    };
    assert_eq!(rest(from), rest(to), "{}", to.display());
    for name in rest(from) {
        assert_eq!(fs::read(from.join(&name)).unwrap(), fs::read(to.join(&name)).unwrap(), "{name}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn transformers_loads_what_is_made_of_what_it_saved() {
    let ferry = Ferry::new();
    let printed = python::script("hub_models.py", [ferry.home()]).json();
    let printed = printed.as_object().unwrap();
    for target in ["safetensors", "torch"] {
        let mut command = vec![OsString::from(ferry.home()), "--check".into()];
        for (case, truth) in printed {
            let (input, output) = (ferry.at(case), ferry.at(format!("{case}.out")));
            let truth = seen::tensors(&truth["tensors"]);
            assert_eq!(inspected(&inspect(&ferry, &input, &[]).expect(0).json()), truth, "{case}");
            let mut options = vec!["--to", target, "--verify", "--force"];
            if case.contains("sharded") {
                options.extend(["-o", "max_shard_size=9KB"]);
            }
            // The index determines which files are loaded, regardless of their names.
            if case.starts_with("gpt2") {
                options.extend(["-o", "shard_tag=r0123abcd"]);
            }
            let said = ferry.convert(&input, &output, &options);
            assert!(!said.stderr.contains("not part of it"), "{case}: {said}");
            assert_eq!(inspected(&inspect(&ferry, &output, &[]).expect(0).json()), truth, "{case}");
            assert_rest_is_carried(&input, &output);
            assert_eq!(
                weights(&output).len() > 1,
                case.contains("sharded"),
                "{case}: {:?}",
                weights(&output)
            );
            command.push(case.into());
        }
        assert_eq!(command.len(), 14);
        python::script("hub_models.py", command);
        for case in printed.keys() {
            fs::remove_dir_all(ferry.at(format!("{case}.out"))).unwrap();
        }
    }
}

fn weights(folder: &Path) -> Vec<String> {
    paths_below(folder).into_iter().filter(|name| is_weights(name)).collect()
}

/// Tests that an index with any name is checked against its files.
#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn an_index_of_a_variant_is_one() {
    let ferry = Ferry::new();
    python::script("hub_models.py", [ferry.home()]);
    for (case, index) in [
        ("bert-safetensors-sharded-variant", "model.safetensors.index.fp16.json"),
        ("bert-torch-sharded-variant", "pytorch_model.bin.index.fp16.json"),
        ("bert-torch-sharded", "pytorch_model.bin.index.json"),
        ("bert-safetensors-sharded", "model.safetensors.index.json"),
    ] {
        let path = ferry.at(case).join(index);
        let text = fs::read_to_string(&path).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let whole = inspect(&ferry, &path, &[]).expect(0).json();
        assert!(whole["tensors"].as_array().unwrap().len() > 20, "{case}");
        let map = value["weight_map"].as_object_mut().unwrap();
        let (name, shard) = map.iter().next().map(|(name, shard)| (name.clone(), shard.clone())).unwrap();
        map.remove(&name);
        fs::write(&path, value.to_string()).unwrap();
        // The index determines which tensors are read.
        for input in [&*path, path.parent().unwrap()] {
            let document = inspect(&ferry, input, &[]).expect(0).json();
            assert_eq!(seen::lost(&document, "tensor"), BTreeSet::from([name.clone()]), "{case}");
        }
        let map = value["weight_map"].as_object_mut().unwrap();
        map.insert(name, shard.clone());
        map.insert("nobody.weight".to_owned(), shard);
        fs::write(&path, value.to_string()).unwrap();
        ferry.refuses(path.parent().unwrap(), "nobody.weight");
        fs::write(&path, text).unwrap();
        let shard = path.with_file_name(value["weight_map"]["nobody.weight"].as_str().unwrap());
        fs::remove_file(&shard).unwrap();
        ferry.refuses(path.parent().unwrap(), shard.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_folder_of_several_models_goes_whole() {
    let ferry = Ferry::new();
    let printed = python::script("hub_folders.py", [ferry.home()]).json();
    let mut models = 0;
    for (case, target, ending) in [("sentence", "safetensors", ".safetensors"), ("pipeline", "torch", ".bin")]
    {
        let input = ferry.at(case);
        let (output, back) = (ferry.at("out"), ferry.at("back"));
        ferry.convert(&input, &output, &["--to", target, "--strict", "--verify"]);
        // The ONNX version of the model and git's own files are not copied.
        for name in ["onnx/model.onnx", ".gitattributes"].map(Path::new) {
            assert!(!output.join(name).exists(), "{}", name.display());
            if input.join(name).exists() {
                fs::remove_file(input.join(name)).unwrap();
            }
        }
        assert_rest_is_carried(&input, &output);
        let source = if target == "torch" { "safetensors" } else { "torch" };
        ferry.convert(&output, &back, &["--to", source, "--strict", "--verify"]);
        // After the models are converted back, every library finds its model under the original
        // name.
        assert_eq!(paths_below(&back), paths_below(&input));
        for (file, truth) in printed[case]["models"].as_object().unwrap() {
            let truth = Seen::printed(truth);
            assert_eq!(Seen::by_framework(&back.join(file)), truth, "{file}");
            let stem = file.rsplit_once('.').unwrap().0;
            let stem = match stem.rsplit_once('/') {
                Some((folder, "model")) => format!("{folder}/pytorch_model"),
                Some((folder, "pytorch_model")) => format!("{folder}/model"),
                None if stem == "pytorch_model" => "model".to_owned(),
                _ => stem.to_owned(),
            };
            assert_eq!(Seen::by_framework(&output.join(format!("{stem}{ending}"))), truth, "{file}");
            models += 1;
        }
        fs::remove_dir_all(output).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
    assert_eq!(models, 6);
}
