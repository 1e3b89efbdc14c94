//! Tests that `ferry` converts the original BERT checkpoints in the same way as transformers.

use serde_json::Value;
use std::collections::BTreeMap;
use tensorferry_tests::fixtures::Facts;
use tensorferry_tests::{Ferry, args, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn bert_is_what_transformers_makes_of_it_and_goes_back() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let original = at("bert_model.ckpt");
    python::script("tf_bert.py", args!["make", original]);
    let truth = python::torch_script("tf_bert.py", args!["convert", original]).json();
    let expected: BTreeMap<String, Facts> = serde_json::from_value(truth["tensors"].clone()).unwrap();
    assert_eq!(expected.len(), 192, "the state dict has different tensors");

    let converted = at("bert.safetensors");
    ferry.convert(&original, &converted, &["--step", "bert-from-tf", "--verify"]);
    assert_eq!(ferry.tensors(&converted), expected);

    // In a format that supports ties, the tensors are tied as in the model.
    let torch = at("bert.pt");
    ferry.convert(&original, &torch, &["--step", "bert-from-tf", "--verify", "--strict"]);
    let mut ties: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tensor in ferry.inspect(&torch)["tensors"].as_array().unwrap() {
        if let Some(first) = tensor["tied_to"].as_str() {
            ties.entry(first.to_owned()).or_default().push(tensor["name"].as_str().unwrap().to_owned());
        }
    }
    let mut ties: Vec<Vec<String>> =
        ties.into_iter().map(|(first, rest)| [vec![first], rest].concat()).collect();
    ties.iter_mut().for_each(|names| names.sort());
    assert_eq!(Value::from(ties), truth["ties"]);

    let back = at("back");
    ferry.convert(&converted, &back, &["--to", "tf-bundle", "--step", "bert-to-tf", "--verify"]);
    let slots = "drop,where_re=(^|/)(adam_[mv]|global_step)$";
    let arguments = args!["diff", original, back, "--step", slots];
    assert_eq!(ferry.run(arguments).expect(0).stdout, "equal: 190 tensors\n");
    // Without the step, the comparison finds a difference.
    assert_eq!(ferry.run(args!["diff", original, back]).code, Some(1));
}
