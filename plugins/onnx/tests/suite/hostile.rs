//! Tests malformed models, and models that would require too much memory. Each model must result in
//! a typed error that identifies the tensor.

use crate::common::{field, model, number, outside, source, tensor};
use tensorferry_onnx::Onnx;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Error, ErrorKind, Limits, MemoryContext};
use tensorferry_test_kit::tensors::with_view;

fn refusal(initializer: &[u8], others: &[(&str, &[u8])]) -> Error {
    let source = source(&model(&[initializer.to_vec()], &[]), others);
    let error = with_view(&Onnx, &source, &[], |view| format!("no error: {:?}", view.catalog().tensors()))
        .unwrap_err();
    assert!(error.details().any(|(name, _)| name == "file"), "{error}");
    error
}

#[test]
fn elements_outside_stay_below_the_models_folder() {
    let at = |location: &str, more: &[(&str, &str)]| {
        let entries: Vec<(&str, &str)> =
            [("location", location)].into_iter().chain(more.iter().copied()).collect();
        tensor("w", 2, &[4], &outside(&entries))
    };
    let files: [(&str, &[u8]); 2] = [("data", &[7; 4]), ("sub/data", &[8; 4])];
    for good in ["data", "./data", "sub/data"] {
        let source = source(&model(&[at(good, &[])], &[]), &files);
        assert!(with_view(&Onnx, &source, &[], |view| view.tensor_named("w").unwrap()).is_ok(), "{good}");
    }
    for bad in
        ["/data", "../data", "sub/../data", "sub", "sub/", "data\0", "sub\\data", "", "missing", "C:/data"]
    {
        let error = refusal(&at(bad, &[]), &files);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{bad}: {error}");
        assert!(error.details().any(|(name, value)| name == "tensor" && value == "w"), "{error}");
    }
    for more in [
        [("offset", "-1")],
        [("offset", "0x0")],
        [("offset", "")],
        [("offset", "1")],
        [("offset", "18446744073709551615")],
        [("offset", "99999999999999999999")],
        [("length", "3")],
        [("length", "+4")],
    ] {
        assert_eq!(refusal(&at("data", &more), &files).kind(), ErrorKind::Malformed, "{more:?}");
    }
    assert!(
        refusal(&at("data", &[("offset", "2"), ("length", "18446744073709551614")]), &files)
            .to_string()
            .contains("ends too early")
    );
}

