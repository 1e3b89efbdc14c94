//! Where output goes: files with the umask's mode, folders with their sidecars, sets beside other
//! files.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::{files_below, names_in, run};
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::model::Model;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn modes_follow_the_umask() {
    let ferry = Ferry::new();
    let input = cases("safetensors", "odd_names").pop().unwrap().input();
    for (umask, file_mode, folder_mode) in
        [("022", 0o644, 0o755), ("027", 0o640, 0o750), ("002", 0o664, 0o775)]
    {
        let folder = tempdir().unwrap();
        for output in ["out.pt", "out.safetensors", "model/"] {
            let output = folder.path().join(output);
            let command = [
                "convert".as_ref(),
                input.as_os_str(),
                output.as_os_str(),
                "--to".as_ref(),
                "safetensors".as_ref(),
            ];
            let command = ferry.command(command);
            let mut wrapped = Command::new("sh");
            wrapped.args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask]);
            run(wrapped.arg(command.get_program()).args(command.get_args())).expect(0);
        }
        for file in files_below(folder.path()) {
            assert_eq!(mode(&folder.path().join(&file)), file_mode, "{} under umask {umask}", file.display());
        }
        assert_eq!(mode(&folder.path().join("model")), folder_mode, "umask {umask}");
    }
}

#[test]
fn a_model_folder_keeps_its_sidecars() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [model, output] = ["model", "output"].map(|name| folder.path().join(name));
    std::fs::create_dir_all(model.join("tokenizer")).unwrap();
    Model::of_size(1 << 20, 6, 1).write(&model.join("model.safetensors")).unwrap();
    std::fs::write(model.join("config.json"), "{}").unwrap();
    std::fs::write(model.join("tokenizer/vocab.txt"), "a b c").unwrap();
    ferry.convert(&model, &output, &["--to", "torch"]);
    assert_eq!(std::fs::read(output.join("config.json")).unwrap(), b"{}");
    assert_eq!(std::fs::read(output.join("tokenizer/vocab.txt")).unwrap(), b"a b c");
    assert!(!output.join("model.safetensors").exists());
    assert!(ferry.equal(&model, &output));
}

#[test]
fn shards_have_the_hubs_names_beside_other_files() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = folder.path().join("input.safetensors");
    Model::of_size(4 << 20, 16, 2).write(&input).unwrap();
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("notes.txt"), "mine").unwrap();
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
    let folder = tempdir().unwrap();
    let [model, output] = ["model", "output"].map(|name| folder.path().join(name));
    std::fs::create_dir(&model).unwrap();
    Model::of_size(1 << 20, 6, 3).write(&model.join("model.safetensors")).unwrap();
    ferry.convert(&model, &output, &["--to", "safetensors"]);
    std::fs::write(output.join("mine.txt"), "mine").unwrap();
    Model::of_size(2 << 20, 6, 4).write(&model.join("model.safetensors")).unwrap();
    ferry.convert(&model, &output, &["--to", "safetensors", "--force"]);
    assert_eq!(std::fs::read(output.join("mine.txt")).unwrap(), b"mine");
    assert!(ferry.equal(&model, &output));
    assert_eq!(names_in(folder.path()), ["model", "output"]);
}
