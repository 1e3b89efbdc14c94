//! Tests of model folders. Models in sub-folders are converted in place, and other files are copied
//! along with them. When a new split is written, the files of an older split are removed.

use std::path::Path;
use tensorferry_tests::Ferry;
use tensorferry_tests::files::paths_below as names;
use tensorferry_tests::model::{Model, safetensors};

fn model(name: &str) -> Vec<u8> {
    safetensors(&[(name, "F32", &[2], &[7; 8])])
}

fn shards(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.contains("-of-") || name.ends_with(".json")).collect()
}

#[test]
fn a_pipeline_has_one_model_a_sub_folder() {
    let ferry = Ferry::new();
    let [input, output, back] = ferry.paths(["in", "out", "back"]);
    ferry.write("in/model_index.json", b"{}");
    ferry.write("in/tokenizer/vocab.json", b"{}");
    ferry.write("in/unet/config.json", b"{}");
    ferry.write("in/unet/diffusion_model.safetensors", model("unet.weight"));
    ferry.write("in/text/encoder/model.safetensors", model("text.weight"));
    let command = ["--to", "torch", "--strict", "--verify", "--json"];
    let report = ferry.convert(&input, &output, &command).json();
    assert_eq!(report["tensors"], 2, "{report}");
    let expected = [
        "model_index.json",
        "text/encoder/pytorch_model.bin",
        "tokenizer/vocab.json",
        "unet/config.json",
        "unet/diffusion_model.bin",
    ];
    assert_eq!(names(&output), expected);
    ferry.convert(&output, &back, &["--to", "safetensors", "--strict"]);
    assert!(ferry.equal(&input.join("unet/diffusion_model.safetensors"), &back.join("unet")));
    assert!(ferry.equal(&input.join("text/encoder"), &back.join("text/encoder/model.safetensors")));
    let both = ferry.on("diff", &input, &[back.to_str().unwrap()]).expect(2);
    both.says(&["several models", "found text/encoder, unet"]);
}

#[test]
fn a_model_keeps_the_modules_beside_it() {
    let ferry = Ferry::new();
    let (input, output) = (ferry.at("in"), ferry.at("out"));
    ferry.write("in/modules.json", b"[]");
    ferry.write("in/model.safetensors", model("weight"));
    ferry.write("in/1_Pooling/config.json", b"{}");
    ferry.write("in/2_Dense/model.safetensors", model("linear.weight"));
    ferry.convert(&input, &output, &["--to", "torch", "--strict"]);
    let expected =
        ["1_Pooling/config.json", "2_Dense/pytorch_model.bin", "modules.json", "pytorch_model.bin"];
    assert_eq!(names(&output), expected);
}

#[test]
fn of_a_run_one_step_is_converted_and_the_others_are_told_of() {
    let ferry = Ferry::new();
    let (older, newer, output) = (ferry.at("run/100"), ferry.at("run/200"), ferry.at("out"));
    for (name, folder) in [("older", &older), ("newer", &newer)] {
        let source = ferry.write(&format!("{name}.safetensors"), model(name));
        ferry.convert(&source, folder, &["--to", "orbax"]);
    }
    let command = ["--to", "safetensors", "--json"];
    let report = ferry.convert(&ferry.at("run"), &output, &command).json();
    assert_eq!(report["tensors"], 1, "{report}");
    assert_eq!(report["losses"][0]["what"], "100", "{report}");
    assert!(report["losses"][0]["why"].as_str().unwrap_or_default().contains("a different step"), "{report}");
    assert_eq!(names(&output), ["model.safetensors"]);
    assert!(ferry.equal(&ferry.at("newer.safetensors"), &output));
}

#[test]
fn a_broken_model_in_a_sub_folder_leaves_nothing() {
    let ferry = Ferry::new();
    let (input, output) = (ferry.at("in"), ferry.at("out"));
    ferry.write("in/model.safetensors", model("weight"));
    let broken = model("weight");
    ferry.write("in/vae/model.safetensors", &broken[..broken.len() - 1]);
    ferry.try_convert(&input, &output, &["--to", "torch"]).expect(3).says(&["vae", "model.safetensors"]);
    assert!(!output.exists());
}

#[test]
fn another_format_of_the_same_model_is_noted() {
    let ferry = Ferry::new();
    let (input, output) = (ferry.at("in"), ferry.at("out"));
    ferry.write("in/model.safetensors", model("weight"));
    ferry.convert(&input.join("model.safetensors"), &input.join("pytorch_model.bin"), &["--to", "torch"]);
    let outcome = ferry.convert(&input, &output, &["--to", "safetensors", "--strict"]);
    outcome.says(&["pytorch_model.bin"]);
    assert_eq!(names(&output), ["model.safetensors"]);
}

