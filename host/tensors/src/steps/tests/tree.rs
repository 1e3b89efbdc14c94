//! Tests of the tree of non-tensor state after steps.

use super::*;

/// Parses a tree from JSON. Strings are tensors, and the name of a tensor is its path. "P" stands
/// for a tensor in an object, like a torch parameter. "A" stands for a tensor with attributes, and
/// "O" stands for an object that contains a tensor with a different name.
fn with_tree(text: &str) -> Catalog {
    fn add(builder: &mut CatalogBuilder<'_>, value: &serde_json::Value, path: &str) -> NodeId {
        let below = |key: &str| tensorferry_core::read::part::join(path, key);
        let node = match value {
            serde_json::Value::Object(entries) => {
                let mut nodes = Vec::new();
                for (key, value) in entries {
                    nodes.push((builder.node(Node::text(key)).unwrap(), add(builder, value, &below(key))));
                }
                Node::map("", &nodes)
            }
            serde_json::Value::Array(values) => {
                let nodes = values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| add(builder, value, &below(&index.to_string())));
                Node::container(NodeKind::LIST, "", nodes.collect::<Vec<_>>())
            }
            serde_json::Value::String(mark) => {
                let storage = builder.storage(Storage::inline(vec![0; 4])).unwrap();
                let name = if mark == "O" { below("0") } else { path.to_owned() };
                let tensor = Node::tensor(builder.tensor(&name, Dtype::I32, &[1], storage, 0).unwrap());
                if mark == "T" {
                    return builder.node(tensor).unwrap();
                }
                let tensor = builder.node(tensor).unwrap();
                let flag = builder.node(Node::bool(true)).unwrap();
                if mark == "A" {
                    let key = builder.node(Node::text("requires_grad")).unwrap();
                    let attributes = builder.node(Node::map("", &[(key, flag)])).unwrap();
                    Node::container(NodeKind::ATTRIBUTED, "", [tensor, attributes])
                } else {
                    let arguments =
                        builder.node(Node::container(NodeKind::TUPLE, "", [tensor, flag])).unwrap();
                    Node::container(NodeKind::OBJECT, "a.class", [arguments])
                }
            }
            other => Node::int(other.as_i64().unwrap_or(0)),
        };
        builder.node(node).unwrap()
    }
    build(|builder| {
        let root = add(builder, &serde_json::from_str(text).unwrap(), "");
        builder.root(root)
    })
}

/// Returns the tree as JSON. Each tensor is written as its name.
fn tree(catalog: &Catalog) -> String {
    fn text(catalog: &Catalog, id: NodeId) -> serde_json::Value {
        let node = catalog.tree().get(id).unwrap();
        match node.kind {
            NodeKind::MAP => {
                let entry = |(key, value): (NodeId, NodeId)| {
                    (catalog.tree().get(key).unwrap().as_text().unwrap().to_owned(), text(catalog, value))
                };
                serde_json::Value::Object(node.entries().map(entry).collect())
            }
            NodeKind::LIST | NodeKind::TUPLE => {
                node.children.iter().map(|child| text(catalog, *child)).collect()
            }
            NodeKind::OBJECT | NodeKind::ATTRIBUTED => {
                serde_json::json!({ "of": text(catalog, node.children[0]) })
            }
            NodeKind::TENSOR => catalog.tensor(node.as_tensor().unwrap()).unwrap().name.clone().into(),
            NodeKind::INT => node.as_int().into(),
            _ => serde_json::Value::Null,
        }
    }
    text(catalog, catalog.tree().root().unwrap()).to_string()
}

