//! Receipts say what an output was made from, and `ferry verify` holds it against them: whole, damaged,
//! or with a receipt that lies.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::ferry::{files_below, names_in};
use tensorferry_tests::fixtures::{Facts, cases};
use tensorferry_tests::model::{self, Model};
use tensorferry_tests::{Ferry, Outcome};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Writes the receipt again with a change.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = read(path);
    change(&mut document);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

fn verify<P: AsRef<OsStr>>(ferry: &Ferry, arguments: impl IntoIterator<Item = P>) -> Outcome {
    let mut command = ferry.command(["verify"]);
    tensorferry_tests::ferry::run(command.args(arguments))
}

/// The verdict on one output, from `--json`, and the exit code.
fn verdict(ferry: &Ferry, output: &Path, options: &[&str]) -> (String, Option<i32>, Value) {
    let options = options.iter().map(OsStr::new).chain(["--json".as_ref(), output.as_os_str()]);
    let outcome = verify(ferry, options);
    let document = outcome.json();
    let outputs = document["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 1, "{document}");
    assert_eq!(document["ok"], outcome.code == Some(0), "{outcome}");
    (outputs[0]["verdict"].as_str().unwrap().to_owned(), outcome.code, outputs[0].clone())
}

/// A model of two tensors, converted to torch with a receipt.
struct Scene {
    folder: TempDir,
    ferry: Ferry,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempdir().unwrap(), ferry: Ferry::new() };
        let tensors: [(&str, &str, &[u64], &[u8]); 2] =
            [("a.weight", "F32", &[2, 3], &[1; 24]), ("a.bias", "I16", &[4], &[2; 8])];
        fs::write(scene.input(), model::safetensors(&tensors)).unwrap();
        scene.ferry.convert(&scene.input(), &scene.output(), &["--receipt"]);
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn input(&self) -> PathBuf {
        self.at("in.safetensors")
    }

    fn output(&self) -> PathBuf {
        self.at("out.pt")
    }

    fn receipt(&self) -> PathBuf {
        self.at("out.pt.ferry.json")
    }

    fn verdict(&self, options: &[&str]) -> (String, Option<i32>, Value) {
        verdict(&self.ferry, &self.output(), options)
    }

    #[track_caller]
    fn is(&self, words: &str, code: i32, options: &[&str]) -> Value {
        let (verdict, found, record) = self.verdict(options);
        assert_eq!((verdict.as_str(), found), (words, Some(code)), "{record}");
        record
    }
}

/// The first problem's subject, name and sentence.
fn first(record: &Value) -> (&str, &str, &str) {
    let problem = &record["problems"][0];
    let text = |key: &str| problem[key].as_str().unwrap_or_else(|| panic!("no {key}: {record}"));
    (text("subject"), text("name"), text("what"))
}

