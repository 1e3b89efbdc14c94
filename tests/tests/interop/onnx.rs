//! Tests that onnx and onnxruntime accept models whose tensors `ferry` has replaced, and compute
//! with the new tensors.

use std::path::Path;
use tensorferry_tests::{Ferry, python};

/// Checks a model with onnx.checker, and returns the outputs of onnxruntime.
fn outputs(model: &Path) -> Vec<f64> {
    serde_json::from_value(python::script("onnx_run.py", [model]).json()).unwrap()
}

fn same(model: &Path, expected: &serde_json::Value) {
    let expected: Vec<f64> = serde_json::from_value(expected.clone()).unwrap();
    let outputs = outputs(model);
    assert_eq!(outputs.len(), expected.len());
    for (output, expected) in outputs.iter().zip(&expected) {
        assert!((output - expected).abs() < 1e-4, "{}: {output} instead of {expected}", model.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn models_compute_with_the_tensors_that_they_were_given() {
    let ferry = Ferry::new();
    let expected = python::script("onnx_make.py", [ferry.home()]).json();
    std::fs::create_dir(ferry.at("out")).unwrap();
    for name in ["raw", "typed", "beside"] {
        let (model, own) = (ferry.at(format!("{name}.onnx")), ferry.at(format!("{name}.safetensors")));
        ferry.convert(&model, &own, &["--verify"]);
        let like = format!("like={}", model.display());
        for external in ["external=auto", "external=all", "external=none"] {
            let output = ferry.at(format!("out/{name}.onnx"));
            let options = ["-o", &like, "-o", external, "--verify", "--force"];
            ferry.convert(&own, &output, &options);
            same(&output, &expected["own"]);
            // The condition of the branch is not replaced, because it is part of the graph.
            ferry.convert(
                &ferry.at("weights.npz"),
                &output,
                &[&options[..], &["-o", "missing=keep"]].concat(),
            );
            same(&output, &expected["others"]);
        }
    }
}
