#![expect(clippy::unwrap_used, reason = "tests")]

use crate::names::rebuild::from_keys;
use crate::testing::{self, BundleBytes, file, files, options, shape};
use tensorferry_proto::collection_def::{BytesList, Kind as Collection};
use tensorferry_proto::meta_graph_def::MetaInfoDef;
use tensorferry_proto::saved_object::Kind;
use tensorferry_proto::tensor_info::Encoding;
use tensorferry_proto::trackable_object_graph::trackable_object::{ObjectReference, SlotVariableReference};
use tensorferry_proto::{
    AssetFileDef, CollectionDef, DataType, FingerprintDef, FunctionDef, FunctionDefLibrary, GraphDef,
    Message, MetaGraphDef, NodeDef, SavedModel, SavedObject, SavedObjectGraph, SavedUserObject,
    SavedVariable, SignatureDef, TensorInfo,
};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{
    Catalog, Context, Entry, ErrorKind, LossKind, MemoryContext, MemorySource, NodeId, NodeKind, Purpose,
    Result, Value,
};
use tensorferry_test_kit::Files;

fn reference(name: &str, node_id: i32) -> ObjectReference {
    ObjectReference { node_id, local_name: name.to_owned() }
}

fn tensor_info(dims: &[i64]) -> TensorInfo {
    TensorInfo {
        dtype: DataType::DtFloat.into(),
        tensor_shape: Some(shape(dims)),
        encoding: Some(Encoding::Name("x:0".to_owned())),
    }
}

fn variable(name: &str, trainable: bool) -> SavedObject {
    let variable = SavedVariable { name: name.to_owned(), trainable, ..SavedVariable::default() };
    SavedObject { kind: Some(Kind::Variable(variable)), ..SavedObject::default() }
}

/// Returns the saved objects. Their order differs from the order in the bundle's graph, which is
/// built from [`KEYS`].
fn objects() -> SavedObjectGraph {
    let class = SavedUserObject { identifier: "_tf_keras_layer".to_owned(), ..SavedUserObject::default() };
    let root = SavedObject {
        children: vec![reference("w", 2), reference("steps", 1), reference("optimizer", 4)],
        kind: Some(Kind::UserObject(class)),
        ..SavedObject::default()
    };
    let slot = SlotVariableReference {
        original_variable_node_id: 2,
        slot_name: "m".to_owned(),
        slot_variable_node_id: 3,
    };
    let optimizer = SavedObject { slot_variables: vec![slot], ..SavedObject::default() };
    let [steps, w, m] = [("steps", false), ("w", true), ("Adam/w/m", false)].map(|(n, t)| variable(n, t));
    SavedObjectGraph { nodes: vec![root, steps, w, m, optimizer] }
}

fn meta_graph(tags: &[&str]) -> MetaGraphDef {
    let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
    let info = MetaInfoDef { tags, tensorflow_version: "2.21.0".to_owned(), ..MetaInfoDef::default() };
    let node = NodeDef { name: "n".to_owned(), op: "NoOp".to_owned(), ..NodeDef::default() };
    let library = FunctionDefLibrary { function: vec![FunctionDef::default()] };
    let signature = SignatureDef {
        inputs: [("x".to_owned(), tensor_info(&[-1, 4]))].into(),
        outputs: [("y".to_owned(), TensorInfo { dtype: 20, ..TensorInfo::default() })].into(),
        method_name: "tensorflow/serving/predict".to_owned(),
    };
    MetaGraphDef {
        meta_info_def: Some(info),
        graph_def: Some(GraphDef {
            node: vec![node.clone(), node],
            library: Some(library),
            ..GraphDef::default()
        }),
        signature_def: [("serving_default", signature), ("__saved_model_init_op", SignatureDef::default())]
            .map(|(name, signature)| (name.to_owned(), signature))
            .into(),
        asset_file_def: vec![AssetFileDef { filename: "vocab.txt".to_owned(), ..AssetFileDef::default() }],
        object_graph_def: Some(objects()),
        ..MetaGraphDef::default()
    }
}

fn document(graphs: Vec<MetaGraphDef>) -> Vec<u8> {
    SavedModel { saved_model_schema_version: 1, meta_graphs: graphs }.encode_to_vec()
}

/// Returns the files of a SavedModel folder that contains only the document.
fn only(graphs: Vec<MetaGraphDef>) -> Files {
    files(&[("saved_model.pb", document(graphs))])
}

/// Returns the files of a bundle that contains a two-float variable for each key and, optionally,
/// the object graph.
fn variables(keys: &[&str], has_graph: bool) -> Files {
    let mut bundle = BundleBytes::default();
    for key in keys {
        bundle.entry(key.as_bytes(), DataType::DtFloat, &[2], &testing::f32s(&[1.0, 2.0]), 0);
    }
    if has_graph {
        let graph = from_keys(keys).unwrap().encode_to_vec();
        bundle.strings(b"_CHECKPOINTABLE_OBJECT_GRAPH", &[], &[&graph], false, 0);
    }
    bundle.files("variables/variables")
}

