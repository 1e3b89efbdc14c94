//! Tests of receipts, which describe how an output was created, and of `ferry verify`, which checks
//! outputs against receipts. The tests cover unchanged and damaged outputs, and receipts with false
//! claims.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::hex;
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::files::{files_below, names_in};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::json::{edit, read};
use tensorferry_tests::model::{Model, Tensors};
use tensorferry_tests::{Ferry, args};

/// Returns the verdict on one output, the exit code, and the output's record in the `--json`
/// document.
fn verdict(ferry: &Ferry, output: &Path, options: &[&str]) -> (String, Option<i32>, Value) {
    let outcome = ferry.on("verify", output, &[options, &["--json"]].concat());
    let document = outcome.json();
    let outputs = document["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 1, "{document}");
    assert_eq!(document["ok"], outcome.code == Some(0), "{outcome}");
    (outputs[0]["verdict"].as_str().unwrap().to_owned(), outcome.code, outputs[0].clone())
}

/// A model of two tensors, converted to torch with a receipt.
struct Scene {
    ferry: Ferry,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { ferry: Ferry::new() };
        let tensors: Tensors<'_> =
            &[("a.weight", "F32", &[2, 3], &[1; 24]), ("a.bias", "I16", &[4], &[2; 8])];
        scene.ferry.safetensors("in.safetensors", tensors);
        scene.ferry.convert(&scene.input(), &scene.output(), &["--receipt"]);
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.ferry.at(name)
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

/// Returns the subject, name and message of the first problem in a record.
fn first(record: &Value) -> (&str, &str, &str) {
    let problem = &record["problems"][0];
    let text = |key: &str| problem[key].as_str().unwrap_or_else(|| panic!("no {key}: {record}"));
    (text("subject"), text("name"), text("what"))
}

#[test]
fn a_receipt_says_what_was_made_from_what() {
    let ferry = Ferry::new();
    let case = case("torch", "zip_module_state_dict");
    let output = ferry.at("model.safetensors");
    let report = ferry.convert(&case.input(), &output, &["--receipt", "-o", "tied=keep", "--json"]).json();
    let path = ferry.at("model.safetensors.ferry.json");
    assert_eq!(report["receipt"], path.to_str().unwrap());
    assert_eq!(
        report["files"],
        json!([output.to_str().unwrap()]),
        "the receipt is none of the output's files"
    );
    let receipt = read(&path);
    assert_eq!(receipt["receipt"], 3);
    assert_eq!(receipt["ferry"], env!("CARGO_PKG_VERSION"));
    assert_eq!(receipt["input"]["path"], case.input().to_str().unwrap());
    assert_eq!(receipt["models"][0]["from"]["id"], "torch");
    assert_eq!(receipt["models"][0]["from"]["plugin"], "tensorferry");
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
            "sha256": sha256(&content),
        }]);
        assert_eq!(*record, expected);
    }
    let tensors = receipt["models"][0]["tensors"].as_array().unwrap();
    let facts = |tensor: &Value| {
        let text = |key: &str| tensor[key].as_str().unwrap().to_owned();
        let shape = tensor["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        (text("name"), (text("dtype"), shape))
    };
    let expected = case.all().into_iter().map(|(name, (dtype, shape, _))| (name, (dtype, shape)));
    assert_eq!(
        tensors.iter().map(facts).collect::<BTreeMap<String, (String, Vec<u64>)>>(),
        expected.collect()
    );
    let shown = ferry.on("inspect", case.input(), &["--json", "--digest", "blake3"]).expect(0).json();
    let digest = |tensor: &Value, digest: &Value| (tensor["name"].clone().to_string(), digest.clone());
    let of_input = shown["tensors"].as_array().unwrap().iter().map(|t| digest(t, &t["digest"]["blake3"]));
    let of_receipt = tensors.iter().map(|t| digest(t, &t["content"]));
    assert_eq!(of_receipt.collect::<BTreeMap<_, _>>(), of_input.collect());
    let record = verdict(&ferry, &output, &[]);
    assert_eq!((record.0.as_str(), record.1), ("ok", Some(0)), "{}", record.2);
    assert_eq!((&record.2["tensors"], &record.2["files"]), (&json!(tensors.len()), &json!(1)));
}