#[test]
fn a_receipt_says_what_was_made_from_what() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let case = cases("torch", "zip_module_state_dict").pop().unwrap();
    let output = folder.path().join("model.safetensors");
    let report = ferry.convert(&case.input(), &output, &["--receipt", "-o", "tied=keep", "--json"]).json();
    let path = folder.path().join("model.safetensors.ferry.json");
    assert_eq!(report["receipt"], path.to_str().unwrap());
    assert_eq!(
        report["files"],
        json!([output.to_str().unwrap()]),
        "the receipt is none of the output's files"
    );
    let receipt = read(&path);
    assert_eq!(receipt["receipt"], 2);
    assert_eq!(receipt["ferry"], env!("CARGO_PKG_VERSION"));
    assert_eq!(receipt["input"]["path"], case.input().to_str().unwrap());
    assert_eq!(receipt["models"][0]["from"]["id"], "torch");
    assert_eq!(receipt["models"][0]["from"]["plugin"], "tensorferry-torch");
    assert_eq!(receipt["output"]["format"]["id"], "safetensors");
    assert!(receipt["output"]["format"]["output_revision"].is_u64(), "{receipt}");
    assert_eq!(receipt["output"]["options"], json!([["tied", "keep"]]));
    assert_eq!((&receipt["part"], &receipt["verified"]), (&json!("auto"), &json!(null)));
    assert_eq!(receipt["losses"].as_array().unwrap().len(), report["losses"].as_array().unwrap().len());
    for (record, file) in
        [(&receipt["input"]["files"], case.input()), (&receipt["output"]["files"], output.clone())]
    {
        let content = fs::read(&file).unwrap();
        let expected = json!([{
            "name": file.file_name().unwrap().to_str(),
            "bytes": content.len(),
            "blake3": blake3::hash(&content).to_hex().to_string(),
            "sha256": hex(&Sha256::digest(&content)),
        }]);
        assert_eq!(*record, expected);
    }
    let tensors = receipt["models"][0]["tensors"].as_array().unwrap();
    let facts = |tensor: &Value| -> (String, Facts) {
        let text = |key: &str| tensor[key].as_str().unwrap().to_owned();
        let shape = tensor["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        (text("name"), (text("dtype"), shape, text("sha256")))
    };
    assert_eq!(
        tensors.iter().map(facts).collect::<std::collections::BTreeMap<_, _>>(),
        case.tensors(|_, _| true)
    );
    let record = verdict(&ferry, &output, &[]);
    assert_eq!((record.0.as_str(), record.1), ("ok", Some(0)), "{}", record.2);
    assert_eq!((&record.2["tensors"], &record.2["files"]), (&json!(tensors.len()), &json!(1)));
}

/// `host/docs/receipt.md`, byte for byte.
#[test]
fn the_digests_are_those_of_the_documentation() {
    let scene = Scene::new();
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let tensor = |dtype: &str, dims: &[u64], bytes: &[u8]| {
        let mut content = b"tensorferry tensor 1\n".to_vec();
        content.extend(text(dtype));
        content.extend((dims.len() as u64).to_le_bytes());
        content.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        content.extend(bytes);
        *blake3::hash(&content).as_bytes()
    };
    let digests = [("a.bias", tensor("I16", &[4], &[2; 8])), ("a.weight", tensor("F32", &[2, 3], &[1; 24]))];
    let mut catalog = b"tensorferry catalog 1\n".to_vec();
    catalog.extend(2_u64.to_le_bytes());
    for (name, digest) in &digests {
        catalog.extend(text(name));
        catalog.extend(digest);
    }
    let model = read(&scene.receipt())["models"][0].clone();
    assert_eq!(model["content"], blake3::hash(&catalog).to_hex().as_str());
    for tensor in model["tensors"].as_array().unwrap() {
        let (_, digest) = digests.iter().find(|(name, _)| tensor["name"] == *name).unwrap();
        assert_eq!(tensor["content"], hex(digest).as_str());
    }
}

#[test]
fn the_same_conversion_gives_the_same_receipt() {
    let scene = Scene::new();
    let before = fs::read_to_string(scene.receipt()).unwrap();
    let verify: [&[&str]; 2] = [&["--receipt", "--force"], &["--receipt", "--force", "--threads", "1"]];
    for options in verify {
        scene.ferry.convert(&scene.input(), &scene.output(), options);
        let after = fs::read_to_string(scene.receipt()).unwrap();
        let differ: Vec<_> = before.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(before.lines().count(), after.lines().count());
        assert!(differ.iter().all(|(line, _)| line.trim_start().starts_with("\"written\"")), "{differ:?}");
    }
}

