//! Tests that `inspect --stats` reports the same statistics as numpy for every fixture.

use serde_json::json;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::{Ferry, args, python};

const SECTIONS: [&str; 8] = ["safetensors", "torch", "numpy", "onnx", "gguf", "tf", "deepspeed", "quantised"];

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn every_fixture_has_the_statistics_of_numpy() {
    let ferry = Ferry::new();
    let mut pairs = Vec::new();
    for section in SECTIONS {
        for case in cases(section, "") {
            // The input path differs between sections, so use the first path that can be opened.
            let inputs = [case.folder.clone(), case.folder.join("ckpt")].into_iter();
            let files = tensorferry_tests::files::names_in(&case.folder);
            let files =
                files.into_iter().filter(|name| name != "expected.json").map(|name| case.folder.join(name));
            let opens = |input: &std::path::PathBuf| {
                let run = ferry.run(args!["inspect", input, "--json"]);
                // Inputs with deliberately wrong checksums cannot be read, and have no statistics.
                run.code == Some(0)
                    && case.expected["expect"] != "error"
                    && !run.json()["tensors"].as_array().is_none_or(Vec::is_empty)
            };
            let Some(input) = inputs.chain(files).find(opens) else { continue };
            let found = ferry.run(args!["inspect", input, "--stats", "--histogram", "--json"]).expect(0);
            let out = ferry.at(format!("{}.safetensors", pairs.len()));
            let options = ["--part", ".", "--step", "dequantize:f32", "--to", "safetensors", "--quiet"];
            let converted = ferry.try_convert(&input, &out, &options);
            if converted.code == Some(0) {
                let document = ferry.write(&format!("{}.json", pairs.len()), &found.stdout);
                pairs.push(json!([case.name, document, out]));
            }
        }
    }
    assert!(pairs.len() >= 60, "{}", pairs.len());
    let list = ferry.write("pairs.json", json!(pairs).to_string());
    let said = python::script("statistics_same.py", [list]).json();
    assert!(said["tensors"].as_u64().unwrap() >= 400, "{said}");
    assert!(said["histograms"].as_u64().unwrap() >= 300, "{said}");
    assert!(said["dtypes"].as_array().unwrap().len() >= 18, "{said}");
}