const KEYS: [&str; 3] = [
    "w/.ATTRIBUTES/VARIABLE_VALUE",
    "steps/.ATTRIBUTES/VARIABLE_VALUE",
    "w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
];

fn saved_model() -> Files {
    let fingerprint =
        FingerprintDef { checkpoint_hash: u64::MAX, uuid: "abc".to_owned(), ..FingerprintDef::default() };
    let mut files = variables(&KEYS, true);
    files.insert("saved_model.pb".to_owned(), document(vec![meta_graph(&["serve"])]));
    files.insert("fingerprint.pb".to_owned(), fingerprint.encode_to_vec());
    files.insert("assets/vocab.txt".to_owned(), b"a\n".to_vec());
    files.insert("assets.extra/tf_serving_warmup_requests".to_owned(), Vec::new());
    files
}

fn read_with(entry: Entry, files: Files, given: &[(&str, &str)], context: &MemoryContext) -> Result<Catalog> {
    let source = MemorySource::new(entry, files);
    Ok(MemoryView::read(&crate::SavedModel, &options(given), &source, context)?.catalog().clone())
}

fn read(files: Files, given: &[(&str, &str)]) -> Result<Catalog> {
    read_with(Entry::Folder, files, given, &MemoryContext::default())
}

/// Returns the tree of a catalog node as text.
fn text(catalog: &Catalog, node: NodeId) -> String {
    let node = catalog.tree().get(node).unwrap();
    let children = || node.children.iter().map(|&child| text(catalog, child)).collect::<Vec<_>>();
    match node.kind {
        NodeKind::TEXT => node.as_text().unwrap().to_owned(),
        NodeKind::INT => node.as_int().unwrap().to_string(),
        NodeKind::LIST => format!("[{}]", children().join(" ")),
        _ => {
            let pairs: Vec<String> = children().chunks(2).map(|pair| pair.join("=")).collect();
            format!("{{{}}}", pairs.join(" "))
        }
    }
}

#[test]
fn a_person_sees_what_it_is_for() {
    let catalog = read(saved_model(), &[]).unwrap();
    let expected = "{tag_sets=[[serve]] \
        signatures={serving_default={method=tensorflow/serving/predict inputs={x=F32 [-1, 4]} \
        outputs={y=DT_RESOURCE of any shape}}} \
        graph={functions=1 nodes=2} classes={_tf_keras_layer=1} assets=[vocab.txt] \
        assets_extra=[tf_serving_warmup_requests] tensorflow_version=2.21.0 \
        fingerprint={checkpoint_hash=18446744073709551615 uuid=abc}}";
    assert_eq!(text(&catalog, catalog.tree().root().unwrap()), expected);
    assert!(catalog.losses().is_empty());
}

#[test]
fn conversions_carry_the_variables_and_say_what_else_there_was() {
    let mut context = MemoryContext::default();
    context.purpose = Purpose::FLAT;
    let catalog = read_with(Entry::Folder, saved_model(), &[], &context).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["steps", "w"]);
    let losses: Vec<_> = catalog.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    let expected = [
        (LossKind::Graph, "saved_model.pb: graph"),
        (LossKind::Graph, "saved_model.pb: signatures"),
        (LossKind::State, "optimizer"),
    ];
    assert_eq!(losses, expected);
    assert!(catalog.tree().root().is_none());
}

