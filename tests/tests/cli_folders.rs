//! Model folders: models in sub-folders are converted in place, what is no model goes along, and the
//! files of an older split go when a new one comes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::files_below;
use tensorferry_tests::model::{Model, safetensors};

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn model(name: &str) -> Vec<u8> {
    safetensors(&[(name, "F32", &[2], &[7; 8])])
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = files_below(folder).iter().map(|p| p.to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn shards(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.contains("-of-") || name.ends_with(".json")).collect()
}

#[test]
fn a_pipeline_has_one_model_a_sub_folder() {
    let home = tempdir().unwrap();
    let (input, output, back) = (home.path().join("in"), home.path().join("out"), home.path().join("back"));
    write(&input, "model_index.json", b"{}");
    write(&input, "tokenizer/vocab.json", b"{}");
    write(&input, "unet/config.json", b"{}");
    write(&input, "unet/diffusion_model.safetensors", &model("unet.weight"));
    write(&input, "text/encoder/model.safetensors", &model("text.weight"));
    let ferry = Ferry::new();
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
}

#[test]
fn a_model_keeps_the_modules_beside_it() {
    let home = tempdir().unwrap();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    write(&input, "modules.json", b"[]");
    write(&input, "model.safetensors", &model("weight"));
    write(&input, "1_Pooling/config.json", b"{}");
    write(&input, "2_Dense/model.safetensors", &model("linear.weight"));
    let ferry = Ferry::new();
    ferry.convert(&input, &output, &["--to", "torch", "--strict"]);
    let expected =
        ["1_Pooling/config.json", "2_Dense/pytorch_model.bin", "modules.json", "pytorch_model.bin"];
    assert_eq!(names(&output), expected);
}

#[test]
fn a_broken_model_in_a_sub_folder_leaves_nothing() {
    let home = tempdir().unwrap();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    write(&input, "model.safetensors", &model("weight"));
    let broken = model("weight");
    write(&input, "vae/model.safetensors", &broken[..broken.len() - 1]);
    let ferry = Ferry::new();
    let command =
        ["convert".as_ref(), input.as_os_str(), output.as_os_str(), "--to".as_ref(), "torch".as_ref()];
    ferry.run(command).expect(3).says(&["vae", "model.safetensors"]);
    assert!(!output.exists());
}

#[test]
fn another_format_of_the_same_model_is_noted() {
    let home = tempdir().unwrap();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let ferry = Ferry::new();
    write(&input, "model.safetensors", &model("weight"));
    ferry.convert(&input.join("model.safetensors"), &input.join("pytorch_model.bin"), &["--to", "torch"]);
    let outcome = ferry.convert(&input, &output, &["--to", "safetensors", "--strict"]);
    outcome.says(&["pytorch_model.bin"]);
    assert_eq!(names(&output), ["model.safetensors"]);
}

#[test]
fn an_older_split_goes_when_a_new_one_comes() {
    let home = tempdir().unwrap();
    let (whole, output) = (home.path().join("whole.safetensors"), home.path().join("out"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    let ferry = Ferry::new();
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
    write(&output, "config.json", b"{}");
    write(&output, "model-of-somebody.txt", b"mine");
    split("600KB", &["--force"]);
    let few = shards(&output);
    assert!(few.len() < many.len() && few.iter().all(|name| !many.contains(name) || name.ends_with(".json")));
    split("1GB", &["--force"]);
    assert_eq!(names(&output), ["config.json", "model-of-somebody.txt", "model.safetensors"]);
}

#[test]
fn a_set_beside_other_files_loses_only_its_own_older_split() {
    let home = tempdir().unwrap();
    let (whole, output) = (home.path().join("whole.safetensors"), home.path().join("model.safetensors"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    let ferry = Ferry::new();
    ferry.convert(&whole, &output, &["-o", "max_shard_size=300KB"]);
    ferry.convert(&whole, &home.path().join("other.safetensors"), &["-o", "max_shard_size=300KB"]);
    let others = || names(home.path()).into_iter().filter(|name| name.starts_with("other")).count();
    let before = others();
    // Without --force nothing goes, and the user is told.
    ferry.convert(&whole, &output, &[]).says(&["model.safetensors.index.json"]);
    assert!(home.path().join("model.safetensors.index.json").exists());
    ferry.convert(&whole, &output, &["--force"]);
    assert_eq!(others(), before);
    let mine: Vec<String> = names(home.path()).into_iter().filter(|name| name.starts_with("model")).collect();
    assert_eq!(mine, ["model.safetensors"]);
}

#[test]
fn the_shards_that_are_read_stay() {
    let home = tempdir().unwrap();
    let (whole, folder) = (home.path().join("whole.safetensors"), home.path().join("m"));
    Model::of_size(1 << 20, 8, 3).write(&whole).unwrap();
    let ferry = Ferry::new();
    ferry.convert(&whole, &folder.join(""), &["--to", "safetensors", "-o", "max_shard_size=300KB"]);
    let before = shards(&folder);
    ferry.convert(&folder, &folder.join("model.safetensors"), &["--force"]);
    assert_eq!(shards(&folder), before);
    assert!(ferry.equal(&whole, &folder.join("model.safetensors")));
}
