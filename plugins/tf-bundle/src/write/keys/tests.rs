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

/// The object graph that was written.
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

/// Metadata as another format has them after a conversion of a checkpoint.
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
    // One tensor, one place.
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
    // Two names of one variable.
    assert!(sample(&["model/w", W]).write(&[("like", "like")], &target, &context).is_err());
}

/// A variable of the like that no tensor is for is an error, or has its own value and is listed; what only
/// optimizers and savers need is not asked for.
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
    let said = error.to_string();
    assert!([B, "missing=keep", "\"model/c\""].iter().all(|text| said.contains(text)), "{said}");
    assert!(![STEP, COUNTER].iter().any(|text| said.contains(text)), "{said}");
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
