#![expect(clippy::unwrap_used, reason = "tests")]

use crate::bundle::{BundleIndex, OBJECT_GRAPH_KEY};
use crate::names::key_map::KeyMap;
use crate::names::rebuild::from_keys;
use crate::testing::{Sample, context_with, index};
use tensorferry_proto::{BundleEntryProto, Message, TrackableObjectGraph};
use tensorferry_sdk::memory::MemoryOutput;
use tensorferry_sdk::*;

const W: &str = "model/w/.ATTRIBUTES/VARIABLE_VALUE";
const B: &str = "model/b/.ATTRIBUTES/VARIABLE_VALUE";
const ALSO_B: &str = "also/b/.ATTRIBUTES/VARIABLE_VALUE";
const CONFIG: &str = "model/.ATTRIBUTES/OBJECT_CONFIG_JSON";

fn sample(names: &[&'static str]) -> Sample {
    let tensors = names.iter().zip(1..).map(|(&name, value)| (name, Dtype::U8, vec![1], vec![value]));
    Sample::of(&tensors.collect::<Vec<_>>())
}

fn keys(output: &MemoryOutput) -> Vec<String> {
    index(output, "m.index").1.into_iter().map(|(key, _)| key).collect()
}

/// Returns the object graph in the output.
fn graph(output: &MemoryOutput) -> TrackableObjectGraph {
    let source = MemorySource::new(Entry::Prefix("m".to_owned()), output.files.clone());
    let context = MemoryContext::default();
    let bundle = BundleIndex::read(&source, "m", &context).unwrap();
    let bytes = bundle.string_scalar(&source, OBJECT_GRAPH_KEY.as_bytes(), &context).unwrap().unwrap();
    TrackableObjectGraph::decode(&*bytes).unwrap()
}

fn graph_losses(output: &MemoryOutput) -> usize {
    output.layout.losses().iter().filter(|loss| loss.kind == LossKind::Graph).count()
}

/// Adds the metadata that a checkpoint has after its conversion to another format.
fn with_metadata(mut sample: Sample, graph: Vec<u8>) -> Sample {
    let mut map = KeyMap::default();
    map.object_graph = Some(graph);
    map.add("b", [B.as_bytes(), ALSO_B.as_bytes()]);
    map.strings.insert(CONFIG.as_bytes().to_vec(), b"{}".to_vec());
    let known = ["ferry.tf.object_graph", "ferry.tf.keys", "ferry.tf.strings"];
    let value_of =
        |key: &'static str| map.to_metadata().into_iter().find(|(k, _)| k == key).map(|(_, v)| (key, v));
    sample.metadata.extend(known.into_iter().filter_map(value_of));
    sample
}

#[test]
fn the_way_back_is_in_the_metadata() {
    let whole = from_keys(&[W, B, ALSO_B, CONFIG]).unwrap();
    let output = with_metadata(sample(&["model/w", "b"]), whole.encode_to_vec()).write_file(&[]);
    assert_eq!(keys(&output), [OBJECT_GRAPH_KEY, ALSO_B, CONFIG, B, W]);
    assert_eq!(graph(&output), whole);
    assert_eq!(graph_losses(&output), 0);
    let b = TensorId(1);
    assert_eq!(output.layout.names(b).unwrap(), [B, ALSO_B]);
    // Both entries refer to the same position.
    let places = index(&output, "m.index").1.into_iter().filter(|(key, _)| key == B || key == ALSO_B);
    let offsets: Vec<_> = places.map(|(_, entry)| entry.offset).collect();
    assert_eq!(offsets[0], offsets[1]);
}

#[test]
fn a_graph_is_pruned_to_what_is_there() {
    let whole = from_keys(&[W, B, ALSO_B, CONFIG]).unwrap();
    let output = with_metadata(sample(&["b", "new"]), whole.encode_to_vec()).write_file(&[]);
    assert_eq!(keys(&output), [OBJECT_GRAPH_KEY, ALSO_B, CONFIG, B, "new"]);
    let pruned = graph(&output);
    assert_eq!(pruned.nodes.len(), whole.nodes.len());
    assert_eq!(pruned.nodes.iter().map(|node| node.attributes.len()).sum::<usize>(), 3);
    let losses = output.layout.losses();
    assert!(losses.len() == 1 && losses[0].why.contains("\"new\""), "{losses:?}");
}

#[test]
fn a_graph_that_is_broken_is_passed_over() {
    let output = with_metadata(sample(&["b"]), b"\xff".to_vec()).write_file(&[]);
    assert_eq!(keys(&output), [ALSO_B, CONFIG, B]);
    let kinds: Vec<_> = output.layout.losses().iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::Metadata, LossKind::Graph]);
}

