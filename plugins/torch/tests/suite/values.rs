//! Tests composite tensors, objects of other libraries, and whole modules. The tests read files
//! that torch wrote (`tests/values/make.py`) with each of the reader's options, and compare the
//! results exactly.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tensorferry_sdk::memory::{MemoryView, write};
use tensorferry_sdk::{Catalog, CatalogView, LossKind, MemoryContext, MemorySource, Node, NodeKind, Target};
use tensorferry_test_kit::fixtures::facts;
use tensorferry_torch::Torch;

fn file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/values").join(name)).unwrap()
}

/// Reads a file in `tests/values` and passes the resulting catalog to `look`.
fn with<T>(name: &str, options: &str, look: impl FnOnce(&MemoryView<'_>) -> T) -> T {
    let (source, context) = (MemorySource::file(name, file(name)), MemoryContext::default());
    let given: Vec<(String, String)> =
        options.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    let view = MemoryView::read(&Torch, &given, &source, &context).unwrap_or_else(|e| panic!("{name}: {e}"));
    look(&view)
}

fn names(catalog: &Catalog) -> BTreeSet<&str> {
    catalog.tensors().iter().map(|tensor| &*tensor.name).collect()
}

/// Returns the paths and reasons of all losses of a kind.
fn losses(view: &MemoryView<'_>, kind: LossKind) -> Vec<(String, String)> {
    let losses = view.catalog().losses().iter().filter(|loss| loss.kind == kind);
    losses.map(|loss| (loss.what.clone(), loss.why.clone())).collect()
}

/// Returns the shape of a sparse tensor, given the name of the tensor that contains the shape.
fn shape_of(name: &str, view: &MemoryView<'_>) -> Option<Vec<u64>> {
    view.tensor_named(&format!("{}.values", name.strip_suffix(".shape")?)).ok()?;
    let (dtype, shape, bytes) = view.tensor_named(name).ok()?;
    assert_eq!((&*dtype, shape), ("I64", vec![bytes.len() as u64 / 8]), "{name}");
    Some(bytes.chunks_exact(8).map(|dim| u64::from_le_bytes(dim.try_into().unwrap())).collect())
}

/// Two sparse tensors with the same values and indices may differ in shape.
#[test]
fn a_sparse_tensor_keeps_its_shape() {
    let shapes = |view: &MemoryView<'_>| -> BTreeMap<String, Vec<u64>> {
        let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
        names
            .filter_map(|name| Some((name.strip_suffix(".shape")?.to_owned(), shape_of(&name, view)?)))
            .collect()
    };
    let reported = with("sparse.pt", "", shapes);
    assert!(reported.len() > 20, "{}", reported.len());
    with("sparse.pt", "densify=true", |view| {
        for (name, shape) in &reported {
            assert_eq!(&view.tensor_named(name).unwrap().1, shape, "{name}");
        }
    });
}

#[test]
fn every_tensor_is_as_torch_has_it() {
    let expected: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    let (mut files, mut tensors) = (0, 0);
    for (name, by_options) in expected.as_object().unwrap() {
        for (options, wanted) in by_options.as_object().unwrap() {
            files += 1;
            with(name, options, |view| {
                let wanted = wanted.as_object().unwrap();
                let all: BTreeSet<&str> = wanted.keys().map(String::as_str).collect();
                let mut found = names(view.catalog());
                found.retain(|name| shape_of(name, view).is_none());
                assert_eq!(found, all, "{name} {options}");
                for (tensor, expected) in wanted {
                    assert_eq!(facts(view, tensor), *expected, "{name} {options}: {tensor}");
                    tensors += 1;
                }
            });
        }
    }
    assert_eq!((files, tensors), (10, 388), "files with options, and tensors seen");
}

/// Formats a node and everything below it as one line.
fn shown(view: &MemoryView<'_>, node: &Node) -> String {
    let child = |index: usize| shown(view, &view.node(node.children[index]).unwrap());
    let children = || (0..node.children.len()).map(child).collect::<Vec<_>>().join(", ");
    let class = if node.class.is_empty() { String::new() } else { format!("{} ", node.class) };
    match node.kind {
        NodeKind::NONE => "None".to_owned(),
        NodeKind::BOOL => format!("{class}{:?}", node.as_bool().unwrap()),
        NodeKind::INT => {
            format!("{class}{:?}", node.as_int().map_or_else(|| "long".to_owned(), |i| i.to_string()))
        }
        NodeKind::FLOAT => format!("{class}{:?}", node.as_float().unwrap()),
        NodeKind::TEXT => format!("{class}{:?}", node.as_text().unwrap()),
        NodeKind::BYTES => format!("{class}b\"{}\"", node.bytes.escape_ascii()),
        NodeKind::COMPLEX => format!("{class}complex"),
        NodeKind::TENSOR => {
            format!("{class}tensor {}", view.tensor(node.as_tensor().unwrap()).name)
        }
        NodeKind::MAP => format!("{class}{{{}}}", children()),
        NodeKind::ATTRIBUTED => format!("{class}<{}>", children()),
        NodeKind::SET => format!("{class}set({})", children()),
        NodeKind::LIST => format!("{class}[{}]", children()),
        _ => format!("{class}({})", children()),
    }
}

/// Returns the keys and values of the mapping at `path` in the tree.
fn values(view: &MemoryView<'_>, path: &[&str]) -> Vec<(String, String)> {
    let mut node = view.node(view.root().unwrap()).unwrap();
    for key in path {
        let text = |id| view.node(id).unwrap().as_text().map(str::to_owned);
        let (_, value) = node.entries().find(|&(k, _)| text(k).as_deref() == Some(*key)).unwrap();
        node = view.node(value).unwrap();
    }
    let show = |id| shown(view, &view.node(id).unwrap());
    node.entries().map(|(key, value)| (show(key), show(value))).collect()
}