/// Tests scalars in GGUF, which has no tensors without dimensions. The changed shape is reported as
/// a loss, and the bytes are still compared.
#[test]
fn a_shape_that_a_loss_names_is_compared_without_it() {
    let ferry = Ferry::new();
    let input =
        ferry.safetensors("m.safetensors", &[("s", "F32", &[], &[1; 4]), ("w", "F32", &[2], &[2; 8])]);
    let output = ferry.at("out.gguf");
    let done = ferry.convert(&input, &output, &["--verify", "--receipt"]);
    done.says(&["changed: attribute \"s\"", "[1]"]);
    assert_eq!(ferry.inspect(&output)["tensors"][0]["shape"], json!([1]));
    let record = verdict(&ferry, &output, &[]);
    assert_eq!((record.0.as_str(), record.1), ("ok", Some(0)), "{}", record.2);
    // Different bytes are still an error, despite the reported change of shape.
    let path = ferry.at("out.gguf.ferry.json");
    let receipt = fs::read_to_string(&path).unwrap();
    let content = read(&path)["models"][0]["tensors"][0]["content"].as_str().unwrap().to_owned();
    fs::write(&path, receipt.replace(&content, &"0".repeat(content.len()))).unwrap();
    assert_eq!(verdict(&ferry, &output, &[]).0, "changed");
}