#[test]
fn an_older_split_goes_when_a_new_one_comes() {
    let ferry = Ferry::new();
    let (whole, output) = (ferry.at("whole.safetensors"), ferry.at("out"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    let split = |size: &str, more: &[&str]| {
        let option = format!("max_shard_size={size}");
        let mut arguments = vec!["--to", "safetensors", "-o", &option];
        arguments.extend(more);
        ferry.convert(&whole, &output.join(""), &arguments);
        assert!(ferry.equal(&whole, &output), "{size}");
    };
    split("200KB", &[]);
    let many = shards(&output);
    assert!(many.len() > 5, "{many:?}");
    ferry.write("out/config.json", b"{}");
    ferry.write("out/model-of-somebody.txt", b"mine");
    split("600KB", &["--force"]);
    let few = shards(&output);
    assert!(few.len() < many.len() && few.iter().all(|name| !many.contains(name) || name.ends_with(".json")));
    split("1GB", &["--force"]);
    assert_eq!(names(&output), ["config.json", "model-of-somebody.txt", "model.safetensors"]);
}

#[test]
fn a_set_beside_other_files_loses_only_its_own_older_split() {
    let ferry = Ferry::new();
    let (whole, output) = (ferry.at("whole.safetensors"), ferry.at("model.safetensors"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    ferry.convert(&whole, &output, &["-o", "max_shard_size=300KB"]);
    ferry.convert(&whole, &ferry.at("other.safetensors"), &["-o", "max_shard_size=300KB"]);
    let others = || names(ferry.home()).into_iter().filter(|name| name.starts_with("other")).count();
    let before = others();
    // Without --force nothing is removed, and the user is warned.
    ferry.convert(&whole, &output, &[]).says(&["model.safetensors.index.json"]);
    assert!(ferry.at("model.safetensors.index.json").exists());
    ferry.convert(&whole, &output, &["--force"]);
    assert_eq!(others(), before);
    let mine: Vec<String> =
        names(ferry.home()).into_iter().filter(|name| name.starts_with("model")).collect();
    assert_eq!(mine, ["model.safetensors"]);
}

#[test]
fn the_shards_that_are_read_stay() {
    let ferry = Ferry::new();
    let (whole, folder) = (ferry.at("whole.safetensors"), ferry.at("m"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    ferry.convert(&whole, &folder.join(""), &["--to", "safetensors", "-o", "max_shard_size=300KB"]);
    let before = shards(&folder);
    ferry.convert(&folder, &folder.join("model.safetensors"), &["--force"]);
    assert_eq!(shards(&folder), before);
    assert!(ferry.equal(&whole, &folder.join("model.safetensors")));
}

/// Tests that older weights in a different format are removed or reported. Otherwise, a program
/// that loads the folder might load the old weights.
#[test]
fn older_weights_in_another_format_go_or_are_told_of() {
    for (receipt, expected) in [
        (true, vec!["config.json", "model.safetensors", "receipt.ferry.json"]),
        (false, vec!["config.json", "model.safetensors", "pytorch_model.bin"]),
    ] {
        let ferry = Ferry::new();
        let (input, output) = (ferry.at("in"), ferry.at("out"));
        ferry.write("in/config.json", b"{}");
        ferry.write("in/model.safetensors", model("weight"));
        let options: &[&str] = if receipt { &["--receipt"] } else { &[] };
        ferry.convert(&input, &output, &[options, &["--to", "torch"]].concat());
        let outcome =
            ferry.convert(&input, &output, &[options, &["--to", "safetensors", "--force"]].concat());
        assert_eq!(names(&output), expected, "{outcome}");
        assert_eq!(
            outcome.stderr.contains("\"pytorch_model.bin\" next to the output"),
            !receipt,
            "{outcome}"
        );
        // A file that has changed since its conversion is not removed.
        ferry.write("out/model.safetensors", model("other"));
        let outcome = ferry.convert(&input, &output, &[options, &["--to", "torch", "--force"]].concat());
        assert!(names(&output).contains(&"model.safetensors".to_owned()), "{outcome}");
        let _ = outcome.says(&["\"model.safetensors\" next to the output"]);
    }
}

/// Tests files that trainers write next to a model. The files have the suffixes of weights files,
/// but do not contain weights. ferry copies them along with the model, and reads the output as the
/// format in which it was written.
#[test]
fn what_training_keeps_beside_a_model_goes_along() {
    let ferry = Ferry::new();
    let state = ["optimizer.pt", "rng_state.pth", "scheduler.pt", "training_args.bin"];
    let [input, torch] = ferry.paths(["in", "torch"]);
    ferry.write("in/model.safetensors", model("weight"));
    state.iter().for_each(|name| drop(ferry.write(&format!("in/{name}"), b"\x80\x02N.")));
    ferry.convert(&input, &torch, &["--to", "torch", "--strict"]);
    let with = |weights: &'static str| {
        let mut names = [&state[..], &[weights]].concat();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&torch), with("pytorch_model.bin"));
    for (format, weights) in [("safetensors", "model.safetensors"), ("flax", "flax_model.msgpack")] {
        let output = ferry.at(format);
        ferry.convert(&torch, &output, &["--to", format, "--strict"]);
        assert_eq!(names(&output), with(weights));
        assert!(ferry.equal(&input, &output), "{format}");
    }
}

#[test]
fn a_repository_of_a_cache_is_its_snapshots() {
    let ferry = Ferry::new();
    let (input, output) = (ferry.at("models--a--b"), ferry.at("out"));
    ferry.write("models--a--b/snapshots/r/model.safetensors", model("weight"));
    ferry.write("models--a--b/blobs/0123", b"what a snapshot links to");
    ferry.write("models--a--b/refs/main", b"r");
    ferry.convert(&input, &output, &["--to", "torch", "--strict"]).says(&["\"blobs\" is left out"]);
    assert_eq!(names(&output), ["snapshots/r/pytorch_model.bin"]);
}
