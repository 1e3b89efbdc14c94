//! Runs the SDK's conformance suite on this format.

use crate::forms;
use std::fs;
use tensorferry_keras::Keras;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_test_kit::fixtures::cases;

#[test]
fn keras_conforms() {
    let of = |case: &str, name: &str| {
        let folder = cases("keras", case).remove(0);
        Sample::file(name, fs::read(folder.join(name)).unwrap())
    };
    let samples = [
        of("bfloat16", "model.keras").holding(&["layers/dense/vars/0"]),
        of("h5_minimal_writer", "min.weights.h5").holding(&["layers/dense/vars/1"]),
        of("h5_userblock", "ub.weights.h5").holding(&["layers/d/vars/0"]),
        Sample::file("table.h5", forms::with_a_table()).holding(&["group/w", "w"]),
    ];
    let report = check(&Keras, &samples);
    assert!(report.damaged > 1000 && report.written > 50, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