#[test]
fn names_are_keys_without_a_graph() {
    let sample = sample(&["bert/w", "b"]);
    let output = sample.write_file(&[]);
    assert_eq!((keys(&output), graph_losses(&output)), (vec!["b".to_owned(), "bert/w".to_owned()], 1));
    let output = sample.write_file(&[("graph", "none")]);
    assert_eq!((keys(&output).len(), graph_losses(&output)), (2, 0));
}

#[test]
fn a_graph_is_made_of_names() {
    let output = sample(&["model/w", "a.b"]).write_file(&[("graph", "names")]);
    assert_eq!(keys(&output), [OBJECT_GRAPH_KEY, "a..b/.ATTRIBUTES/VARIABLE_VALUE", W]);
    assert_eq!(graph(&output).nodes.len(), 4);
    assert_eq!(graph_losses(&output), 0);

    let output = sample(&[W, B]).write_file(&[]);
    assert_eq!(graph(&output), from_keys(&[W, B]).unwrap());
    assert_eq!(graph_losses(&output), 1);
}

#[test]
fn another_checkpoint_gives_keys_and_graph() {
    let like = sample(&[W, B]).write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let target = Target::File("m".to_owned());
    let output = sample(&["model/b", W]).write(&[("like", "like")], &target, &context).unwrap();
    assert_eq!(keys(&output), [OBJECT_GRAPH_KEY, B, W]);
    assert_eq!(graph_losses(&output), 0);
    let error = sample(&["w"]).write(&[("like", "nothing")], &target, &context).unwrap_err();
    assert!(error.to_string().contains("like=nothing"), "{error}");
    // Both names resolve to the same variable.
    assert!(sample(&["model/w", W]).write(&[("like", "like")], &target, &context).is_err());
}