#[test]
fn the_graph_is_chosen_by_its_tags() {
    let files = || only(vec![meta_graph(&["serve"]), meta_graph(&["serve", "gpu"])]);
    let error = read(files(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("tags=gpu,serve, tags=serve"), "{error}");
    assert!(read(files(), &[("tags", "gpu,serve")]).is_ok());
    assert_eq!(read(files(), &[("tags", "gpu")]).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn a_model_without_variables_has_no_tensors() {
    let context = MemoryContext::default();
    let files = only(vec![meta_graph(&["serve"])]);
    let catalog = read_with(file("saved_model.pb"), files, &[], &context).unwrap();
    assert!(catalog.tensors().is_empty());
    assert!(context.notes()[0].contains("\"vocab.txt\""), "{:?}", context.notes());

    // The graph may list variables that are missing.
    let mut files = saved_model();
    files.retain(|name, _| !name.starts_with("variables/"));
    let catalog = read(files, &[]).unwrap();
    let loss = catalog.losses().iter().find(|loss| loss.kind == LossKind::Tensor).unwrap();
    assert!(loss.what == "variables/variables.index" && loss.why.contains("variables"), "{loss:?}");

    let mut files = saved_model();
    files.remove("variables/variables.index");
    let error = read(files, &[]).unwrap_err();
    assert!(error.to_string().contains("no index"), "{error}");
}

#[test]
fn text_says_the_same() {
    let text = "saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: 'serve' tensorflow_version: '1.15.0' }
        graph_def { node { name: 'a' op: 'NoOp' } }
        signature_def { key: 's' value { inputs { key: 'x' value { dtype: DT_INT64 tensor_shape { } } } } } }";
    for name in ["saved_model.pbtxt", "sub/saved_model.pbtxt"] {
        let entry = if name.contains('/') { file(name) } else { Entry::Folder };
        let catalog = read_with(entry, files(&[(name, text)]), &[], &MemoryContext::default()).unwrap();
        let shown = self::text(&catalog, catalog.tree().root().unwrap());
        assert!(shown.contains("signatures={s={method= inputs={x=I64 []} outputs={}}}"), "{shown}");
    }
}

#[test]
fn graphs_of_tensorflow_1_have_collections() {
    let nested =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let collection = |values: Vec<Vec<u8>>| CollectionDef {
        kind: Some(Collection::BytesList(BytesList { value: values })),
    };
    let asset = AssetFileDef { filename: "gone.txt".to_owned(), ..AssetFileDef::default() }.encode_to_vec();
    let collections = [
        ("saved_model_assets", collection(vec![nested(2, &asset)])),
        ("trainable_variables", collection(vec![nested(1, b"w:0"), vec![0xff]])),
        ("other", collection(vec![vec![0xff]])),
    ];
    let graph = MetaGraphDef {
        collection_def: collections.map(|(name, collection)| (name.to_owned(), collection)).into(),
        ..MetaGraphDef::default()
    };
    let mut files = variables(&["steps", "w"], false);
    files.insert("saved_model.pb".to_owned(), document(vec![graph]));
    let context = MemoryContext::default();
    let catalog = read_with(Entry::Folder, files, &[], &context).unwrap();
    assert_eq!(catalog.tensors().len(), 2);
    assert!(context.notes()[0].contains("\"gone.txt\""));
    let trainable: Vec<_> =
        catalog.tensors().iter().map(|tensor| tensor.attributes.get("trainable")).collect();
    assert_eq!(trainable, [None, Some(&Value::bool(true))]);
}

#[test]
fn what_cannot_be_read_is_said() {
    let kind = |name: &str, bytes: &[u8]| {
        let files = files(&[(name, bytes)]);
        read_with(file(name), files, &[], &MemoryContext::default()).unwrap_err().kind()
    };
    assert_eq!(kind("saved_model.cpb", b""), ErrorKind::Unsupported);
    assert_eq!(kind("saved_model.pb", b""), ErrorKind::Malformed);
    assert_eq!(kind("saved_model.pb", b"node { }"), ErrorKind::Unsupported);
    assert_eq!(kind("saved_model.pbtxt", b"meta_graphs { meta_info_def {"), ErrorKind::Malformed);
    assert_eq!(read(Files::new(), &[]).unwrap_err().kind(), ErrorKind::Malformed);
    let mut files = saved_model();
    files.insert("fingerprint.pb".to_owned(), vec![0xff]);
    assert_eq!(read(files, &[]).unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(MemoryContext::default().purpose(), Purpose::SHOW);
}

#[test]
fn cut_documents_never_panic() {
    let whole = document(vec![meta_graph(&["serve"])]);
    for len in 0..whole.len() {
        let cut = files(&[("saved_model.pb", &whole[..len])]);
        assert_eq!(read(cut, &[]).unwrap_err().kind(), ErrorKind::Malformed, "{len}");
        let mut flipped = whole.clone();
        flipped[len] ^= 0x55;
        let _ = read(files(&[("saved_model.pb", flipped)]), &[]);
    }
}

#[test]
fn variables_are_joined_by_their_paths() {
    let catalog = read(saved_model(), &[]).unwrap();
    let label = |key: &str, label: &str| {
        let tensor = catalog.tensors().iter().find(|tensor| tensor.name == key).unwrap();
        tensor.attributes.get(label).map(Value::json)
    };
    let said = |json: &str| Some(json.to_owned());
    assert_eq!((label(KEYS[0], "full_name"), label(KEYS[0], "trainable")), (said("\"w\""), said("true")));
    assert_eq!(
        (label(KEYS[1], "full_name"), label(KEYS[1], "trainable")),
        (said("\"steps\""), said("false"))
    );
    assert_eq!(
        (label(KEYS[2], "full_name"), label(KEYS[2], "trainable")),
        (said("\"Adam/w/m\""), said("false"))
    );
}