/// Tests that tensors that the writer quantizes are reported as not compared, because the digests
/// describe the input.
#[test]
fn tensors_that_were_quantized_are_not_compared() {
    let ferry = Ferry::new();
    let values = [0, 0, 0x80, 0x3f].repeat(64);
    let tensors: Tensors<'_> = &[("a.weight", "F32", &[2, 32], &values), ("b", "F32", &[2], &[2; 8])];
    let input = ferry.safetensors("in.safetensors", tensors);
    let output = ferry.at("out.gguf");
    ferry.convert(&input, &output, &["-o", "quantize=a*=q8_0", "--verify", "--receipt"]);
    let (words, code, record) = verdict(&ferry, &output, &[]);
    assert_eq!((words.as_str(), code), ("ok", Some(0)), "{record}");
    assert_eq!(record["not_compared"], json!(["tensor \"a.weight\": quantized to Q8_0"]));
    assert_eq!(record["tensors"], 1, "{record}");
    // The digests include the rounding by a step.
    let third = [0xab, 0xaa, 0xaa, 0x3e].repeat(64);
    let input = ferry.safetensors("third.safetensors", &[("a", "F32", &[64], &third)]);
    let output = ferry.at("cast.gguf");
    ferry.convert(&input, &output, &["--step", "cast:f16", "--receipt"]).says(&["changed: precision \"a\""]);
    edit(&ferry.at("cast.gguf.ferry.json"), |receipt| {
        receipt["models"][0]["tensors"][0]["content"] = json!("0".repeat(64));
    });
    let (_, _, record) = verdict(&ferry, &output, &[]);
    let problems = record["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["what"] == "has different content"), "{record}");
}

/// Tests that the receipt names the algorithm that the user requests, and that the output is
/// checked with it.
#[test]
fn a_receipt_has_the_digests_that_were_asked_for() {
    let ferry = Ferry::new();
    let input = ferry.safetensors("m.safetensors", &[("w", "F32", &[2], &[1; 8])]);
    let manifest = "[[job]]\ninput = \"m.safetensors\"\noutput = \"run.pt\"\nreceipt = \"blake3\"\n";
    ferry.on("run", ferry.write("zoo.toml", manifest), &[]).expect(0);
    ferry.convert(&input, &ferry.at("m.pt"), &["--receipt=blake3"]);
    for name in ["m.pt", "run.pt"] {
        let output = ferry.at(name);
        let file = read(&ferry.at(format!("{name}.ferry.json")))["output"]["files"][0].clone();
        assert_eq!(file["blake3"], blake3::hash(&fs::read(&output).unwrap()).to_hex().as_str());
        assert!(file["sha256"].is_null(), "{file}");
        assert_eq!(verdict(&ferry, &output, &["--source"]).0, "ok");
        let mut content = fs::read(&output).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(&output, content).unwrap();
        assert_eq!(verdict(&ferry, &output, &["--quick"]).0, "changed");
    }
    ferry.try_convert(&input, &ferry.at("x.pt"), &["--receipt=md5"]).expect(2);
}

/// Tests tensors that the copy reads in several windows. The outputs include archives whose headers
/// are filled in afterwards, cast and transposed tensors, and shards. The digests in the receipts
/// must equal digests of the whole files.
#[test]
fn digests_of_what_the_copy_takes_in_pieces() {
    let ferry = Ferry::new();
    let bytes: Vec<u8> = (0..5_300_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let tensors: Tensors<'_> = &[
        ("a.weight", "F32", &[1000, 1200], &bytes[..4_800_000]),
        ("b", "F32", &[25], &bytes[..100]),
        ("c", "U8", &[2_500_000], &bytes[7..2_500_007]),
        ("d", "U8", &[300_001], &bytes[9..300_010]),
    ];
    let input = ferry.safetensors("m.safetensors", tensors);
    let conversions: [(&str, &[&str]); 6] = [
        ("m.pt", &[]),
        ("one.pt", &["--threads", "1"]),
        ("m.index", &[]),
        ("cast.safetensors", &["--step", "cast:bf16"]),
        ("turned.pt", &["--step", "transpose,where=*weight"]),
        ("shards/", &["--to", "safetensors", "-o", "max_shard_size=3MB"]),
    ];
    for (name, options) in conversions {
        let output = ferry.at(name);
        for (digest, of) in [("--receipt=blake3", "blake3"), ("--receipt", "sha256")] {
            ferry.convert(&input, &output, &[options, &[digest, "--verify", "--force"]].concat());
            assert_eq!(verdict(&ferry, &output, &["--source"]).0, "ok", "{name}");
            let receipt = match name.strip_suffix('/') {
                Some(folder) => ferry.at(folder).join("receipt.ferry.json"),
                None => ferry.at(format!("{name}.ferry.json")),
            };
            let folder = receipt.parent().unwrap();
            let record = read(&receipt);
            let files = [&record["input"]["files"], &record["output"]["files"]];
            let files: Vec<&Value> = files.iter().flat_map(|files| files.as_array().unwrap()).collect();
            assert!(files.len() >= 2);
            for file in files {
                let path = folder.join(file["name"].as_str().unwrap());
                let content = fs::read(if path.exists() { path } else { input.clone() }).unwrap();
                let found = match of {
                    "blake3" => blake3::hash(&content).to_hex().to_string(),
                    _ => sha256(&content),
                };
                assert_eq!(file[of], found.as_str(), "{name}: {file}");
            }
        }
    }
}

/// Checks the digests in `host/docs/receipt.md`, byte for byte.
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

/// Tests that outputs of every shape can be verified by each of their names.
#[test]
fn outputs_of_every_shape_are_verified_by_every_name() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let file = ferry.model("in.safetensors", &Model::of_size(4 << 20, 16, 1));
    for file in ["model/model.safetensors", "model/unet/model.safetensors"] {
        ferry.model(file, &Model::of_size(1 << 20, 6, 2));
    }
    ferry.write("model/config.json", "{}");
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
        assert!(at(receipt).is_file(), "{output}: {:?}", files_below(ferry.home()));
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
    // Each output is verified once, even if several arguments name it.
    let all = ferry.run(args!["verify", ferry.home(), at("1"), at("1/out.pt")]).expect(0);
    assert!(all.stdout.ends_with("5 outputs: 5 ok\n"), "{all}");
    ferry.on("verify", ferry.home(), &["--threads", "1", "--memory", "1MiB", "--quick"]).expect(0);
}

