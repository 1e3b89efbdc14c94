//! Runs the SDK's conformance suite on this format's reader. The writer needs a template, so it
//! would reject everything that the suite creates. The tests in `written.rs` cover the writer.

use crate::common::{field, model, number, outside, tensor};
use std::collections::BTreeMap;
use tensorferry_onnx::Onnx;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_sdk::{
    Capabilities, Context, Description, Entry, Format, Options, Result, Score, Source, TensorReader,
};

/// The format without its writer.
struct ReaderAlone;

impl Format for ReaderAlone {
    fn describe(&self) -> Description {
        let description = Onnx.describe().capabilities(Capabilities::READ);
        description.options([])
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        Onnx.probe(source, context)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Onnx.reader(options)
    }
}

#[test]
fn onnx_conforms() {
    let raw = tensor("w", 1, &[2, 2], &field(9, &[7; 16]));
    let listed = tensor("l", 3, &[3], &field(5, &[1, 2, 3]));
    let strings = tensor("s", 8, &[2], &[field(6, b"ab"), field(6, b"")].concat());
    let constant = [field(2, b"c"), field(4, b"Constant")].concat();
    let value = [field(1, b"value"), field(5, &tensor("", 7, &[], &field(9, &[1; 8])))].concat();
    let node = field(1, &[constant, field(5, &value)].concat());
    let inside = model(&[raw, listed, strings], &node);
    let beside =
        tensor("w", 16, &[2], &outside(&[("location", "m.onnx.data"), ("offset", "2"), ("length", "4")]));
    let files = BTreeMap::from([
        ("m.onnx".to_owned(), model(&[beside, tensor("e", 1, &[0], &number(14, 0))], &[])),
        ("m.onnx.data".to_owned(), vec![1, 2, 3, 4, 5, 6]),
    ]);
    let samples = [
        Sample::file("inside.onnx", inside).holding(&["w", "l", "s", "c"]),
        Sample::set(Entry::File("m.onnx".to_owned()), files).holding(&["w", "e"]),
    ];
    let report = check(&ReaderAlone, &samples);
    assert!(report.damaged > 300, "{report:?}");
}