/// A template variable without a matching tensor is an error. With `missing=keep`, the variable
/// keeps its value and is listed. Variables that only optimizers and savers need may be missing.
#[test]
fn a_variable_of_another_checkpoint_needs_its_tensor() {
    const STEP: &str = "optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE";
    const COUNTER: &str = "save_counter/.ATTRIBUTES/VARIABLE_VALUE";
    let like = sample(&[W, B, STEP, COUNTER]).write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let target = Target::File("m".to_owned());
    let write = |names: &[&'static str], options| sample(names).write(options, &target, &context);
    let values = |output: &MemoryOutput| {
        let entries = index(output, "m.index").1.into_iter().filter(|(key, _)| key != OBJECT_GRAPH_KEY);
        let value = |(key, entry): (String, BundleEntryProto)| {
            let file =
                output.files.iter().find(|(name, _)| name.contains(&format!("data-{:05}", entry.shard_id)));
            (key, file.unwrap().1[usize::try_from(entry.offset).unwrap()])
        };
        entries.map(value).collect::<Vec<_>>()
    };
    let owned = |values: &[(&str, u8)]| -> Vec<_> {
        values.iter().map(|&(key, value)| (key.to_owned(), value)).collect()
    };

    let error = write(&[W, "model/c"], &[("like", "like")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let reported = format!("{error} {:?}", error.details().collect::<Vec<_>>());
    assert!([B, "missing=keep", "\"model/c\""].iter().all(|text| reported.contains(text)), "{reported}");
    assert!(![STEP, COUNTER].iter().any(|text| reported.contains(text)), "{reported}");
    let output = write(&[B, W], &[("like", "like")]).unwrap();
    assert_eq!(values(&output), owned(&[(B, 1), (W, 2)]));

    let output = write(&[B], &[("like", "like"), ("missing", "keep")]).unwrap();
    assert_eq!(values(&output), owned(&[(B, 1), (W, 1), (STEP, 3), (COUNTER, 4)]));
    assert!(context.notes().iter().any(|note| note.contains(W)), "{:?}", context.notes());
    assert_eq!(output.layout.losses(), []);
}

#[test]
fn one_key_is_for_one_tensor() {
    let mut sample = with_metadata(sample(&["b", B]), Vec::new());
    sample.metadata.retain(|(key, _)| *key == "ferry.tf.keys");
    let target = Target::File("m".to_owned());
    let error = sample.write(&[], &target, &MemoryContext::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

/// Returns tensors whose keys are positions in a list, as in a copied checkpoint. `full_names`
/// contains the full names of their variables.
fn places(full_names: &[&str]) -> Sample {
    const KEYS: [&str; 2] = [
        "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE",
        "optimizer/_trainable_variables/1/.ATTRIBUTES/VARIABLE_VALUE",
    ];
    let mut graph = from_keys(&KEYS).unwrap();
    let values = graph.nodes.iter_mut().flat_map(|node| &mut node.attributes);
    values.zip(full_names).for_each(|(value, name)| value.full_name = (*name).to_owned());
    with_metadata(sample(&KEYS), graph.encode_to_vec())
}

/// Returns the first data file, which contains the values in key order.
fn data(output: &MemoryOutput) -> &[u8] {
    &output.files["m.data-00000-of-00001"]
}

#[test]
fn places_in_another_checkpoint_are_told_by_full_names() {
    let target = Target::File("m".to_owned());
    let like = places(&["a/w", "b/w"]).write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let write = |sample: Sample| sample.write(&[("like", "like")], &target, &context);
    let output = write(places(&["a/w", "b/w"])).unwrap();
    let values = |output: &MemoryOutput| data(output)[data(output).len() - 2..].to_vec();
    assert_eq!(values(&output), [1, 2]);
    assert_eq!(values(&write(places(&["b/w", "a/w"])).unwrap()), [2, 1]);
    assert_eq!(context.notes(), Vec::<String>::new());

    let error = write(places(&["c/w", "a/w"])).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("\"c/w\""), "{error}");
    let mut broken = places(&["b/w", "a/w"]);
    broken.metadata.retain(|(key, _)| *key != "ferry.tf.object_graph");
    broken.metadata.push(("ferry.tf.object_graph", "/w==".to_owned()));
    let output = write(broken).unwrap();
    assert_eq!(output.layout.losses()[0].kind, LossKind::Metadata);
    assert!(
        context.notes()[0].starts_with("2 tensors are matched by their positions"),
        "{:?}",
        context.notes()
    );
}

#[test]
fn names_that_are_not_unique_need_the_same_graph() {
    let target = Target::File("m".to_owned());
    let like = places(&["m/w", "m/w"]).write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let write = |sample: Sample| sample.write(&[("like", "like")], &target, &context);
    assert!(write(places(&["m/w", "m/w"])).is_ok());
    assert_eq!(write(places(&["m/w", "x"])).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn a_tensor_has_to_fit_the_variable_of_another_checkpoint() {
    let like = sample(&[W]).write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let target = Target::File("m".to_owned());
    for (dtype, shape, bytes, found) in [
        (Dtype::U8, vec![2], 2, "\"model/w\" is DT_UINT8 of shape [2]"),
        (Dtype::U8, vec![], 1, "DT_UINT8 of shape []"),
        (Dtype::I32, vec![1], 4, "DT_INT32 of shape [1]"),
    ] {
        let sample = Sample::of(&[("model/w", dtype, shape, vec![0; bytes])]);
        let error = sample.write(&[("like", "like")], &target, &context).unwrap_err();
        let reported = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!([W, "DT_UINT8 of shape [1]", found].iter().all(|text| reported.contains(text)), "{reported}");
    }
}

#[test]
fn what_another_checkpoint_has_beside_variables_is_lost_or_kept_and_said() {
    const STEP: &str = "optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE";
    const COUNTER: &str = "save_counter/.ATTRIBUTES/VARIABLE_VALUE";
    const TEXT: &str = "text/.ATTRIBUTES/VARIABLE_VALUE";
    let mut like = sample(&[W, STEP, COUNTER]);
    for key in [TEXT, CONFIG] {
        like.tensors.push((key, Dtype::STR, vec![], crate::testing::strings(&["x"])));
    }
    let like = like.write_file(&[]);
    let context = context_with("like", Entry::Prefix("m".to_owned()), like.files);
    let target = Target::File("m".to_owned());
    let output = sample(&[W]).write(&[("like", "like")], &target, &context).unwrap();
    let losses: Vec<_> = output.layout.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    let expected = [
        (LossKind::State, "optimizer"),
        (LossKind::State, COUNTER),
        (LossKind::Metadata, CONFIG),
        (LossKind::Tensor, TEXT),
    ];
    assert_eq!(losses, expected);
    assert_eq!(keys(&output), [OBJECT_GRAPH_KEY, W]);

    let output = sample(&[W]).write(&[("like", "like"), ("missing", "keep")], &target, &context).unwrap();
    assert_eq!(output.layout.losses(), []);
    assert_eq!(keys(&output).len(), 6);
    let notes = context.notes();
    let reported = ["1 values of \"optimizer\"", "1 counters", "1 texts of objects", "1 strings"];
    for (reported, key) in reported.into_iter().zip([STEP, COUNTER, CONFIG, TEXT]) {
        assert!(notes.iter().any(|note| note.starts_with(reported) && note.contains(key)), "{notes:?}");
    }
}