#[test]
fn a_damaged_output_is_told_from_a_whole_one() {
    let scene = Scene::new();
    let whole = fs::read(scene.output()).unwrap();
    let at = whole.windows(24).position(|bytes| bytes == [1; 24]).unwrap();
    let file = fs::File::options().write(true).open(scene.output()).unwrap();
    file.write_all_at(&[7], at as u64).unwrap();
    let record = scene.is("changed", 4, &["--quick"]);
    assert_eq!(first(&record), ("file", "out.pt", "has a different digest"));
    assert_eq!(record["tensors"], 0);
    // The archive's own checksum finds the damage first, and the digest shows that the file has
    // changed.
    let record = scene.is("changed", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "has a different digest"));

    fs::write(scene.output(), &whole[..whole.len() - 1]).unwrap();
    let record = scene.is("changed", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "has a different length"));

    // Replace the output with a different complete model.
    let tensors: Tensors<'_> = &[("a.weight", "F32", &[2, 3], &[3; 24]), ("b", "I16", &[4], &[2; 8])];
    let other = scene.ferry.safetensors("other.safetensors", tensors);
    scene.ferry.convert(&other, &scene.at("other.pt"), &[]);
    fs::copy(scene.at("other.pt"), scene.output()).unwrap();
    let text = scene.is("changed", 4, &[])["problems"].to_string();
    for part in ["has different content", "a.bias", "is missing", "is not in the receipt"] {
        assert!(text.contains(part), "no {part}: {text}");
    }

    fs::remove_file(scene.output()).unwrap();
    let record = scene.is("missing", 4, &[]);
    assert_eq!(first(&record), ("file", "out.pt", "is missing"));
    scene.ferry.on("verify", scene.output(), &[]).expect(4).says(&["verification failed"]);

    fs::write(scene.output(), whole).unwrap();
    scene.is("ok", 0, &[]);
    fs::remove_file(scene.receipt()).unwrap();
    scene.is("no receipt", 4, &[]);
    scene.ferry.on("verify", scene.at("nothing.pt"), &[]).expect(2).says(&["no such file"]);
}

/// Tests that each output gets its own verdict even if one output is bad.
#[test]
fn the_rest_is_verified_too() {
    let scene = Scene::new();
    for name in ["a", "b", "c", "d"] {
        scene.ferry.convert(&scene.input(), &scene.at(&format!("more/{name}.pt")), &["--receipt"]);
    }
    fs::remove_file(scene.at("more/a.pt")).unwrap();
    fs::write(scene.at("more/b.pt"), b"x").unwrap();
    fs::write(scene.at("more/c.pt.ferry.json"), b"x").unwrap();
    let outcome = scene.ferry.on("verify", scene.ferry.home(), &[]).expect(4);
    let end = "5 outputs: 2 ok, 1 unreadable, 1 missing, 1 changed\n";
    assert!(outcome.stdout.ends_with(end), "{outcome}");
    // Files without a receipt are counted, and the first such file is named.
    let _ =
        outcome.prints(&["no receipt lists ", "more/c.pt"]).says(&["3 of 5 outputs could not be verified"]);
    fs::remove_dir_all(scene.at("more")).unwrap();
    scene.ferry.on("verify", scene.ferry.home(), &[]).expect(0);
}

/// Tests that columns that a format renames or reads back differently are reported as not compared.
#[test]
fn columns_that_a_format_changes_are_left_out() {
    let ferry = Ferry::new();
    for (input, rows, output, options, left_out) in [
        ("a.jsonl", "{\"id\": \"x\", \"n\": 1}\n", "a.tar", &["-o", "key=id"][..], "__key__"),
        ("s.jsonl", "{\"id\": 1, \"st\": {\"a\": 1}}\n", "s.tfrecord", &[], "st.a"),
        ("t.csv", "t,n\n2020-01-01T00:00:00,1\n,2\n", "mds", &["--to", "mds"], "t"),
    ] {
        fs::write(ferry.at(input), rows).unwrap();
        let output = ferry.at(output);
        ferry.convert(&ferry.at(input), &output, &[options, &["--receipt"]].concat());
        let (verdict, code, record) = verdict(&ferry, &output, &[]);
        assert_eq!((verdict.as_str(), code), ("ok", Some(0)), "{record}");
        let said = record["not_compared"].to_string();
        assert!(said.contains(&format!("column \\\"{left_out}\\\"")), "{said}");
    }
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
    assert_eq!(first(&record), ("source", "in.safetensors", "has a different digest"));
    // The path may be hostile, so the digest of that file must not be shown.
    assert!(record["problems"][0]["found"].is_null(), "{record}");
    fs::remove_file(scene.input()).unwrap();
    scene.is("ok", 0, &[]);
    let record = scene.is("missing", 4, &["--source", "--quick"]);
    assert_eq!(first(&record), ("source", "in.safetensors", "is missing"));
}

