//! Weights of Keras compute in PyTorch what they compute in Keras, and back.

use tensorferry_tests::{Ferry, args, python};

/// A dense layer behind Flatten: Keras flattens [4, 6, 8] with the channels last, PyTorch first.
const TO_TORCH: [&str; 3] = [
    "reshape:4x6x8x5,where=hidden/kernel",
    "permute:hwcu->chwu,where=hidden/kernel",
    "reshape:-1x5,where=hidden/kernel",
];
const TO_KERAS: [&str; 3] = [
    "reshape:8x4x6x5,where=hidden/kernel",
    "permute:chwu->hwcu,where=hidden/kernel",
    "reshape:-1x5,where=hidden/kernel",
];

fn steps(texts: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    texts.into_iter().flat_map(|text| ["--step", text]).collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_model_computes_the_same_in_both() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let python = |command: &str| python::script("keras_torch.py", args![command, ferry.home()]);
    python("make");
    let mut options = steps(TO_TORCH.into_iter().chain(["keras-to-torch"]));
    options.push("--verify");
    ferry.convert(&at("keras"), &at("torch.safetensors"), &options);
    python::torch_script("keras_torch.py", args!["torch", ferry.home()]);

    let like = format!("like={}", at("keras").display());
    let mut options = vec!["--to", "tf-bundle", "--verify", "-o", &like];
    options.extend(steps(["torch-to-keras,multiplier=2"].into_iter().chain(TO_KERAS)));
    ferry.convert(&at("own.pt"), &at("back"), &options);
    python("check");
}
