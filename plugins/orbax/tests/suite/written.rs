//! Tests of the writer's output.

use tensorferry_orbax::Orbax;
use tensorferry_sdk::{
    CatalogSink, Dtype, ErrorKind, MemorySource, Node, NodeId, NodeKind, Result, Severity, Storage, Target,
};
use tensorferry_test_kit::tensors::{one, with_view, write};

#[test]
fn each_tensor_is_an_array_of_one_chunk() {
    let output = write(
        &Orbax,
        |catalog| {
            one(catalog, "a.w", Dtype::BF16, &[1, 2], &[1, 2, 3, 4])?;
            one(catalog, "a", Dtype::I8, &[], &[7])?;
            one(catalog, "it's", Dtype::F32, &[0, 3], &[])
        },
        &[],
        &Target::Folder,
    )
    .unwrap();
    let names: Vec<&str> = output.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["_METADATA", "a.w/.zarray", "a.w/0.0", "a/.zarray", "a/0", "it's/.zarray", "it's/0.0"]
    );
    assert_eq!(output.files["a.w/0.0"], [1, 2, 3, 4]);
    let metadata: serde_json::Value = serde_json::from_slice(&output.files["_METADATA"]).unwrap();
    // The prefix `a` is also the name of a tensor. A tensor cannot contain other tensors, so the
    // name `a.w` is not split.
    assert_eq!(metadata["tree_metadata"]["('a.w',)"]["key_metadata"][0]["key"], "a.w");
    assert!(metadata["tree_metadata"][r"('it\'s',)"].is_object(), "{metadata}");
    with_view(&Orbax, &MemorySource::folder(output.files), &[], |view| {
        assert_eq!(view.tensor_named("a.w").unwrap(), ("BF16".to_owned(), vec![1, 2], vec![1, 2, 3, 4]));
        assert_eq!(view.tensor_named("it's").unwrap().1, [0, 3]);
    })
    .unwrap();
}

#[test]
fn what_no_folder_can_be_called_is_left_out() {
    let (long, deep) = ("x".repeat(256), "x/".repeat(1100) + "x");
    let names = ["", "a/../b", "/a", "a\\b", ".zarray", "_METADATA", &long, &deep, "good/0/x", "good"];
    let output = write(
        &Orbax,
        |catalog| names.into_iter().try_for_each(|name| one(catalog, name, Dtype::U8, &[1], &[1])),
        &[],
        &Target::Folder,
    )
    .unwrap();
    assert_eq!(output.layout.omitted().len(), names.len() - 1);
    let refused = write(&Orbax, |_| Ok(()), &[], &Target::File("x".to_owned())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

/// A training state that resembles an optax state. It has nested tuples, empty items, and a key
/// that contains a dot.
fn state(catalog: &mut dyn CatalogSink, origin: &str, is_renamed: bool) -> Result<()> {
    catalog.origin(origin)?;
    let storage = catalog.storage(Storage::inline([1]))?;
    let array = |catalog: &mut dyn CatalogSink, name: &str| {
        let name = if is_renamed { format!("{name}_") } else { name.to_owned() };
        let id = catalog.tensor(&name, Dtype::U8, &[1], storage, 0)?;
        catalog.node(Node::tensor(id))
    };
    let map = |catalog: &mut dyn CatalogSink, entries: &[(&str, NodeId)]| {
        let keyed = entries.iter().map(|(key, value)| Ok((catalog.node(Node::text(key))?, *value)));
        let keyed = keyed.collect::<Result<Vec<_>>>()?;
        catalog.node(Node::map("", &keyed))
    };
    let (none, empty) = (catalog.node(Node::none())?, catalog.node(Node::container(NodeKind::LIST, "", []))?);
    let (count, mu, w) =
        (array(catalog, "opt.1.0.count")?, array(catalog, "opt.1.0.mu")?, array(catalog, "params.a.b.w")?);
    let adam = map(catalog, &[("count", count), ("mu", mu)])?;
    let inner = catalog.node(Node::container(NodeKind::TUPLE, "", [adam, none, empty]))?;
    let outer = catalog.node(Node::container(NodeKind::LIST, "", [none, inner]))?;
    let layer = map(catalog, &[("w", w)])?;
    let params = map(catalog, &[("a.b", layer), ("nothing", none)])?;
    let root = map(catalog, &[("opt", outer), ("params", params)])?;
    catalog.root(root)
}

/// Returns the keys of each leaf with their types, and the kind of the leaf.
fn leaves(files: &[u8]) -> Vec<String> {
    let metadata: serde_json::Value = serde_json::from_slice(files).unwrap();
    let leaf = |entry: &serde_json::Value| {
        let keys = entry["key_metadata"].as_array().unwrap().iter();
        let keys = keys.map(|key| format!("{}:{}", key["key"].as_str().unwrap(), key["key_type"]));
        let is_empty = entry["value_metadata"]["skip_deserialize"].as_bool().unwrap();
        let kind = entry["value_metadata"]["value_type"].as_str().unwrap();
        format!("{} {kind} {is_empty}", keys.collect::<Vec<_>>().join(" "))
    };
    let mut leaves: Vec<String> = metadata["tree_metadata"].as_object().unwrap().values().map(leaf).collect();
    leaves.sort();
    leaves
}

#[test]
fn lists_and_keys_are_those_of_the_tree() {
    let lists = [
        "opt:2 0:1 None true",
        "opt:2 1:1 0:1 count:2 np.ndarray false",
        "opt:2 1:1 0:1 mu:2 np.ndarray false",
        "opt:2 1:1 1:1 None true",
        "opt:2 1:1 2:1 List true",
    ];
    for (origin, w) in [
        ("orbax", "params:2 a.b:2 w:2 np.ndarray false"),
        // A key with dots is a path through nested modules.
        ("torch", "params:2 a:2 b:2 w:2 np.ndarray false"),
    ] {
        let output = write(&Orbax, |catalog| state(catalog, origin, false), &[], &Target::Folder).unwrap();
        assert_eq!(leaves(&output.files["_METADATA"]), [&lists[..], &[w]].concat(), "{origin}");
        assert_eq!(output.layout.losses(), []);
        with_view(&Orbax, &MemorySource::folder(output.files), &[], |view| {
            assert_eq!(view.tensor_named("opt.1.0.mu").unwrap().2, [1]);
            let lists = view.catalog().tree().nodes().iter().filter(|node| node.kind == NodeKind::LIST);
            assert_eq!(lists.map(|node| node.children.len()).collect::<Vec<_>>(), [0, 3, 2], "{origin}");
        })
        .unwrap();
    }
    // If the names do not match the tree, the writer does not use the tree, so lists become dicts.
    let output = write(&Orbax, |catalog| state(catalog, "orbax", true), &[], &Target::Folder).unwrap();
    assert_eq!(leaves(&output.files["_METADATA"])[0], "opt:2 1:2 0:2 count_:2 np.ndarray false");
    let [loss] = output.layout.losses() else { panic!("{:?}", output.layout.losses()) };
    assert!(loss.severity == Severity::Changed && loss.why.contains("lists become dicts"), "{loss}");
}