/// Every shape of output, named in every way.
#[test]
fn outputs_of_every_shape_are_verified_by_every_name() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    Model::of_size(4 << 20, 16, 1).write(&at("in.safetensors")).unwrap();
    fs::create_dir_all(at("model/unet")).unwrap();
    for file in ["model/model.safetensors", "model/unet/model.safetensors"] {
        Model::of_size(1 << 20, 6, 2).write(&at(file)).unwrap();
    }
    fs::write(at("model/config.json"), "{}").unwrap();
    let file = at("in.safetensors");
    let made: [(&Path, &str, &[&str], &str, &[&str]); 5] = [
        (&file, "1/out.pt", &[], "1/out.pt.ferry.json", &[]),
        (
            &file,
            "2/model.safetensors",
            &["-o", "max_shard_size=1MB"],
            "2/model.safetensors.ferry.json",
            &["2/model.safetensors.index.json", "2/model-00001-of-00006.safetensors"],
        ),
        (&file, "3/model", &["--to", "tf-bundle"], "3/model.ferry.json", &["3/model.index"]),
        (
            &at("model"),
            "4/out",
            &["--to", "torch"],
            "4/out/receipt.ferry.json",
            &["4/out/config.json", "4/out/unet/pytorch_model.bin", "4/out/"],
        ),
        (
            &at("model"),
            "5/out/",
            &["--to", "safetensors"],
            "5/out/receipt.ferry.json",
            &["5/out/model.safetensors"],
        ),
    ];
    for (input, output, options, receipt, names) in made {
        let options = [options, &["--receipt", "--verify"]].concat();
        let written = at(output);
        let said = ferry.convert(input, &written, &options);
        assert!(at(receipt).is_file(), "{output}: {:?}", files_below(folder.path()));
        assert!(read(&at(receipt))["verified"].as_u64().unwrap() >= 6, "{said}");
        let above = written.parent().unwrap().to_owned();
        let names = names.iter().map(|name| at(name));
        for name in names.chain([written, at(receipt), above]) {
            let (words, code, record) = verdict(&ferry, &name, &["--source"]);
            assert_eq!((words.as_str(), code), ("ok", Some(0)), "{}: {record}", name.display());
            assert_eq!(record["receipt"], at(receipt).to_str().unwrap(), "{}", name.display());
        }
    }
    assert_eq!(read(&at("4/out/receipt.ferry.json"))["models"].as_array().unwrap().len(), 2);
    // All of them, each once, however often it is named.
    let all = verify(&ferry, [folder.path(), &at("1"), &at("1/out.pt")]).expect(0);
    assert!(all.stdout.ends_with("5 outputs: 5 ok\n"), "{all}");
    let few = ["--threads", "1", "--memory", "1MiB", "--quick"].map(PathBuf::from);
    verify(&ferry, few.into_iter().chain([folder.path().to_owned()])).expect(0);
}

#[test]
fn a_damaged_output_is_told_from_a_whole_one() {
    let scene = Scene::new();
    let whole = fs::read(scene.output()).unwrap();
    let at = whole.windows(24).position(|bytes| bytes == [1; 24]).unwrap();
    let file = fs::File::options().write(true).open(scene.output()).unwrap();
    file.write_all_at(&[7], at as u64).unwrap();
    let record = scene.is("changed", 4, &["--quick"]);
    assert_eq!(first(&record), ("file", "out.pt", "has another digest"));
    assert_eq!(record["tensors"], 0);
    // The archive's own checksum finds it first, and the file's digest says that it was another.
    let record = scene.is("changed", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "has another digest"));

    fs::write(scene.output(), &whole[..whole.len() - 1]).unwrap();
    let record = scene.is("changed", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "has another length"));

    // Another whole model under the same name.
    let other: [(&str, &str, &[u64], &[u8]); 2] =
        [("a.weight", "F32", &[2, 3], &[3; 24]), ("b", "I16", &[4], &[2; 8])];
    fs::write(scene.at("other.safetensors"), model::safetensors(&other)).unwrap();
    scene.ferry.convert(&scene.at("other.safetensors"), &scene.at("other.pt"), &[]);
    fs::copy(scene.at("other.pt"), scene.output()).unwrap();
    let text = scene.is("changed", 4, &[])["problems"].to_string();
    for part in ["has another content", "a.bias", "is not there", "is not in the receipt"] {
        assert!(text.contains(part), "no {part}: {text}");
    }

    fs::remove_file(scene.output()).unwrap();
    let record = scene.is("missing", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "is not there"));
    verify(&scene.ferry, [scene.output()]).expect(4).says(&["verification failed"]);

    fs::write(scene.output(), whole).unwrap();
    scene.is("ok", 0, &[]);
    fs::remove_file(scene.receipt()).unwrap();
    scene.is("no receipt", 4, &[]);
    verify(&scene.ferry, [scene.at("nothing.pt")]).expect(2).says(&["no such file"]);
}

