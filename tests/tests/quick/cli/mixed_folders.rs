//! Tests of folders with more than one format, as on the Hub. They check which file is read as the
//! model, and which files are copied along with it.

use std::path::Path;
use tensorferry_tests::Ferry;
use tensorferry_tests::files::paths_below as names;
use tensorferry_tests::fixtures::case;

fn copy(from: &Path, to: &Path) {
    for name in names(from) {
        std::fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Writes a folder with the same model in every format that `ferry` writes, and an ONNX model.
fn every_format(ferry: &Ferry) -> std::path::PathBuf {
    let folder = ferry.at("in");
    let weight: &[(&str, &str, &[u64], &[u8])] = &[("w", "F32", &[1, 32], &[7; 128])];
    let model = ferry.safetensors("in/model.safetensors", weight);
    for (name, format) in [
        ("pytorch_model.bin", "torch"),
        ("model.ckpt", "tf-bundle"),
        ("flax_model.msgpack", "flax"),
        ("model-f32.gguf", "gguf"),
        ("weights.npz", "numpy"),
    ] {
        ferry.convert(&model, &folder.join(name), &["--to", format]);
    }
    copy(&case("tf", "saved_model_pb").folder.join("saved_model"), &folder);
    let onnx = case("onnx", "raw_all_dtypes").folder.join("model.onnx");
    std::fs::copy(onnx, folder.join("model.onnx")).unwrap();
    ferry.write("in/config.json", b"{}");
    folder
}

#[test]
fn the_formats_have_an_order() {
    let ferry = Ferry::new();
    let folder = every_format(&ferry);
    let mut found = Vec::new();
    for gone in [
        &["model.safetensors"][..],
        &["pytorch_model.bin"],
        &["saved_model.pb", "fingerprint.pb"],
        &["model.ckpt.index", "model.ckpt.data-00000-of-00001", "variables"],
        &["flax_model.msgpack"],
        &["model-f32.gguf"],
        &["model.onnx"],
        &["weights.npz"],
    ] {
        found.push(ferry.inspect(&folder)["format"].as_str().unwrap().to_owned());
        for name in gone {
            let path = folder.join(name);
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }
    assert_eq!(found, ["safetensors", "torch", "saved-model", "tf-bundle", "flax", "gguf", "onnx", "numpy"]);
    ferry.on("inspect", &folder, &[]).expect(3);
}

#[test]
fn exports_and_arrays_go_along_and_other_weights_do_not() {
    let ferry = Ferry::new();
    let (folder, output) = (every_format(&ferry), ferry.at("out"));
    for name in ["saved_model.pb", "fingerprint.pb"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    for name in ["variables", "assets"] {
        std::fs::remove_dir_all(folder.join(name)).unwrap();
    }
    std::fs::create_dir_all(folder.join("onnx")).unwrap();
    std::fs::rename(folder.join("model.onnx"), folder.join("onnx/model.onnx")).unwrap();
    ferry.write("in/onnx/model.onnx_data", b"outside");
    ferry.write("in/voices/a.npy", std::fs::read(case("numpy", "npy_c_order").input()).unwrap());
    let outcome = ferry.convert(&folder, &output, &["--to", "torch", "--strict", "--verify"]);
    outcome.says(&[
        "another form of the same model",
        "model.ckpt.index",
        "2 files next to the model (gguf, numpy) are copied unread",
    ]);
    let expected = ["config.json", "model-f32.gguf", "pytorch_model.bin", "voices/a.npy", "weights.npz"];
    assert_eq!(names(&output), expected);
    // If the output is GGUF, the other GGUF file is not copied, because it would be a second model.
    let ggufs = ferry.at("ggufs");
    ferry.convert(&folder, &ggufs, &["--to", "gguf"]).says(&["model-f32.gguf"]);
    let of_gguf: Vec<String> = names(&ggufs).into_iter().filter(|name| name.ends_with(".gguf")).collect();
    assert_eq!(of_gguf, ["model.gguf"]);
    // If the user passes one of these files, it is read as the model.
    for (name, format) in [("model-f32.gguf", "gguf"), ("weights.npz", "numpy"), ("onnx", "onnx")] {
        assert_eq!(ferry.inspect(&folder.join(name))["format"], format);
    }
}

#[test]
fn a_folder_of_exports_alone_is_converted_in_place() {
    let ferry = Ferry::new();
    let output = ferry.at("out");
    let onnx = case("onnx", "external_one_file");
    copy(&onnx.folder, &ferry.at("in/onnx"));
    std::fs::remove_file(ferry.at("in/onnx/expected.json")).unwrap();
    ferry.write("in/tokenizer.json", b"{}");
    ferry.convert(&ferry.at("in"), &output, &["--to", "safetensors"]);
    assert_eq!(names(&output), ["onnx/model.safetensors", "tokenizer.json"]);
    // Omit 4-bit integers, which safetensors does not support.
    let expected = onnx.tensors(|_, tensor| tensor["dtype"] != "I4");
    assert_eq!(ferry.tensors(&output.join("onnx")), expected);
}

#[test]
fn several_quantisations_are_listed_and_a_split_is_one_model() {
    let ferry = Ferry::new();
    let split = case("gguf", "split");
    copy(&split.folder, &ferry.at("split"));
    ferry.write("split/README.md", b"# A model");
    assert_eq!(ferry.tensors(&ferry.at("split")), split.all());
    let one = std::fs::read(case("gguf", "plain_dtypes").input()).unwrap();
    for name in ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-f16.gguf"] {
        ferry.write(&format!("several/{name}"), &one);
    }
    for command in ["inspect", "diff"] {
        let arguments = if command == "diff" { vec![split.input()] } else { Vec::new() };
        let arguments: Vec<&str> = arguments.iter().map(|path| path.to_str().unwrap()).collect();
        ferry.on(command, ferry.at("several"), &arguments).expect(2).says(&["m-Q4_K_M.gguf", "m-Q8_0.gguf"]);
    }
    ferry.convert(&ferry.at("several/m-Q8_0.gguf"), &ferry.at("one.safetensors"), &[]);
    // The folder contains two models: the split and the single file.
    ferry.write("split/other.gguf", &one);
    ferry.on("inspect", ferry.at("split"), &[]).expect(2).says(&["other.gguf", "-00001-of-00003.gguf"]);
}

#[test]
fn a_name_of_torch_alone_makes_no_checkpoint() {
    let ferry = Ferry::new();
    let folder = ferry.at("in");
    copy(&case("tf", "saved_model_pb").folder.join("saved_model"), &folder);
    ferry.write("in/vocab.bin", b"words and more words");
    assert_eq!(ferry.inspect(&folder)["format"], "saved-model");
    // If an invalid file is the only file in a folder, its reader reports what is wrong with it.
    ferry.write("alone/pytorch_model.bin", b"words and more words");
    ferry.on("inspect", ferry.at("alone"), &[]).expect(3).says(&["pytorch_model.bin"]);
}

#[test]
fn folders_of_mlx_keep_what_says_so() {
    let ferry = Ferry::new();
    let config = br#"{"quantization": {"group_size": 64, "bits": 4}}"#;
    let weight: &[(&str, &str, &[u64], &[u8])] =
        &[("l.weight", "U32", &[2, 8], &[3; 64]), ("l.scales", "BF16", &[2, 1], &[5; 4])];
    let plain = ferry.safetensors("plain.safetensors", weight);
    let model = ferry.at("mlx/model.safetensors");
    ferry.write("mlx/config.json", config);
    ferry.convert(&plain, &model, &["--step", "set_metadata:format,to=mlx", "--strict"]);
    for (from, to, format) in [("mlx", "torch", "torch"), ("torch", "back", "safetensors")] {
        ferry.convert(&ferry.at(from), &ferry.at(to), &["--to", format, "--strict", "--verify"]);
    }
    assert_eq!(std::fs::read(ferry.at("back/config.json")).unwrap(), config);
    let document = ferry.inspect(&ferry.at("back"));
    assert_eq!(document["metadata"]["format"], "mlx");
    assert_eq!(ferry.tensors(&ferry.at("back")), ferry.tensors(&plain));
}