#[test]
fn an_edited_receipt_does_not_pass() {
    let scene = Scene::new();
    let whole = fs::read(scene.receipt()).unwrap();
    let edits: [(&str, i32, fn(&mut Value)); 10] = [
        ("changed", 4, |r| r["models"][0]["tensors"][0]["content"] = "00".repeat(32).into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["content"] = "+é".into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["dtype"] = "I32".into()),
        ("changed", 4, |r| r["models"][0]["tensors"][0]["shape"] = json!([6])),
        ("changed", 4, |r| r["models"][0]["content"] = "00".repeat(32).into()),
        ("changed", 4, |r| drop(r["models"][0]["tensors"].as_array_mut().unwrap().pop())),
        ("changed", 4, |r| r["output"]["files"][0]["sha256"] = "00".repeat(32).into()),
        ("unreadable", 5, |r| r["output"]["format"]["id"] = "nothing".into()),
        ("unreadable", 3, |r| r["receipt"] = 4.into()),
        ("unreadable", 3, |r| drop(r.as_object_mut().unwrap().remove("output"))),
    ];
    for (words, code, change) in edits {
        edit(&scene.receipt(), change);
        let (verdict, found, record) = scene.verdict(&[]);
        assert_eq!((verdict.as_str(), found), (words, Some(code)), "{record}\n{}", read(&scene.receipt()));
        fs::write(scene.receipt(), &whole).unwrap();
    }
    // The receipt is from a different version of ferry or of a plugin, or has unknown fields.
    edit(&scene.receipt(), |receipt| {
        receipt["ferry"] = "9.9.9".into();
        receipt["output"]["format"]["version"] = "9.9.9".into();
        receipt["output"]["format"]["output_revision"] = 99.into();
        receipt["models"][0]["tensors"][0]["colour"] = "blue".into();
        receipt["future"] = json!({ "a": [1, 2] });
    });
    scene.is("ok", 0, &[]);
}

/// Tests that the claims in a hostile receipt are compared and never acted on. The claims must not
/// cause access outside the receipt's folder, waiting, or large allocations.
#[test]
fn a_hostile_receipt_does_no_harm() {
    let scene = Scene::new();
    let whole = fs::read(scene.receipt()).unwrap();
    fs::create_dir(scene.at("sub")).unwrap();
    let pipe = scene.at("sub/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", scene.at("sub/zero")).unwrap();
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
            receipt["input"]["folder"] = scene.ferry.home().to_str().unwrap().into();
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
    let _ = scene.ferry.on("verify", scene.output(), &[]).expect(4);
    let _ = scene.ferry.on("verify", scene.ferry.home(), &[]).expect(3);
}

#[test]
fn an_older_receipt_goes_with_its_output() {
    let scene = Scene::new();
    // A receipt is not replaced without --force, even if its output is missing.
    let receipted = |options: &[&str]| scene.ferry.try_convert(&scene.input(), &scene.output(), options);
    fs::remove_file(scene.output()).unwrap();
    receipted(&["--receipt"]).expect(2).says(&["ferry.json"]);
    receipted(&[]).expect(0).says(&["out.pt.ferry.json"]);
    receipted(&["--force"]).expect(0);
    assert!(!scene.receipt().exists());
    assert_eq!(scene.ferry.names(), ["in.safetensors", "out.pt"]);
    // A file that is not a receipt is not removed.
    fs::write(scene.receipt(), "mine").unwrap();
    receipted(&["--force"]).expect(0);
    assert_eq!(fs::read(scene.receipt()).unwrap(), b"mine");
}

#[test]
fn a_folders_receipt_is_replaced_and_not_carried() {
    let ferry = Ferry::new();
    let [model, output, again] = ferry.paths(["model", "output", "again"]);
    ferry.model("model/model.safetensors", &Model::of_size(1 << 20, 6, 3));
    ferry.write("model/config.json", "{}");
    ferry.convert(&model, &output, &["--to", "safetensors", "--receipt"]);
    fs::write(output.join("mine.txt"), "mine").unwrap();
    let first = fs::read(output.join("receipt.ferry.json")).unwrap();
    fs::write(model.join("config.json"), "{ }").unwrap();
    ferry.convert(&model, &output, &["--to", "safetensors", "--receipt", "--force"]);
    assert_ne!(fs::read(output.join("receipt.ferry.json")).unwrap(), first);
    ferry.on("verify", &output, &[]).expect(0);
    ferry
        .convert(&output, &again, &["--to", "torch", "--receipt"])
        .says(&["receipt.ferry.json", "is the receipt of the input"]);
    assert_eq!(read(&again.join("receipt.ferry.json"))["input"]["path"], output.to_str().unwrap());
    ferry.convert(&model, &output, &["--to", "safetensors", "--force"]);
    assert_eq!(names_in(&output), ["config.json", "mine.txt", "model.safetensors"]);
}
