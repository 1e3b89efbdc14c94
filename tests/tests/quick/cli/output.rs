//! Tests of where and how outputs are written: files with the mode from the umask, folders with
//! sidecars, and sets among other files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tensorferry_tests::ferry::{after, run};
use tensorferry_tests::files::{files_below, names_in};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, args};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn modes_follow_the_umask() {
    let input = case("safetensors", "odd_names").input();
    for (umask, file_mode, folder_mode) in
        [("022", 0o644, 0o755), ("027", 0o640, 0o750), ("002", 0o664, 0o775)]
    {
        let ferry = Ferry::new();
        for output in ["out.pt", "out.safetensors", "model/"] {
            let command = ferry.command(args!["convert", input, ferry.at(output), "--to", "safetensors"]);
            run(&mut after(&format!("umask {umask}"), &command)).expect(0);
        }
        for file in files_below(ferry.home()) {
            assert_eq!(mode(&ferry.at(&file)), file_mode, "{} under umask {umask}", file.display());
        }
        assert_eq!(mode(&ferry.at("model")), folder_mode, "umask {umask}");
    }
}

#[test]
fn companions_are_chosen() {
    let ferry = Ferry::new();
    let [model, weights] = ferry.paths(["model", "model/model.safetensors"]);
    ferry.model("model/model.safetensors", &Model::of_size(1 << 20, 6, 1));
    for name in
        ["config.json", "tokenizer.json", "optimizer.pt", "tokenizer/vocab.txt", "pooling/config.json"]
    {
        ferry.write(&format!("model/{name}"), "{}");
    }
    let copied = |input: &Path, output: &str, companions: &str| {
        let output = ferry.at(output);
        ferry.convert(input, &output, &["--to", "torch", "--companions", companions]);
        let files = files_below(&output).into_iter().map(|file| file.display().to_string());
        files.filter(|name| name != "pytorch_model.bin").collect::<Vec<_>>()
    };
    assert!(copied(&model, "none/", "none").is_empty());
    assert_eq!(copied(&model, "all/", "all").len(), 5);
    let of_folder = copied(&model, "some/", "config.json, tokenizer*");
    assert_eq!(of_folder, ["config.json", "pooling/config.json", "tokenizer/vocab.txt", "tokenizer.json"]);
    assert!(ferry.equal(&model, &ferry.at("none")));
    // If the input is a file, adjacent files are copied only if an option names them.
    assert_eq!(copied(&weights, "of-file/", "*.json"), ["config.json", "tokenizer.json"]);
    assert!(copied(&weights, "of-file-all/", "none").is_empty());
    let output = ferry.at("misspelled/");
    let ran = ferry.run(args!["convert", model, output, "--to", "torch", "--companions", "confg.json"]);
    let _ = ran.expect(0).says(&["no file next to the weights matches \"confg.json\""]);
    // The files that were left out are counted in the account, and are not losses.
    let output = ferry.at("strict/");
    let strict = args!["--to", "torch", "--companions", "none", "--strict", "--json"];
    let report = ferry.run(args!["convert", model, output].into_iter().chain(strict)).expect(0).json();
    assert_eq!(report["account"]["counts"]["excluded"], 5, "{report}");
    assert_eq!(report["losses"], serde_json::json!([]), "{report}");
}

#[test]
fn a_model_folder_keeps_its_sidecars() {
    let ferry = Ferry::new();
    let [model, output] = ferry.paths(["model", "output"]);
    ferry.model("model/model.safetensors", &Model::of_size(1 << 20, 6, 1));
    ferry.write("model/config.json", "{}");
    ferry.write("model/tokenizer/vocab.txt", "a b c");
    ferry.convert(&model, &output, &["--to", "torch"]);
    assert_eq!(std::fs::read(output.join("config.json")).unwrap(), b"{}");
    assert_eq!(std::fs::read(output.join("tokenizer/vocab.txt")).unwrap(), b"a b c");
    assert!(!output.join("model.safetensors").exists());
    assert!(ferry.equal(&model, &output));
}

#[test]
fn shards_have_the_hubs_names_beside_other_files() {
    let ferry = Ferry::new();
    let input = ferry.model("input.safetensors", &Model::of_size(4 << 20, 16, 2));
    let shared = ferry.at("shared");
    ferry.write("shared/notes.txt", "mine");
    ferry.convert(&input, &shared.join("model.safetensors"), &["-o", "max_shard_size=1MB"]);
    let names = names_in(&shared);
    let shards: Vec<_> = names.iter().filter(|name| name.ends_with(".safetensors")).collect();
    assert!(shards.len() >= 4, "{names:?}");
    for (number, name) in shards.iter().enumerate() {
        assert_eq!(**name, format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len()));
        assert!(std::fs::metadata(shared.join(name)).unwrap().len() < (1 << 20) + 8192);
    }
    assert_eq!(names.len(), shards.len() + 2, "{names:?}");
    assert!(names.contains(&"model.safetensors.index.json".to_owned()), "{names:?}");
    assert!(ferry.equal(&input, &shared.join("model.safetensors.index.json")));
}

#[test]
fn a_replaced_folder_keeps_what_ferry_did_not_write() {
    let ferry = Ferry::new();
    let [model, output] = ferry.paths(["model", "output"]);
    ferry.model("model/model.safetensors", &Model::of_size(1 << 20, 6, 3));
    ferry.convert(&model, &output, &["--to", "safetensors"]);
    ferry.write("output/mine.txt", "mine");
    ferry.model("model/model.safetensors", &Model::of_size(2 << 20, 6, 4));
    ferry.convert(&model, &output, &["--to", "safetensors", "--force"]);
    assert_eq!(std::fs::read(output.join("mine.txt")).unwrap(), b"mine");
    assert!(ferry.equal(&model, &output));
    assert_eq!(ferry.names(), ["model", "output"]);
}