#[test]
fn the_tree_follows() {
    let some = || with_tree(r#"{"epoch": 3, "model": {"a.w": "T", "b": "T"}, "views": ["T", "T"]}"#);
    for (spec, expected) in [
        (
            "transpose,where=x",
            r#"{"epoch":3,"model":{"a.w":"model.a.w","b":"model.b"},"views":["views.0","views.1"]}"#,
        ),
        ("drop:model.b", r#"{"epoch":3,"model":{"a.w":"model.a.w"},"views":["views.0","views.1"]}"#),
        (
            "rename:a.w,to=c",
            r#"{"epoch":3,"model":{"b":"model.b","c":"model.c"},"views":["views.0","views.1"]}"#,
        ),
        (
            "rename:^model.,to=net.",
            r#"{"epoch":3,"net.a.w":"net.a.w","net.b":"net.b","views":["views.0","views.1"]}"#,
        ),
        ("drop:views.0", r#"{"epoch":3,"model":{"a.w":"model.a.w","b":"model.b"},"views":[null,"views.1"]}"#),
        (
            "rename:^views.1,to=model.v",
            r#"{"epoch":3,"model":{"a.w":"model.a.w","b":"model.b","v":"model.v"},"views":["views.0",null]}"#,
        ),
        (
            "tie:^model.b,to=model.c.d",
            r#"{"epoch":3,"model":{"a.w":"model.a.w","b":"model.b","c.d":"model.c.d"},"views":["views.0","views.1"]}"#,
        ),
        (
            "unstack:b$,to=b$i",
            r#"{"epoch":3,"model":{"a.w":"model.a.w","b0":"model.b0"},"views":["views.0","views.1"]}"#,
        ),
    ] {
        let (stepped, Effects { losses, .. }) = run(some(), &[spec]).unwrap();
        assert_eq!(tree(&stepped), expected, "{spec}");
        let lost = losses.iter().any(|loss| loss.kind == LossKind::State && loss.what == "views");
        assert_eq!(lost, expected.contains("null"), "{spec}: {losses:?}");
    }
    let taken = run(some(), &["rename:^model.b,to=epoch"]).unwrap_err().to_string();
    assert!(taken.contains("other state") && taken.contains("\"epoch\""), "{taken}");
}

#[test]
fn a_tensor_lies_in_the_mapping_that_its_name_begins_with() {
    let some = || with_tree(r#"{"epoch": 3, "model": {"w": "T"}, "x": "T"}"#);
    for (spec, expected, moved) in [
        (r"rename:^x$,to=model.x", r#"{"epoch":3,"model":{"w":"model.w","x":"model.x"}}"#, Some("x")),
        (r"rename:^x$,to=y.z", r#"{"epoch":3,"model":{"w":"model.w"},"y.z":"y.z"}"#, None),
        (r"rename:^model\.,to=net.", r#"{"epoch":3,"net.w":"net.w","x":"x"}"#, Some("model.w")),
        (r"rename:^model\.w,to=model.v", r#"{"epoch":3,"model":{"v":"model.v"},"x":"x"}"#, None),
        ("drop:model.w", r#"{"epoch":3,"model":{},"x":"x"}"#, None),
    ] {
        let (stepped, Effects { losses, .. }) = run(some(), &[spec]).unwrap();
        assert_eq!(tree(&stepped), expected, "{spec}");
        assert_eq!(losses.first().map(|loss| loss.what.as_str()), moved, "{spec}: {losses:?}");
        assert!(losses.iter().all(|loss| loss.severity == Severity::Changed && loss.requested), "{losses:?}");
    }
}

/// If a step changes names, new keys in the tree do not follow the conventions of the original
/// format, so the tree has no origin.
#[test]
fn a_tree_with_new_names_has_no_origin() {
    let origin = |step: &str| {
        let catalog = ran(with_tree(r#"{"a": {"b": "T", "c": "T"}}"#), &[step]);
        catalog.origin().to_owned()
    };
    assert_eq!(["drop:a.c", "rename:z,to=y"].map(origin), ["test", "test"]);
    assert_eq!(["rename:b$,to=x", "tie:a.c,to=d"].map(origin), ["", ""]);
}

#[test]
fn what_marks_a_tensor_goes_with_it() {
    let some =
        || with_tree(r#"{"ema": {"old": 1}, "model": {"a": "A", "o": "O", "p": "P"}, "views": ["P", "T"]}"#);
    let (a, o, p) = (r#"{"of":"model.a"}"#, r#"{"of":["model.o.0",null]}"#, r#"{"of":["model.p",null]}"#);
    // The JSON of this test has sorted keys, so the keys of a mapping are also sorted.
    let ema = r#""old":1"#;
    let views = r#"[{"of":["views.0",null]},"views.1"]"#;
    for (spec, ema, model, views, lost) in [
        ("transpose,where=x", ema, format!(r#""a":{a},"o":{o},"p":{p}"#), views, None),
        // The tensor remains in the same mapping.
        (
            "rename:model.p,to=model.q",
            ema,
            format!(r#""a":{a},"o":{o},"q":{{"of":["model.q",null]}}"#),
            views,
            None,
        ),
        // The tensor moves into a mapping that precedes its old mapping.
        (
            r"rename:^model\.([ap])$,to=ema.$1",
            r#""a":{"of":"ema.a"},"old":1,"p":{"of":["ema.p",null]}"#,
            format!(r#""o":{o}"#),
            views,
            None,
        ),
        // The tensor moves out of a list.
        (
            "rename:^views.0,to=model.v",
            ema,
            format!(r#""a":{a},"o":{o},"p":{p},"v":{{"of":["model.v",null]}}"#),
            r#"[null,"views.1"]"#,
            Some("views"),
        ),
        // An object that contains a tensor is not a mark of the tensor.
        (
            r"rename:^model\.o\.0,to=model.n",
            ema,
            format!(r#""a":{a},"n":"model.n","o":{{"of":[null,null]}},"p":{p}"#),
            views,
            Some("model.o"),
        ),
        ("drop:model.[ap]", ema, format!(r#""o":{o}"#), views, None),
    ] {
        let (stepped, Effects { losses, .. }) = run(some(), &[spec]).unwrap();
        let expected = format!(r#"{{"ema":{{{ema}}},"model":{{{model}}},"views":{views}}}"#);
        assert_eq!(tree(&stepped), expected, "{spec}");
        let is_state = |loss: &&Loss| loss.kind == LossKind::State && !loss.why.contains("its new name");
        let states = losses.iter().filter(is_state);
        let states: Vec<&str> = states.map(|loss| loss.what.as_str()).collect();
        assert_eq!(states, Vec::from_iter(lost), "{spec}");
    }
}
