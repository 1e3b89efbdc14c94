//! The original BERT's checkpoints become what transformers' own conversion makes of them.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use tempfile::tempdir;
use tensorferry_tests::fixtures::{Facts, inspected};
use tensorferry_tests::{Ferry, python};

#[test]
fn bert_is_what_transformers_makes_of_it_and_goes_back() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let original = at("bert_model.ckpt");
    python::script("tf_bert.py", ["make".as_ref(), original.as_os_str()]);
    let truth = python::script("tf_bert.py", ["convert".as_ref(), original.as_os_str()]).json();
    let expected: BTreeMap<String, Facts> = serde_json::from_value(truth["tensors"].clone()).unwrap();
    assert_eq!(expected.len(), 192, "the state dict has other tensors");

    let converted = at("bert.safetensors");
    ferry.convert(&original, &converted, &["--step", "bert-from-tf", "--verify"]);
    assert_eq!(inspected(&ferry.inspect(&converted)), expected);

    // Tied as they are in the model: in a format that can say so.
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
    let arguments =
        ["diff".as_ref(), original.as_os_str(), back.as_os_str(), "--step".as_ref(), slots.as_ref()];
    assert_eq!(ferry.run(arguments).expect(0).stdout, "equal: 190 tensors\n");
    // Without the step there is a difference: the comparison can fail.
    assert_eq!(ferry.run([OsStr::new("diff"), original.as_ref(), back.as_ref()]).code, Some(1));
}
