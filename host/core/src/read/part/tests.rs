//! Tests of the part that `auto` selects, and of the nodes that paths lead to.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use tensorferry_sdk::{CatalogBuilder, CatalogSink, Dtype, Limits, MemorySource, Storage};

/// Parses a catalog whose tree is written as JSON: a string is a tensor with one element per
/// letter, and any other value is state.
fn catalog(text: &str) -> Catalog {
    fn add(builder: &mut CatalogBuilder<'_>, value: &serde_json::Value, path: &str) -> NodeId {
        let node = match value {
            serde_json::Value::Object(entries) => {
                let mut nodes = Vec::new();
                for (key, value) in entries {
                    let key_node = builder.node(Node::text(key)).unwrap();
                    nodes.push((key_node, add(builder, value, &join(path, key))));
                }
                Node::map("", &nodes)
            }
            serde_json::Value::Array(values) => {
                let places = values.iter().enumerate();
                let nodes: Vec<NodeId> =
                    places.map(|(i, value)| add(builder, value, &join(path, &i.to_string()))).collect();
                Node::container(NodeKind::LIST, "", nodes)
            }
            serde_json::Value::String(text) => {
                let storage = builder.storage(Storage::inline(vec![0; text.len()])).unwrap();
                Node::tensor(builder.tensor(path, Dtype::U8, &[text.len() as u64], storage, 0).unwrap())
            }
            other => Node::int(other.as_i64().unwrap_or(0)),
        };
        builder.node(node).unwrap()
    }
    let source = MemorySource::file("x", Vec::new());
    let limits = Limits::default();
    let mut builder = CatalogBuilder::new("test", &source, &limits);
    let root = add(&mut builder, &serde_json::from_str(text).unwrap(), "");
    builder.root(root).unwrap();
    builder.finish().unwrap()
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect()
}

#[test]
fn auto_takes_the_model_whatever_it_is_called() {
    let text = r#"{"net_g": {"params": {"a": "T", "b.c": "T"}}, "opt": {"state": {"0": "T"}, "param_groups": 1}, "epoch": 3}"#;
    let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["a", "b.c"]);
    let what: Vec<&str> = left_out.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(what, ["epoch", "opt"]);
    assert_eq!(part.tree().len(), 5);
}

#[test]
fn several_models_are_listed_with_their_commands() {
    let text = r#"{"model": {"a": "T"}, "ema": {"a": "T"}, "optimizer": {"a": "T"}}"#;
    let error = take(catalog(text), &Part::Auto, true).err().unwrap().to_string();
    assert!(
        error.contains("--part ema") && error.contains("--part model") && !error.contains("optimizer"),
        "{error}"
    );
    let (part, _) = take(catalog(text), &Part::parse("ema"), true).unwrap();
    assert_eq!(names(&part), ["a"]);
    assert_eq!(names(&take(catalog(text), &Part::Whole, true).unwrap().0).len(), 3);
    assert_eq!(names(&take(catalog(text), &Part::Auto, false).unwrap().0).len(), 3);
}

