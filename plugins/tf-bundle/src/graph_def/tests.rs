#![expect(clippy::unwrap_used, reason = "tests")]

use crate::TfGraph;
use crate::testing::{self, limits, shape, strings, tensors};
use proptest::prelude::*;
use tensorferry_proto::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, Message as _, NodeDef, OpDef, TensorProto,
    attr_value,
};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Data, Error, LossKind, MemorySource, Result};

/// Reads a file and passes the resulting view to `look`.
fn reading<T>(name: &str, bytes: &[u8], look: impl FnOnce(&MemoryView<'_>) -> Result<T>) -> Result<T> {
    let limits = limits(|limits| limits.expanded_bytes = 1 << 20);
    testing::reading(&TfGraph, &MemorySource::file(name, bytes), &limits, look)
}

fn tensor(dtype: i32, dims: &[i64]) -> TensorProto {
    TensorProto { dtype, tensor_shape: Some(shape(dims)), ..TensorProto::default() }
}

fn constant(name: &str, tensor: TensorProto) -> NodeDef {
    let attribute = |value| AttrValue { value: Some(value) };
    let attr = [
        ("dtype".to_owned(), attribute(attr_value::Value::Type(tensor.dtype))),
        ("value".to_owned(), attribute(attr_value::Value::Tensor(tensor))),
    ];
    NodeDef { name: name.to_owned(), op: "Const".to_owned(), attr: attr.into(), ..NodeDef::default() }
}

fn graph() -> GraphDef {
    let content = TensorProto { tensor_content: vec![1, 2, 3, 4, 0, 0, 0, 0], ..tensor(9, &[1]) };
    let packed = TensorProto { float_val: vec![1.0, 2.0], ..tensor(1, &[2]) };
    let repeated = TensorProto { int_val: vec![7, 8], ..tensor(3, &[2, 2]) };
    let one = TensorProto { half_val: vec![0x3f80], ..tensor(14, &[2, 3]) };
    let text = TensorProto { string_val: vec![b"a\xff".to_vec()], ..tensor(7, &[]) };
    let in_function = FunctionDef {
        signature: Some(OpDef { name: "f".to_owned() }),
        node_def: vec![constant("c", tensor(10, &[2])), constant("one", one.clone())],
    };
    let placeholder = NodeDef { name: "x".into(), op: "Placeholder".into(), ..NodeDef::default() };
    GraphDef {
        node: vec![
            placeholder,
            constant("content", content),
            constant("packed", packed),
            constant("repeated", repeated),
            constant("f/one", one),
            constant("text", text),
            constant("empty", tensor(1, &[0, 3])),
            constant("resource", tensor(20, &[])),
        ],
        library: Some(FunctionDefLibrary { function: vec![in_function] }),
        versions: None,
    }
}

#[test]
fn constants_are_found_in_graph_and_functions() {
    reading("frozen.pb", &graph().encode_to_vec(), |view| {
        let tensor = |name: &str| view.tensor_named(name).unwrap();
        assert_eq!(tensor("content"), ("I64".into(), vec![1], vec![1, 2, 3, 4, 0, 0, 0, 0]));
        assert_eq!(tensor("packed"), ("F32".into(), vec![2], vec![0, 0, 128, 63, 0, 0, 0, 64]));
        let repeated = [7, 8, 8, 8].map(|value: i32| value.to_le_bytes()).concat();
        assert_eq!(tensor("repeated"), ("I32".into(), vec![2, 2], repeated));
        assert_eq!(tensor("f/one"), ("BF16".into(), vec![2, 3], [0x80, 0x3f].repeat(6)));
        assert_eq!(tensor("f/one_1"), tensor("f/one"));
        assert_eq!(tensor("f/c"), ("BOOL".into(), vec![2], vec![0, 0]));
        assert_eq!(tensor("text"), ("STR".into(), vec![], strings(&[b"a\xff"])));
        assert_eq!(tensor("empty"), ("F32".into(), vec![0, 3], vec![]));
        let data = |name: &str| {
            let tensors = view.catalog().tensors();
            tensors.iter().find(|tensor| tensor.name == name).unwrap().data.clone()
        };
        assert!(matches!(data("f/one"), Data::Blocks(_)));
        assert!(matches!(data("packed"), Data::Whole { .. }));
        let losses: Vec<_> = view.catalog().losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
        assert_eq!(
            losses,
            [(LossKind::Tensor, "resource"), (LossKind::Name, "f/one"), (LossKind::Graph, "frozen.pb")]
        );
        assert!(view.catalog().losses()[2].why.starts_with("the graph (10 nodes, 1 functions)"));
        Ok(())
    })
    .unwrap();
}

#[test]
fn texts_are_graphs_too() {
    let text = r#"
        node { name: "a" op: "Const" attr { key: "value" value { tensor {
          dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: "\000\000\200?\000\000\000@" } } } }
        node { op: "Const" name: "b" attr { key: "value" value { tensor {
          dtype: DT_INT64 tensor_shape { dim { size: 2 } } int64_val: 1 int64_val: -1 } } } }
        library { function { node_def { name: "c" op: "Const" attr { key: "value" value { tensor {
          dtype: DT_STRING tensor_shape { } string_val: "\303\244" } } } } signature { name: "f" } } }"#;
    reading("frozen.pbtxt", text.as_bytes(), |view| {
        let tensor = |name: &str| view.tensor_named(name).unwrap();
        assert_eq!(tensor("a"), ("F32".into(), vec![2], vec![0, 0, 128, 63, 0, 0, 0, 64]));
        assert_eq!(tensor("b"), ("I64".into(), vec![2], [1_i64, -1].map(i64::to_le_bytes).concat()));
        assert_eq!(tensor("f/c").2, strings(&["ä"]));
        Ok(())
    })
    .unwrap();
}

fn error(name: &str, bytes: &[u8]) -> Error {
    reading(name, bytes, |_| Ok(())).unwrap_err()
}

#[test]
fn other_messages_are_refused_with_a_hint() {
    let hint = |name: &str, bytes: &[u8]| {
        error(name, bytes)
            .details()
            .find(|(name, _)| *name == "hint")
            .map(|(_, text)| text)
            .unwrap_or_default()
    };
    assert!(hint("saved_model.pb", &[0x08, 1, 0x12, 0]).contains("--from saved-model"));
    assert!(hint("x.meta", &[0x0a, 4, 0x12, 2, 0x0a, 0, 0x12, 0]).contains("without .meta"));
    assert!(error("x.pb", b"").message().contains("not a graph"));
}

#[test]
fn wrong_constants_say_which() {
    let of = |tensor: TensorProto| {
        let graph = GraphDef { node: vec![constant("w", tensor)], ..GraphDef::default() };
        error("x.pb", &graph.encode_to_vec()).to_string()
    };
    for (proto, what) in [
        (TensorProto { tensor_content: vec![1], ..tensor(1, &[2]) }, "expected 8 bytes, found 1"),
        (TensorProto { int_val: vec![1, 2, 3], ..tensor(3, &[2]) }, "more values than elements"),
        (tensor(1, &[-1]), "negative"),
        (tensor(1, &[1 << 40, 1 << 40]), "64 bits"),
        // A limit applies to the bytes that broadcast and repeated values add to the stored bytes.
        (tensor(1, &[1 << 30]), "limit exceeded"),
        (TensorProto { int_val: vec![1, 2], ..tensor(3, &[1 << 30]) }, "limit exceeded"),
        (tensor(7, &[1 << 30]), "limit exceeded"),
    ] {
        let error = of(proto);
        assert!(error.contains(what) && error.contains("tensor \"w\""), "{error}");
    }
    let without = NodeDef { name: "w".into(), op: "Const".into(), ..NodeDef::default() };
    let graph = GraphDef { node: vec![without], ..GraphDef::default() };
    assert!(error("x.pb", &graph.encode_to_vec()).to_string().contains("no value"));
}

#[test]
fn of_what_is_given_twice_the_last_counts() {
    let graph = |node: NodeDef| GraphDef { node: vec![node], ..GraphDef::default() }.encode_to_vec();
    let first = constant("a", TensorProto { int_val: vec![1], ..tensor(4, &[1]) });
    let second = constant("b", TensorProto { int_val: vec![2], ..tensor(4, &[1]) });
    // The fields of the second node directly follow the fields of the first node, and become fields
    // of the same node.
    let joined = [first.encode_to_vec(), second.encode_to_vec()].concat();
    let mut bytes = vec![0x0a];
    bytes.push(u8::try_from(joined.len()).unwrap());
    bytes.extend(joined);
    assert_ne!(bytes, graph(first));
    reading("x.pb", &bytes, |view| {
        assert_eq!(view.tensor_named("b")?, ("U8".into(), vec![1], vec![2]));
        assert_eq!(view.catalog().tensors().len(), 1);
        Ok(())
    })
    .unwrap();
}

/// Reads all tensors and metadata from a file.
fn exhaust(bytes: &[u8]) {
    drop(reading("x.pb", bytes, |view| tensors(view).map(drop)));
}

proptest! {
    #[test]
    fn no_graph_makes_it_panic(
        edits in proptest::collection::vec((0..4096_usize, any::<u8>()), 1..4),
        cut in 0..4096_usize,
    ) {
        let whole = graph().encode_to_vec();
        let mut bytes = whole.clone();
        for (place, byte) in edits {
            bytes[place % whole.len()] = byte;
        }
        exhaust(&bytes);
        exhaust(&bytes[..cut % whole.len()]);
    }
}