/// One bad output among good ones: each has its verdict.
#[test]
fn the_rest_is_verified_too() {
    let scene = Scene::new();
    for name in ["a", "b", "c", "d"] {
        scene.ferry.convert(&scene.input(), &scene.at(&format!("more/{name}.pt")), &["--receipt"]);
    }
    fs::remove_file(scene.at("more/a.pt")).unwrap();
    fs::write(scene.at("more/b.pt"), b"x").unwrap();
    fs::write(scene.at("more/c.pt.ferry.json"), b"x").unwrap();
    let outcome = verify(&scene.ferry, [scene.folder.path()]).expect(4);
    let end = "5 outputs: 2 ok, 1 unreadable, 1 missing, 1 changed\n";
    assert!(outcome.stdout.ends_with(end), "{outcome}");
    fs::remove_dir_all(scene.at("more")).unwrap();
    verify(&scene.ferry, [scene.folder.path()]).expect(0);
}

#[test]
fn sources_are_compared_where_that_is_asked_for() {
    let scene = Scene::new();
    scene.is("ok", 0, &["--source"]);
    let mut content = fs::read(scene.input()).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(scene.input(), content).unwrap();
    scene.is("ok", 0, &[]);
    let record = scene.is("changed", 4, &["--source"]);
    assert_eq!(first(&record), ("source", "in.safetensors", "has another digest"));
    fs::remove_file(scene.input()).unwrap();
    scene.is("ok", 0, &[]);
    let record = scene.is("missing", 4, &["--source", "--quick"]);
    assert_eq!(first(&record), ("source", "in.safetensors", "is not there"));
}

#[test]
fn an_edited_receipt_does_not_pass() {
    let scene = Scene::new();
    let whole = fs::read(scene.receipt()).unwrap();
    let edits: [(&str, i32, fn(&mut Value)); 12] = [
        ("changed", 4, |r| r["models"][0]["tensors"][0]["sha256"] = "00".repeat(32).into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["content"] = "00".repeat(32).into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["content"] = "+é".into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["dtype"] = "I32".into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["shape"] = json!([6])),
        ("changed", 4, |r| r["models"][0]["content"] = "00".repeat(32).into()),
        ("changed", 4, |r| drop(r["models"][0]["tensors"].as_array_mut().unwrap().pop())),
        ("changed", 4, |r| r["output"]["files"][0]["sha256"] = "00".repeat(32).into()),
        ("changed", 4, |r| r["output"]["files"][0]["blake3"] = "00".repeat(32).into()),
        ("unreadable", 5, |r| r["output"]["format"]["id"] = "nothing".into()),
        ("unreadable", 3, |r| r["receipt"] = 3.into()),
        ("unreadable", 3, |r| drop(r.as_object_mut().unwrap().remove("output"))),
    ];
    for (words, code, change) in edits {
        edit(&scene.receipt(), change);
        let (verdict, found, record) = scene.verdict(&[]);
        assert_eq!((verdict.as_str(), found), (words, Some(code)), "{record}\n{}", read(&scene.receipt()));
        fs::write(scene.receipt(), &whole).unwrap();
    }
    // Of another version of ferry or of a plugin, or with fields that this ferry does not know.
    edit(&scene.receipt(), |receipt| {
        receipt["ferry"] = "9.9.9".into();
        receipt["output"]["format"]["version"] = "9.9.9".into();
        receipt["output"]["format"]["output_revision"] = 99.into();
        receipt["models"][0]["tensors"][0]["colour"] = "blue".into();
        receipt["future"] = json!({ "a": [1, 2] });
    });
    scene.is("ok", 0, &[]);
}

