//! Tests that converted Keras weights produce the same outputs in PyTorch, and that converted
//! PyTorch weights produce the same outputs in Keras.

use tensorferry_tests::fixtures::case;
use tensorferry_tests::seen::tensors;
use tensorferry_tests::workspace::{root, workspace};
use tensorferry_tests::{Ferry, args, python};

/// Steps for a dense layer after Flatten: Keras flattens [4, 6, 8] with the channels last, and
/// PyTorch with the channels first.
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
    let from_weights = at("weights.safetensors");
    options.extend(["-i", "names=name"]);
    ferry.convert(&at("model.weights.h5"), &from_weights, &options);
    assert!(ferry.equal(&at("torch.safetensors"), &from_weights));

    let like = format!("like={}", at("keras").display());
    let mut options = vec!["--to", "tf-bundle", "--verify", "-o", &like];
    options.extend(steps(["torch-to-keras,multiplier=2"].into_iter().chain(TO_KERAS)));
    ferry.convert(&at("own.pt"), &at("back"), &options);

    // The names of layers and variables are those in the template file.
    let like = format!("like={}", at("model.weights.h5").display());
    let options: Vec<&str> =
        options.into_iter().filter(|word| !["--to", "tf-bundle"].contains(word)).collect();
    let options: Vec<&str> =
        options.into_iter().map(|word| if word.starts_with("like=") { &*like } else { word }).collect();
    ferry.convert(&at("own.pt"), &at("back.weights.h5"), &options);
    ferry.convert(&at("back"), &at("checkpoint.weights.h5"), &["--verify", "-o", &like]);
    python("check");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn keras_loads_what_was_written() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    python::script("keras_files.py", args!["make", ferry.home()]);
    for form in ["weights.h5", "keras", "h5"] {
        let [own, there, back] =
            [format!("own.{form}"), format!("{form}.safetensors"), format!("back.{form}")]
                .map(|name| at(&name));
        ferry.convert(&own, &there, &["--verify"]);
        let like = format!("like={}", at(&format!("other.{form}")).display());
        let options: &[&str] = if form == "weights.h5" { &["--verify"] } else { &["--verify", "-o", &like] };
        ferry.convert(&there, &back, options);
    }
    python::script("keras_files.py", args!["check", ferry.home()]);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn h5py_sees_every_dtype() {
    let ferry = Ferry::new();
    let case = case("keras", "h5_all_dtypes");
    let input = case.folder.join("all.weights.h5");
    let seen = |path: &std::path::Path| tensors(&python::script("keras_files.py", args!["see", path]).json());
    let mut expected = case.all();
    // Strings are not written.
    expected.retain(|_, facts| facts.0 != "STR");
    assert_eq!(expected.len(), 24);
    assert_eq!(seen(&input), expected);
    let output = ferry.at("out.weights.h5");
    ferry.convert(&input, &output, &["--verify"]);
    assert_eq!(seen(&output), expected);
}

/// `FERRY_TEST_DATASETS=10000` compares more datasets, and `FERRY_TEST_SEED` sets the seed of a run
/// to repeat.
#[test]
#[ignore = "installs h5py from PyPI"]
fn random_datasets_are_read_as_h5py_reads_them() {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let (count, seed) = (variable("FERRY_TEST_DATASETS", "300"), variable("FERRY_TEST_SEED", "1"));
    let script = root().join("tests/differential/hdf5_datasets.py");
    let compared =
        python::run(&script, args![workspace().program, "--count", count, "--seed", seed]).expect(0);
    println!("{}", compared.stdout);
    assert!(compared.stdout.contains("0 differ"), "{}", compared.stdout);
}
