//! Tests of several inputs, and of standard input and output in place of files.

use std::fs::File;
use std::process::Stdio;
use tensorferry_tests::ferry::run;
use tensorferry_tests::{Ferry, fixtures};

#[test]
fn each_input_has_an_output_of_its_own() {
    let ferry = Ferry::new();
    let inputs = ["all_dtypes", "bad_size_mismatch", "scalars_and_empty"].map(|name| {
        let from = fixtures::folder().join("safetensors").join(name).join("model.safetensors");
        ferry.write(&format!("{name}.safetensors"), std::fs::read(from).unwrap())
    });
    let names = inputs.each_ref().map(|path| path.to_str().unwrap());
    let [out, template] = ferry.paths(["out", "out/{stem}.pt"]);
    let convert = |options: &[&str]| ferry.run([&["convert"], &names[..], options].concat());
    // The input that cannot be read is reported, and the other inputs are converted.
    let report =
        convert(&["-O", template.to_str().unwrap(), "--json"]).expect(3).says(&["bad_size_mismatch"]);
    let conversions = report.json()["conversions"].as_array().unwrap().clone();
    assert_eq!(conversions.len(), 3);
    assert_eq!(conversions[1]["error"]["kind"], "malformed");
    assert!(ferry.equal(&inputs[0], &out.join("all_dtypes.pt")));
    assert!(ferry.equal(&inputs[2], &out.join("scalars_and_empty.pt")));
    // Files in an output folder are named after the inputs, with the format's suffix. Two inputs
    // with the same name are rejected before anything is written.
    let folder = out.to_str().unwrap();
    convert(&["-O", folder, "--to", "safetensors"]).expect(3);
    assert!(ferry.equal(&inputs[0], &out.join("all_dtypes.safetensors")));
    convert(&["-O", folder]).expect(2).says(&["--to"]);
    convert(&["-O", "one.pt"]).expect(2).says(&["have the same output", "{stem}"]);
    convert(&[folder]).expect(2).says(&["3 INPUTs need -O"]);
    convert(&["-O", "{sten}.pt"]).expect(2).says(&["{sten}", "{stem}"]);
}

#[test]
fn a_pipe_stands_for_a_file() {
    let ferry = Ferry::new();
    let records = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let piped =
        |arguments: &[&str]| run(ferry.command(arguments).stdin(Stdio::from(File::open(&records).unwrap())));
    let lines = ferry.at("lines.jsonl");
    ferry.convert(&records, &lines, &[]);
    let printed =
        piped(&["convert", "-", "-", "--to", "jsonl"]).expect(0).says(&["wrote -: jsonl, 20 records"]);
    assert_eq!(printed.stdout, std::fs::read_to_string(&lines).unwrap());
    assert_eq!(piped(&["cat", "-"]).expect(0).stdout, ferry.cat(&records));
    piped(&["inspect", "-"]).expect(0).prints(&["20 records"]);
    let to = ["convert", "-", "-", "--to", "jsonl"];
    piped(&[&to[..], &["--json"]].concat()).expect(2).says(&["--json"]);
    piped(&[&to[..], &["--receipt"]].concat()).expect(2).says(&["--receipt"]);
    piped(&["convert", "-", "-"]).expect(2).says(&["--to FORMAT"]);
    assert_eq!(ferry.names(), ["lines.jsonl"]);
}

#[test]
fn patterns_choose_what_is_shown() {
    let ferry = Ferry::new();
    let model = fixtures::folder().join("safetensors/all_dtypes/model.safetensors");
    let shown =
        |patterns: &[&str]| ferry.on("inspect", &model, &[patterns, &["--json"]].concat()).expect(0).json();
    let document = shown(&["t_float3*", "t_int64"]);
    let names: Vec<&str> = document["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| tensor["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["t_int64", "t_float32"]);
    let of = |name: &str| {
        let tensor =
            document["tensors"].as_array().unwrap().iter().find(|tensor| tensor["name"] == name).unwrap();
        tensor["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product::<u64>()
    };
    assert_eq!(document["parameters"], of("t_int64") + of("t_float32"));
    ferry.on("inspect", &model, &["nothing.*"]).expect(2).says(&["nothing.*", "a name such as"]);
    // For a folder of models, each model is listed with its contents.
    let models = ferry.at("models");
    for (name, step) in [("one", "drop:t_int64"), ("two", "drop:t_int8")] {
        std::fs::create_dir_all(models.join(name)).unwrap();
        ferry.convert(&model, &models.join(name).join("model.safetensors"), &["--step", step]);
    }
    let found = ferry.on("inspect", &models, &["t_int64", "--json"]).expect(0).json()["models"].clone();
    let folders: Vec<&str> =
        found.as_array().unwrap().iter().map(|model| model["folder"].as_str().unwrap()).collect();
    assert_eq!(folders, ["two"]);
    ferry.on("inspect", &models, &["nothing.*"]).expect(2).says(&["nothing.*", "a name such as"]);
    let records = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let schema = ferry.on("inspect", &records, &["i*", "--json"]).expect(0).json()["schema"].clone();
    assert_eq!(schema.as_array().unwrap().len(), 2);
    ferry.on("inspect", &records, &["[a"]).expect(2).says(&["[a"]);
    ferry.on("inspect", &records, &["nothing"]).expect(2).says(&["no column", "img"]);
}

#[test]
fn parameters_are_those_of_the_model() {
    let ferry = Ferry::new();
    let training = fixtures::folder().join("torch/zip_training_checkpoint/checkpoint.pth");
    let checkpoint = ferry.at("model_and_optimizer.pt");
    ferry.convert(&training, &checkpoint, &["--part", ".", "--step", "drop:mixed.*"]);
    let count = |part: &str| {
        ferry.on("inspect", &checkpoint, &["--part", part, "--json"]).expect(0).json()["parameters"].as_u64()
    };
    assert!(count("auto").is_some_and(|parameters| parameters > 0));
    assert_eq!(count("."), count("auto"));
    // The elements of a shape without data are not counted as parameters.
    let claim = ferry.safetensors("claim.safetensors", &[("a", "F32", &[0, 1 << 40, 1 << 40], &[])]);
    assert_eq!(ferry.inspect(&claim)["parameters"], 0);
}

#[test]
fn colours_are_for_who_asks() {
    let ferry = Ferry::new();
    let colored = |choice: &str| ferry.run(["convert", "nothing.pt", "x.pt", "--color", choice]).expect(2);
    assert!(colored("always").stderr.contains("\u{1b}["));
    for choice in ["never", "auto"] {
        assert!(!colored(choice).stderr.contains('\u{1b}'));
    }
}

#[test]
fn what_was_probably_meant_is_said() {
    let ferry = Ferry::new();
    let model = fixtures::folder().join("safetensors/all_dtypes/model.safetensors");
    let output = ferry.at("out.pt");
    ferry
        .try_convert(&model, &output, &["-o", "fromat=legacy"])
        .expect(2)
        .says(&["did you mean \"format\"?"]);
    ferry
        .try_convert(&model, &ferry.at("y.safetensor"), &[])
        .expect(2)
        .says(&["did you mean \".safetensors\"?"]);
    ferry.on("inspect", &model, &["-i", "shrad=alone"]).expect(2).says(&["did you mean \"shard\"?"]);
}