/// What a receipt claims is compared, and never followed out of its folder, waited for or allocated.
#[test]
fn a_hostile_receipt_does_no_harm() {
    let scene = Scene::new();
    let whole = fs::read(scene.receipt()).unwrap();
    fs::create_dir(scene.at("sub")).unwrap();
    let pipe = scene.at("sub/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", scene.at("sub/zero")).unwrap();
    let outside = tempdir().unwrap();
    fs::copy(scene.output(), outside.path().join("out.pt")).unwrap();

    for name in ["../out.pt", "/etc/passwd", "", ".", "a/../../b", "a//b", "nul\0", "sub/.."] {
        edit(&scene.receipt(), |receipt| receipt["output"]["files"][0]["name"] = name.into());
        assert_eq!(scene.is("unreadable", 3, &["--quick"])["files"], 0, "{name:?}");
        fs::write(scene.receipt(), &whole).unwrap();
        for key in ["entry", "folder"] {
            edit(&scene.receipt(), |receipt| receipt["models"][0][key] = name.into());
            let (verdict, code, record) = scene.verdict(&[]);
            assert!(
                verdict == "unreadable" || name.is_empty() && key == "folder",
                "{key} {name:?}: {record}"
            );
            assert!(matches!(code, Some(0 | 3)), "{key} {name:?}: {record}");
            fs::write(scene.receipt(), &whole).unwrap();
        }
    }
    for (name, bytes) in [("sub/pipe", 0_u64), ("sub/zero", 0), ("sub", 4096), ("out.pt", u64::MAX)] {
        edit(&scene.receipt(), |receipt| {
            receipt["output"]["files"][0]["name"] = name.into();
            receipt["output"]["files"][0]["bytes"] = bytes.into();
            receipt["input"]["files"][0]["name"] = name.into();
            receipt["input"]["folder"] = scene.folder.path().to_str().unwrap().into();
        });
        scene.is("changed", 4, &["--source"]);
        fs::write(scene.receipt(), &whole).unwrap();
    }
    edit(&scene.receipt(), |receipt| {
        let tensor = &mut receipt["models"][0]["tensors"][0];
        tensor["shape"] = json!([u64::MAX, u64::MAX]);
        tensor["bytes"] = u64::MAX.into();
    });
    scene.is("changed", 4, &[]);
    for text in ["", "{}", "[", "null", "{\"receipt\": 1}", "{\"receipt\": -1}", "{\"receipt\": 1e99}"] {
        fs::write(scene.receipt(), text).unwrap();
        scene.is("unreadable", 3, &[]);
    }
    fs::write(scene.receipt(), format!("{{\"receipt\": 1, \"x\": {}", "[".repeat(1 << 20))).unwrap();
    scene.is("unreadable", 3, &[]);
    fs::remove_file(scene.receipt()).unwrap();
    std::os::unix::fs::symlink(&pipe, scene.receipt()).unwrap();
    let _ = verify(&scene.ferry, [scene.output()]).expect(4);
    let _ = verify(&scene.ferry, [scene.folder.path()]).expect(3);
}

#[test]
fn an_older_receipt_goes_with_its_output() {
    let scene = Scene::new();
    // Not without --force, not even where only the receipt is left.
    let receipted = |options: &[&str]| {
        let arguments = ["convert".into(), scene.input().into_os_string(), scene.output().into_os_string()];
        let mut command = scene.ferry.command(arguments);
        tensorferry_tests::ferry::run(command.args(options))
    };
    fs::remove_file(scene.output()).unwrap();
    receipted(&["--receipt"]).expect(2).says(&["ferry.json"]);
    receipted(&[]).expect(0).says(&["out.pt.ferry.json"]);
    receipted(&["--force"]).expect(0);
    assert!(!scene.receipt().exists());
    assert_eq!(names_in(scene.folder.path()), ["in.safetensors", "out.pt"]);
    // What is no receipt is somebody else's.
    fs::write(scene.receipt(), "mine").unwrap();
    receipted(&["--force"]).expect(0);
    assert_eq!(fs::read(scene.receipt()).unwrap(), b"mine");
}