#[test]
fn numbers_texts_and_containers_of_other_libraries_keep_their_class() {
    let expected = [
        ("f64", "numpy.float64 1.25"),
        ("f32", "numpy.float32 0.10000000149011612"),
        ("i64", "numpy.int64 \"-5\""),
        ("u64", "numpy.uint64 \"long\""),
        ("flag", "numpy.bool true"),
        ("name", "numpy.str_ \"é\""),
        ("raw", "numpy.bytes_ b\"ab\""),
        ("half", "numpy.float16 0.5"),
        ("wave", "numpy.complex64 complex"),
        ("counter", "collections.Counter {\"a\", \"2\", \"b\", \"1\"}"),
        ("queue", "<collections.deque [\"1\", \"2\"], {\"maxlen\", \"3\"}>"),
        ("default", "<collections.defaultdict {\"a\", [\"1\"]}, {\"default_factory\", builtins.list ()}>"),
        ("path", "pathlib.PurePosixPath \"/a/b\""),
        ("arguments", "argparse.Namespace {\"lr\", 0.1, \"name\", \"x\"}"),
        ("size", "torch.Size (((\"2\", \"3\")))"),
        ("device", "torch.device ((\"cuda\", \"1\"))"),
        ("dtype", "torch.bfloat16 ()"),
        ("z", "complex"),
        ("layout", "torch.serialization._get_layout ((\"torch.strided\"))"),
        ("none", "None"),
        ("tags", "set(\"a\")"),
        ("frozen", "builtins.frozenset ([\"1\"])"),
    ];
    for name in ["numpy.pt", "numpy_protocol5.pt"] {
        with(name, "", |view| {
            let found = values(view, &["others"]);
            for (key, value) in expected {
                let key = format!("{key:?}");
                let entry = found.iter().find(|(known, _)| *known == key);
                assert_eq!(entry.map(|(_, value)| value.as_str()), Some(value), "{name}: {key}");
            }
            let lost: BTreeSet<String> =
                losses(view, LossKind::Tensor).into_iter().map(|(what, _)| what).collect();
            let arrays = ["text", "structured", "objects", "time"].map(|name| format!("others.{name}"));
            assert_eq!(lost, BTreeSet::from(arrays), "{name}");
        });
    }
}

#[test]
fn a_module_is_its_state_dict_and_says_once_what_else_it_is() {
    with("modules.pt", "", |view| {
        let find = |name: &str| view.tensor_ids().find(|&id| view.tensor(id).name == name).unwrap();
        for (name, first) in [
            ("whole.head.weight", "whole.embedding.weight"),
            ("whole.again.linear.weight", "whole.blocks.0.linear.weight"),
        ] {
            assert_eq!(view.tied_to(find(name)), find(first), "{name}");
        }
        let keys: Vec<String> = values(view, &["whole"]).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys[..3], ["\"embedding.weight\"", "\"blocks.0.gain\"", "\"blocks.0.kept\""]);
        let reported = losses(view, LossKind::State);
        let blocks: Vec<&(String, String)> =
            reported.iter().filter(|(_, why)| why.contains("__main__.Block")).collect();
        assert_eq!(blocks.len(), 1, "{reported:?}");
        let (what, why) = blocks[0];
        assert_eq!(what, "whole.blocks.0");
        assert!(why.contains("3 modules") && why.contains("loose, plain"), "{why}");
        assert!(view.catalog().globals().iter().any(|global| global == "__main__.Model"));
    });
}

#[test]
fn tensors_that_are_made_say_whom_they_shared_bytes_with() {
    with("classes.pt", "", |view| {
        let alias: Vec<String> = losses(view, LossKind::Alias).into_iter().map(|(what, _)| what).collect();
        assert_eq!(alias, ["conjugate", "negative"]);
        let lost: Vec<String> = losses(view, LossKind::Tensor).into_iter().map(|(what, _)| what).collect();
        assert_eq!(lost, ["wrapper", "meta"]);
        let found = values(view, &[]);
        let of = |key: &str| found.iter().find(|(known, _)| *known == format!("{key:?}")).unwrap().1.clone();
        assert_eq!(
            of("tagged"),
            "__main__.Tagged <tensor tagged, {\"note\", \"kept\", \"mask\", tensor tagged.mask}>"
        );
        assert_eq!(of("attributed"), "<tensor attributed, {\"note\", \"5\"}>");
        assert_eq!(of("device"), "<tensor device, {\"requires_grad\", true}>");
    });
}

#[test]
fn composed_tensors_come_back_as_they_were() {
    for name in ["quantized.pt", "sparse.pt"] {
        with(name, "", |view| {
            let context = MemoryContext::default();
            let target = Target::File("copy.pt".to_owned());
            let copy = write(&Torch, &[], view, &target, &context).unwrap();
            assert!(copy.layout.losses().is_empty(), "{name}: {:?}", copy.layout.losses());
            let source = MemorySource::file("copy.pt", copy.files["copy.pt"].clone());
            let again = MemoryView::read(&Torch, &[], &source, &context).unwrap();
            for tensor in view.catalog().tensors() {
                let found = again.tensor_named(&tensor.name).unwrap();
                assert_eq!(found, view.tensor_named(&tensor.name).unwrap(), "{name}: {}", tensor.name);
            }
            let root = |view: &MemoryView<'_>| shown(view, &view.node(view.root().unwrap()).unwrap());
            assert_eq!(root(&again), root(view), "{name}");
        });
    }
}
