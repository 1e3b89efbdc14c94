//! Tests of untrusted folders that contain links in place of files. The content of a link's target
//! must not be in any output, page or message. Each row is also run with a copy in place of the
//! link, which shows that the file is used.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::files::{copy_below, files_below};
use tensorferry_tests::{Ferry, fixtures};

/// Sixteen bytes that are also valid as four numbers.
const CANARY: &str = "TOPSECRETCANARY!";

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes())
}

/// Returns whether the canary is in an output or in the messages.
fn is_out(ferry: &Ferry, done: &Outcome) -> bool {
    let out = ferry.at("out");
    let in_files =
        out.exists() && files_below(&out).iter().any(|name| holds(&std::fs::read(out.join(name)).unwrap()));
    in_files || holds(done.stdout.as_bytes()) || holds(done.stderr.as_bytes())
}

/// An untrusted file or folder, in which one entry will be a link.
struct Scene {
    ferry: Ferry,
    /// The entry that is replaced with a link. The next field contains the arguments of the
    /// command.
    entry: &'static str,
    arguments: &'static [&'static str],
}

impl Scene {
    fn new(entry: &'static str, content: &str, arguments: &'static [&'static str]) -> Self {
        let ferry = Ferry::new();
        ferry.safetensors("m/model.safetensors", &[("w", "F32", &[4], &[0; 16])]);
        ferry.write("m/sub/other.txt", "nothing");
        ferry.write("d/a.jsonl", "{\"a\":\"x\"}\n");
        ferry.write("splits/data/test-00000-of-00001.jsonl", "{\"a\":\"x\"}\n");
        ferry.write(
            "zoo.toml",
            "[[zoo]]\nroot = 'm'\noutput = 'out/{path}.pt'\ncompanions = ['*.txt']\nmodels = 'files'\n",
        );
        ferry.write(&format!("elsewhere/{}", Path::new(entry).file_name().unwrap().display()), content);
        Self { ferry, entry, arguments }
    }

    fn elsewhere(&self) -> PathBuf {
        self.ferry.at("elsewhere").join(Path::new(self.entry).file_name().unwrap())
    }

    fn run(&self) -> Outcome {
        std::fs::create_dir_all(self.ferry.at("out")).unwrap();
        let mut command = self.ferry.command(self.arguments);
        tensorferry_tests::ferry::run(command.current_dir(self.ferry.home()))
    }

    fn clear(&self) {
        for path in [self.ferry.at("out"), self.ferry.at("zoo.report")] {
            if path.exists() {
                std::fs::remove_dir_all(path).unwrap();
            }
        }
        let _ = std::fs::remove_file(self.ferry.at("zoo.journal.jsonl"));
    }
}

fn weights() -> String {
    let tensors: &[(&str, &str, &[u64], &[u8])] = &[("w", "F32", &[4], CANARY.as_bytes())];
    String::from_utf8(tensorferry_tests::model::safetensors(tensors)).unwrap()
}

#[test]
fn what_a_link_leads_to_is_nowhere() {
    let text = CANARY.to_owned();
    let config = format!("{{\"torch_dtype\": \"float32\", \"model_type\": \"{CANARY}\"}}");
    let row = format!("{{\"a\": \"{CANARY}\"}}\n");
    let index = "{\"weight_map\": {\"w\": \"part.safetensors\"}}";
    let to_folder: &[&str] = &["convert", "m", "out/o/", "--to", "torch", "--receipt"];
    let follows: &[&str] = &["convert", "m", "out/o/", "--to", "torch", "--follow-links"];
    let rows: [(&str, &str, &[&str]); 21] = [
        ("m/README.md", &text, to_folder),
        ("m/tokenizer.json", &config, to_folder),
        ("m/chat_template.jinja", &text, to_folder),
        ("m/README", &text, follows),
        ("m/tokenizer.model", &text, follows),
        ("m/config.json", &config, &["convert", "m", "out/o/", "--to", "torch", "--step", "cast:bf16"]),
        ("m/config.json", &config, &["inspect", "m"]),
        ("m/config.json", &config, &["inspect", "m", "--html", "out/page.html"]),
        ("m/sub/notes.txt", &text, to_folder),
        ("m/model.safetensors", &weights(), &["convert", "m", "out/o.pt"]),
        ("m/part.safetensors", &weights(), &["convert", "m/model.safetensors.index.json", "out/o.pt"]),
        ("m/model.safetensors", &weights(), &["convert", "m", "out/o.gguf"]),
        ("m/notes.txt", &text, &["run", "zoo.toml"]),
        ("m/model.safetensors", &weights(), &["run", "zoo.toml"]),
        ("d/b.jsonl", &row, &["convert", "d", "out/o.csv"]),
        ("d/b.jsonl", &row, &["convert", "d/*.jsonl", "out/o.csv"]),
        ("d/b.jsonl", &row, &["convert", "d", "out/o.csv", "--allow-loss", "input"]),
        ("d/b.jsonl", &row, &["cat", "d"]),
        ("d/b.jsonl", &row, &["cat", "d", "-i", "files=*.jsonl"]),
        ("d/b.jsonl", &row, &["inspect", "d", "--html", "out/page.html"]),
        ("splits/data/train-00000-of-00001.jsonl", &row, &["cat", "splits", "--part", "train"]),
    ];
    for (entry, content, arguments) in rows {
        let scene = Scene::new(entry, content, arguments);
        scene.ferry.write("m/model.safetensors.index.json", index);
        if !arguments.contains(&"m/model.safetensors.index.json") {
            std::fs::remove_file(scene.ferry.at("m/model.safetensors.index.json")).unwrap();
        }
        let at = scene.ferry.at(entry);
        let _ = std::fs::remove_file(&at);
        std::fs::copy(scene.elsewhere(), &at).unwrap();
        let taken = scene.run();
        assert!(is_out(&scene.ferry, &taken), "{entry} is not used at all: {taken}");

        let depth = entry.matches('/').count();
        let relative = PathBuf::from("../".repeat(depth)).join("elsewhere").join(at.file_name().unwrap());
        let between = at.with_file_name(".between");
        for (kind, target) in
            [("relative", relative.clone()), ("absolute", scene.elsewhere()), ("chain", between.clone())]
        {
            scene.clear();
            for link in [&at, &between] {
                let _ = std::fs::remove_file(link);
            }
            if kind == "chain" {
                symlink(&relative, &between).unwrap();
            }
            symlink(target, &at).unwrap();
            let done = scene.run();
            assert!(!is_out(&scene.ferry, &done), "{entry}, {kind}: {done}");
            // Every omitted file is reported.
            let name = at.file_name().unwrap().to_str().unwrap();
            assert!(done.stderr.contains(name) || done.stdout.contains(name), "{entry}, {kind}: {done}");
        }
        scene.clear();
        // Replace a parent folder with a link.
        let (folder, moved) = (at.parent().unwrap(), scene.ferry.at("moved"));
        let _ = std::fs::remove_file(&at);
        let _ = std::fs::remove_file(&between);
        if folder != scene.ferry.at("m") && folder != scene.ferry.at("d") {
            std::fs::copy(scene.elsewhere(), &at).unwrap();
            std::fs::rename(folder, &moved).unwrap();
            symlink(&moved, folder).unwrap();
            let done = scene.run();
            assert!(!is_out(&scene.ferry, &done), "{entry}, folder: {done}");
        }
    }
}

/// Tests each file with tensor bytes in a checkpoint of each format.
#[test]
fn no_part_of_a_checkpoint_is_taken_from_elsewhere() {
    let mut tried = 0;
    for format in
        ["safetensors", "torch", "keras", "numpy", "tf-bundle", "torch-dcp", "orbax", "gguf", "flax"]
    {
        let ferry = Ferry::new();
        let bytes = CANARY.as_bytes().repeat(64);
        let model = ferry.safetensors("m.safetensors", &[("w", "F32", &[16, 16], &bytes)]);
        ferry.convert(&model, &ferry.at("m/"), &["--to", format]);
        for name in files_below(&ferry.at("m")) {
            let at = ferry.at("m").join(&name);
            if !holds(&std::fs::read(&at).unwrap()) {
                continue;
            }
            let moved = ferry.at("moved");
            std::fs::rename(&at, &moved).unwrap();
            symlink(&moved, &at).unwrap();
            let done = ferry.try_convert(&ferry.at("m"), &ferry.at("out/o.pt"), &[]).expect(3);
            assert!(!is_out(&ferry, &done), "{format}, {name:?}: {done}");
            assert!(
                done.stderr.contains("leads out") && done.stderr.contains("--follow-links"),
                "{format}: {done}"
            );
            ferry.try_convert(&ferry.at("m"), &ferry.at("out/o.pt"), &["--follow-links"]).expect(0);
            assert!(holds(&std::fs::read(ferry.at("out/o.pt")).unwrap()), "{format}, {name:?}");
            std::fs::remove_file(ferry.at("out/o.pt")).unwrap();
            std::fs::remove_file(&at).unwrap();
            std::fs::rename(&moved, &at).unwrap();
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried}");
}

/// Tests each file of sets written by frameworks. A file to which a model refers must be in the
/// model's folder, for any path.
#[test]
fn no_part_of_a_set_is_taken_from_elsewhere() {
    let rows = [
        ("megatron", "gpt_tp2_pp2", "o.pt", ""),
        ("deepspeed", "zero1_fp32", "o.pt", ""),
        ("deepspeed", "zero3_fp32", "o.pt", ""),
        ("mds", "zstd", "o.jsonl", ""),
        ("webdataset", "sharded", "o.jsonl", ""),
        ("onnx", "external_many_files", "o.pt", "model.onnx"),
    ];
    for (section, case, output, names_the_others) in rows {
        let ferry = Ferry::new();
        let [home, out, moved] = ferry.paths(["m", output, "moved"]);
        copy_below(&fixtures::folder().join(section).join(case), &home);
        std::fs::remove_file(home.join("expected.json")).unwrap();
        let input = if home.join("ckpt").exists() { home.join("ckpt") } else { home.clone() };
        ferry.convert(&input, &out, &[]);
        let expected = std::fs::read(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        let names = files_below(&home);
        assert!(names.len() > 2, "{section}: {names:?}");
        for name in names {
            let at = home.join(&name);
            std::fs::rename(&at, &moved).unwrap();
            symlink(&moved, &at).unwrap();
            let is_external = !names_the_others.is_empty() && name != Path::new(names_the_others);
            let file = name.file_name().unwrap().to_str().unwrap();
            let advice = if is_external { "not even with --follow-links" } else { "or pass --follow-links" };
            let refused = ferry.try_convert(&input, &out, &[]).expect(3);
            refused.says(&["leads out of the folder", file, advice]);
            let followed = ferry.try_convert(&input, &out, &["--follow-links"]);
            if is_external {
                followed.expect(3).says(&[file, advice]);
                assert!(!out.exists(), "{section}, {name:?}");
            } else {
                followed.expect(0);
                assert!(std::fs::read(&out).unwrap() == expected, "{section}, {name:?}");
                std::fs::remove_file(&out).unwrap();
            }
            std::fs::remove_file(&at).unwrap();
            std::fs::rename(&moved, &at).unwrap();
        }
    }
}

/// Tests that links within a folder, links into the Hub's cache, and links that the user passes are
/// followed.
#[test]
fn links_that_stay_or_are_named_are_followed() {
    let ferry = Ferry::new();
    let home = |name: &str| ferry.at(name);
    ferry.safetensors("hub/models--a--b/blobs/1", &[("w", "F32", &[4], CANARY.as_bytes())]);
    ferry.safetensors("store/w", &[("w", "F32", &[4], CANARY.as_bytes())]);
    for folder in ["cached", "annex/.git/annex/objects", "named"] {
        std::fs::create_dir_all(home(folder)).unwrap();
    }
    // Links are followed in a folder that huggingface_hub filled from its cache, in git-annex, and
    // in a path that the user passes.
    symlink(home("hub/models--a--b/blobs/1"), home("cached/model.safetensors")).unwrap();
    std::fs::rename(home("store/w"), home("annex/.git/annex/objects/SHA256")).unwrap();
    symlink(".git/annex/objects/SHA256", home("annex/model.safetensors")).unwrap();
    symlink(home("annex/.git/annex/objects/SHA256"), home("named/model.safetensors")).unwrap();
    symlink(home("annex"), home("folder")).unwrap();
    for input in ["cached", "annex", "folder", "named/model.safetensors"] {
        ferry.convert(&home(input), &home("o.pt"), &["--force", "--strict"]);
        assert!(holds(&std::fs::read(home("o.pt")).unwrap()), "{input}");
    }
    // A model and its data are in the Hub's cache.
    let cached = home("hub/models--a--b/snapshots/1");
    std::fs::create_dir_all(&cached).unwrap();
    for name in ["model.onnx", "model.onnx.data"] {
        let blob = home("hub/models--a--b/blobs").join(name.len().to_string());
        std::fs::copy(fixtures::case("onnx", "external_one_file").folder.join(name), &blob).unwrap();
        symlink(blob, cached.join(name)).unwrap();
    }
    for input in [cached.clone(), cached.join("model.onnx")] {
        ferry.convert(&input, &home("o.npz"), &["--force", "--allow-loss", "graph"]);
    }
    // A manifest names the root, but not the files in the root.
    let manifest = |more: &str| {
        ferry.write("zoo.toml", format!("[[zoo]]\nroot = 'named'\noutput = 'out/{{path}}.pt'\n{more}"))
    };
    ferry.on("run", manifest(""), &[]).expect(2).says(&["model.safetensors", "follow_links = true"]);
    ferry.on("run", manifest("follow_links = true\n"), &[]).expect(0);
    assert!(holds(&std::fs::read(home("out/model.pt")).unwrap()));
}

/// Tests the assets that `-o like=SAVEDMODEL` copies from that model to the output.
#[test]
fn no_asset_of_a_like_is_taken_from_elsewhere() {
    let ferry = Ferry::new();
    let [like, model, output] = ferry.paths(["like", "m.safetensors", "out/"]);
    copy_below(&fixtures::case("tf", "saved_model_pb").folder.join("saved_model"), &like);
    ferry.convert(&like, &model, &[]);
    let convert = || {
        let options = ["--to", "saved-model", "-o", &format!("like={}", like.display()), "--force"];
        ferry.try_convert(&model, &output, &options).expect(0)
    };
    let asset = like.join("assets/vocab.txt");
    std::fs::write(&asset, CANARY).unwrap();
    let taken = convert();
    assert!(is_out(&ferry, &taken), "{taken}");
    std::fs::rename(&asset, ferry.at("elsewhere")).unwrap();
    symlink("../../elsewhere", &asset).unwrap();
    std::fs::remove_dir_all(&output).unwrap();
    let done = convert();
    assert!(!is_out(&ferry, &done), "{done}");
    done.says(&["assets/vocab.txt", "leads out of the folder"]);
}