#[test]
fn a_folders_receipt_is_replaced_and_not_carried() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [model, output, again] = ["model", "output", "again"].map(|name| folder.path().join(name));
    fs::create_dir(&model).unwrap();
    Model::of_size(1 << 20, 6, 3).write(&model.join("model.safetensors")).unwrap();
    fs::write(model.join("config.json"), "{}").unwrap();
    ferry.convert(&model, &output, &["--to", "safetensors", "--receipt"]);
    fs::write(output.join("mine.txt"), "mine").unwrap();
    let first = fs::read(output.join("receipt.ferry.json")).unwrap();
    fs::write(model.join("config.json"), "{ }").unwrap();
    ferry.convert(&model, &output, &["--to", "safetensors", "--receipt", "--force"]);
    assert_ne!(fs::read(output.join("receipt.ferry.json")).unwrap(), first);
    verify(&ferry, [&output]).expect(0);
    ferry
        .convert(&output, &again, &["--to", "torch", "--receipt"])
        .says(&["receipt.ferry.json", "is the receipt of the input"]);
    assert_eq!(read(&again.join("receipt.ferry.json"))["input"]["path"], output.to_str().unwrap());
    ferry.convert(&model, &output, &["--to", "safetensors", "--force"]);
    assert_eq!(names_in(&output), ["config.json", "mine.txt", "model.safetensors"]);
}

/// A receipt never stands with an output that it does not describe.
#[cfg(debug_assertions)]
#[test]
fn killed_at_every_stage_of_the_commit() {
    use std::collections::BTreeSet;
    let ferry = Ferry::new();
    let mut killed = BTreeSet::new();
    for (output, options) in [
        ("work/out.pt", &[][..]),
        ("work/model.safetensors", &["-o", "max_shard_size=100KB"]),
        ("work/out/", &["--to", "torch"]),
    ] {
        for with_old in [false, true] {
            for stage in tensorferry::engine::context::fault::STAGES {
                for time in 1..=3 {
                    let folder = tempdir().unwrap();
                    let at = |name: &str| folder.path().join(name);
                    for (name, seed) in [("old.safetensors", 1), ("new.safetensors", 2)] {
                        Model::of_size(1 << 18, 4, seed).write(&at(name)).unwrap();
                    }
                    let options = [options, &["--receipt", "--verify", "--force"]].concat();
                    if with_old {
                        ferry.convert(&at("old.safetensors"), &at(output), &options);
                    }
                    let arguments = [at("new.safetensors"), at(output)];
                    let mut command = ferry.command(["convert"]);
                    command.args(&arguments).args(&options).env("FERRY_FAULT", format!("{stage}@{time}"));
                    let outcome = tensorferry_tests::ferry::run(&mut command);
                    let there = files_below(folder.path());
                    let receipts = there.iter().filter(|path| {
                        let text = path.to_string_lossy();
                        text.ends_with(".ferry.json") && !text.contains(".ferry-stage-")
                    });
                    if receipts.count() > 0 {
                        verify(&ferry, [folder.path()]).expect(0);
                    }
                    if outcome.code.is_some() {
                        break;
                    }
                    killed.insert(stage);
                    ferry.convert(&at("new.safetensors"), &at(output), &options);
                    verify(&ferry, ["--source".as_ref(), folder.path().as_os_str()]).expect(0);
                }
            }
        }
    }
    for stage in ["file-renamed", "index-renamed", "old-index-removed", "folder-renamed", "folder-exchanged"]
    {
        assert!(killed.contains(stage), "{killed:?}");
    }
}