#[test]
fn a_mapping_has_names_and_more_than_numbers() {
    let text = r#"{"state": {"a": "TT", "b": "TT"}, "step": "T", "views": ["TT", "TT"]}"#;
    let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["a", "b"]);
    assert_eq!(left_out.len(), 2);
    assert_eq!(names(&take(catalog(r#"{"step": "T"}"#), &Part::Auto, true).unwrap().0), ["step"]);
}

#[test]
fn many_numbers_beside_a_model_are_counted() {
    let numbers: Vec<String> = (0..1000).map(|n| format!(r#""n{n}": 1"#)).collect();
    let text = format!(r#"{{"model": {{"a": "TT"}}, "z": {{"t": "T"}}, {}}}"#, numbers.join(", "));
    let (part, left_out) = take(catalog(&text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["a"]);
    assert_eq!(left_out.len(), MAX_LISTED + 2);
    assert!(left_out.iter().any(|loss| loss.what == "800 more values"));
    assert!(left_out.iter().any(|loss| loss.what == "z" && loss.why.contains("took (1 tensor);")));
}

#[test]
fn numbers_of_callbacks_are_no_model() {
    let text = r#"{"state_dict": {"a": "TT"}, "callbacks": {"early": {"best": "T"}}}"#;
    let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["a"]);
    assert_eq!(left_out[0].what, "callbacks");
}

#[test]
fn training_state_beside_plain_tensors_is_left_out() {
    let generator = "T".repeat(16);
    let text = format!(
        r#"{{"weight": "T", "scaler.mean": "T", "scaler": "TT", "rng_state": "{generator}", "optim": {{"a": "TT"}}, "epoch": 3}}"#
    );
    let (part, left_out) = take(catalog(&text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["scaler", "scaler.mean", "weight"]);
    let what: Vec<&str> = left_out.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(what, ["optim", "rng_state"]);
    // Other values stay in the tree. A loss is reported for a target that cannot store these
    // values.
    let walk = TreeWalk::new(&part);
    let keys: Vec<String> = walk.children(part.tree().root().unwrap()).map(|(key, _)| key).collect();
    assert_eq!(keys, ["epoch", "scaler", "scaler.mean", "weight"]);
}

#[test]
fn random_states_are_no_model_by_any_name() {
    let state = "T".repeat(5056);
    let text =
        format!(r#"{{"net": {{"a": "TT"}}, "cpu": "{state}", "generators": {{"a": "{state}", "b": "T"}}}}"#);
    let (part, left_out) = take(catalog(&text), &Part::Auto, true).unwrap();
    assert_eq!(names(&part), ["a"]);
    assert_eq!(left_out.len(), 2);
}

#[test]
fn paths_go_through_keys_with_dots() {
    let text = r#"{"a.b": {"c": {"x": "T"}}, "a": {"d": {"y": "T"}}}"#;
    assert_eq!(names(&take(catalog(text), &Part::parse("a.b.c"), true).unwrap().0), ["x"]);
    assert!(take(catalog(text), &Part::parse("a.c"), true).is_err());
}

/// Checkpoints that contain tensors next to mappings of tensors, with the expected results of
/// `auto`. A result is the selected names and the entries that are left out, or the parts to choose
/// from.
#[test]
fn a_tensor_beside_a_model_makes_no_model_of_both() {
    let taken: [(&str, &[&str], &[&str]); 10] = [
        // The mapping is a checkpoint.
        (r#"{"state_dict": {"fc.w": "TT"}, "class_weights": "TTT"}"#, &["fc.w"], &["class_weights"]),
        (r#"{"whatever": {"fc.w": "TT"}, "losses": "TTT", "epoch": 3}"#, &["fc.w"], &["epoch", "losses"]),
        (r#"{"model": {"weight": "TT"}, "losses": "TTT"}"#, &["weight"], &["losses"]),
        (r#"{"net": {"a": {"fc.w": "TT"}}, "scaler": "TTT"}"#, &["fc.w"], &["scaler"]),
        (r#"{"upscaler": {"fc.w": "TT"}}"#, &["fc.w"], &[]),
        // The mapping is a state dict or a parameter tree.
        (r#"{"extra": {"fc.w": "TT"}, "fc.w": "TT"}"#, &["extra.fc.w", "fc.w"], &[]),
        (r#"{"_extra_state": {"a": "TT"}, "weight": "TT"}"#, &["_extra_state.a", "weight"], &[]),
        (r#"{"ema": {"weight": "TT"}, "weight": "TT"}"#, &["ema.weight", "weight"], &[]),
        (r#"{"dense": {"kernel": "TT"}, "wte": "TT"}"#, &["dense.kernel", "wte"], &[]),
        (
            r#"{"params": {"a": {"kernel": "TT"}, "b": {"kernel": "TT"}}, "opt_state": {"mu": {"a": "TT"}}, "step": 3}"#,
            &["a.kernel", "b.kernel"],
            &["opt_state", "step"],
        ),
    ];
    for (text, expected, left) in taken {
        let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), expected, "{text}");
        assert_eq!(left_out.iter().map(|loss| &*loss.what).collect::<Vec<_>>(), left, "{text}");
    }
    for text in [
        r#"{"model": {"fc.w": "TT"}, "ema": {"fc.w": "TT"}, "losses": "TTT"}"#,
        r#"{"upscaler": {"fc.w": "TT"}, "optimal_weights": {"fc.w": "TT"}}"#,
        r#"{"checkpoint": {"generator": {"fc.w": "TT"}, "discriminator": {"fc.w": "TT"}}}"#,
    ] {
        let error = take(catalog(text), &Part::Auto, true).err().unwrap().to_string();
        assert!(error.contains("several parts hold tensors"), "{text}: {error}");
    }
}

#[test]
fn a_part_is_there_or_not() {
    let nested = catalog(r#"{"model": {"a": "T"}}"#);
    assert!(has(&nested, "model") && !has(&nested, "mode"));
    let (flat, _) = take(nested, &Part::parse("model"), true).unwrap();
    assert!(!has(&flat, "model") && has(&flat, "a"));
}