#[test]
fn elements_are_at_one_place_in_the_right_form() {
    let raw = field(9, &[1; 4]);
    for (data_type, dims, rest, says) in [
        (2, &[4][..], [raw.clone(), outside(&[("location", "data")])].concat(), "several places"),
        (2, &[4], [field(5, &[1, 2, 3, 4]), field(7, &[1])].concat(), "several places"),
        (2, &[4], field(7, &[1, 2, 3, 4]), "list of a different dtype"),
        (2, &[4], field(5, &[1, 2, 3, 0x80, 2]), "out of range"),
        (2, &[4], field(5, &[1, 2, 3]), "number of values"),
        (2, &[4], field(5, &[1, 2, 3, 4, 5]), "number of values"),
        (2, &[4], Vec::new(), "the length of"),
        (1, &[1], field(4, &[1, 2, 3]), "in the middle of"),
        (1, &[1], [field(4, &[1]), field(4, &[1, 2, 3])].concat(), "in the middle of"),
        (14, &[1], field(4, &[1; 4]), "number of values"),
        (2, &[0], raw.clone(), "the length of"),
        (8, &[2], field(6, b"one"), "number of values"),
        (8, &[1], outside(&[("location", "data")]), "strings cannot"),
        (1, &[1], number(9, 4), "does not allow"),
        (2, &[4], [raw, number(14, 2)].concat(), "unknown location"),
    ] {
        let error = refusal(&tensor("w", data_type, dims, &rest), &[("data", &[1; 4])]);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{says}: {error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn shapes_ask_for_nothing() {
    let many = vec![1; 100_000];
    for dims in [&[1 << 40][..], &[1 << 33, 1 << 33], &[u64::MAX], &[1 << 63], &many] {
        let error = refusal(&tensor("w", 1, dims, &field(9, &[0; 16])), &[]);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
}

#[test]
fn graphs_end_somewhere() {
    // Each graph is in an attribute of a node in the enclosing graph.
    let mut graph = field(5, &tensor("w", 2, &[1], &field(9, &[1])));
    let read = |graph: &[u8]| {
        with_view(&Onnx, &source(&model(&[], graph), &[]), &[], |view| view.catalog().tensors().len())
    };
    for depth in 0..2000 {
        assert_eq!(read(&graph).is_ok(), depth <= 32, "{depth}");
        if depth == 40 {
            break;
        }
        let attribute = [field(1, b"body"), field(6, &graph)].concat();
        graph = field(1, &[field(3, b"n"), field(4, b"Loop"), field(5, &attribute)].concat());
    }
}

#[test]
fn names_that_repeat_are_numbered_and_initializers_are_refused() {
    let tensor = || tensor("w", 2, &[1], &field(9, &[1]));
    let attribute = || field(5, &[field(1, b"k"), field(5, &tensor())].concat());
    let node = |name: &str| field(1, &[field(3, name.as_bytes()), field(4, b"Scale"), attribute()].concat());
    let nodes = [node("a"), node("a"), node(""), node("")].concat();
    let names = with_view(&Onnx, &source(&model(&[], &nodes), &[]), &[], |view| {
        view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>()
    });
    assert_eq!(names.unwrap(), ["a/k", "a_1/k", "Scale/k", "Scale_1/k"]);
    let twice = with_view(&Onnx, &source(&model(&[tensor(), tensor()], &[]), &[]), &[], |_| ()).unwrap_err();
    assert!(twice.to_string().contains("two initializers have the same name"), "{twice}");
}

/// Reads a model with changed limits.
fn limited(model: &[u8], others: &[(&str, &[u8])], bound: impl Fn(&mut Limits)) -> Result<usize, Error> {
    let mut limits = Limits::default();
    bound(&mut limits);
    let context = MemoryContext::new(limits);
    MemoryView::read(&Onnx, &[], &source(model, others), &context).map(|view| view.catalog().tensors().len())
}

/// The file contains a graph's name once, but the path of every tensor in the graph repeats the
/// name.
#[test]
fn paths_are_bounded() {
    let in_graph = |name: usize| {
        let tensors: Vec<u8> =
            (0..1000).flat_map(|number| field(5, &tensor(&number.to_string(), 2, &[0], &[]))).collect();
        let attribute = [field(1, b"body"), field(6, &tensors)].concat();
        let node = [field(3, &vec![b'n'; name]), field(4, b"Loop"), field(5, &attribute)].concat();
        model(&[], &field(1, &node))
    };
    assert_eq!(limited(&in_graph(1000), &[], |_| {}).unwrap(), 1000);
    let bytes = in_graph(10_000);
    let error = limited(&bytes, &[], |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("expand"), "{error}");
}

#[test]
fn tensors_on_one_range_are_counted() {
    let at = |name: usize| tensor(&name.to_string(), 2, &[1000], &outside(&[("location", "data")]));
    let bytes = model(&(0..100).map(at).collect::<Vec<_>>(), &[]);
    let read = |max| limited(&bytes, &[("data", &[7; 1000])], |limits| limits.shared_bytes = max);
    // The first 16 tensors that share a range are not counted.
    assert_eq!(read(84_000).unwrap(), 100);
    let error = read(83_999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.details().any(|(_, text)| text.contains("--limit expanded_bytes=N")), "{error}");
}

/// The attributes of a Constant node other than `value` are not tensors. The reader must report
/// them as lost.
#[test]
fn constants_without_a_tensor_are_lost_by_name() {
    let constant = |output: &str, attribute: &[u8]| {
        let node = [field(2, output.as_bytes()), field(4, b"Constant"), field(5, attribute)];
        field(1, &node.concat())
    };
    let tensor = tensor("", 7, &[], &field(9, &[1; 8]));
    let nodes = [
        constant("t", &[field(1, b"value"), field(5, &tensor)].concat()),
        constant("axes", &[field(1, b"value_ints"), number(8, 1), number(8, 2)].concat()),
        constant("text", &[field(1, b"value_string"), field(4, b"x")].concat()),
    ];
    let (names, losses) = with_view(&Onnx, &source(&model(&[], &nodes.concat()), &[]), &[], |view| {
        let names: Vec<String> = view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect();
        (names, view.catalog().losses().to_vec())
    })
    .unwrap();
    assert_eq!(names, ["t"]);
    assert_eq!(losses[0].what, "axes");
    assert!(losses[0].why.contains("value_ints") && losses[0].why.contains("2 such"), "{losses:?}");
    assert!(losses[1].why.contains("read as tensors (1)"), "{losses:?}");
}
