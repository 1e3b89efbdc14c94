//! Joins tensor- and pipeline-parallel checkpoints in the layout that DeepSpeed uses for Megatron's
//! modules.

use crate::common::{Saved, names, options, with_hint};
use tensorferry_deepspeed::DeepSpeed;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{LossKind, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::pickle::{int, list};

/// F32 tensors: name, shape and values.
type Tensors<'t> = [(&'t str, &'t [i64], &'t [f32])];

fn dict(saved: &mut Saved, tensors: &Tensors<'_>) -> Vec<u8> {
    let entries: Vec<_> =
        tensors.iter().map(|(name, dims, values)| (*name, saved.floats(values, dims))).collect();
    names(&entries)
}

/// Returns the model states of a tensor-parallel rank, nested as in Megatron-DeepSpeed.
fn rank(embedding: &[f32], layer: &Tensors<'_>) -> Vec<u8> {
    let mut saved = Saved::default();
    let rows = i64::try_from(embedding.len()).unwrap();
    let words = dict(&mut saved, &[("weight", &[rows, 1], embedding)]);
    let words = names(&[("word_embeddings", words)]);
    let encoder = dict(&mut saved, layer);
    let module = names(&[("language_model", names(&[("embedding", words), ("encoder", encoder)]))]);
    saved.set("module", module);
    saved.set("buffer_names", list(&[]));
    saved.set("mp_world_size", int(2));
    saved.bytes()
}

fn read(files: Files, given: &[(&str, &str)]) -> Result<(Vec<(String, Vec<u64>, Vec<f32>)>, usize)> {
    let (source, context) = (MemorySource::folder(files), MemoryContext::default());
    let view = MemoryView::read(&DeepSpeed, &options(given), &source, &context)?;
    let tensor = |name: &String| {
        let (_, shape, bytes) = view.tensor_named(name).unwrap();
        let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        (name.clone(), shape, values)
    };
    let names: Vec<String> = view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let losses = view.catalog().losses().iter().filter(|loss| loss.kind == LossKind::Tensor).count();
    Ok((names.iter().map(tensor).collect(), losses))
}

const QKV: &str = "layers.0.self_attention.query_key_value.weight";
const DENSE: &str = "layers.0.self_attention.dense.weight";
const FC1: &str = "layers.0.mlp.dense_h_to_4h.weight";
const FC2: &str = "layers.0.mlp.dense_4h_to_h.weight";
const NORM: &str = "layers.0.input_layernorm.weight";

/// Returns the files of two tensor ranks. `norm` is the value of the norm on the second rank.
fn tensor_parallel(norm: f32, odd: Option<f32>) -> Files {
    let of = |base: f32, norm: f32, odd: Option<f32>| {
        let (two, four) = ([base, base + 1.0], [base, base + 1.0, base + 2.0, base + 3.0]);
        let (norm, odd) = ([norm], odd.map(|odd| [odd]));
        let mut layer: Vec<(&str, &[i64], &[f32])> = vec![
            (QKV, &[2, 1], &two),
            (DENSE, &[1, 2], &two),
            (FC1, &[4, 1], &four),
            (FC2, &[1, 2], &two),
            (NORM, &[1], &norm),
        ];
        if let Some(odd) = &odd {
            layer.push(("layers.0.odd.weight", &[1], odd));
        }
        rank(&two, &layer)
    };
    [
        ("global_step1/mp_rank_00_model_states.pt", of(0.0, 5.0, odd.map(|_| 1.0))),
        ("global_step1/mp_rank_01_model_states.pt", of(10.0, norm, odd)),
        ("latest", b"global_step1".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

#[test]
fn tensor_ranks_are_joined_by_their_names() {
    let (tensors, _) = read(tensor_parallel(5.0, None), &[("state", "model")]).unwrap();
    let of = |name: &str, shape: &[u64], values: &[f32]| {
        (format!("language_model.{name}"), shape.to_vec(), values.to_vec())
    };
    let expected = [
        of("embedding.word_embeddings.weight", &[4, 1], &[0.0, 1.0, 10.0, 11.0]),
        of(&format!("encoder.{QKV}"), &[4, 1], &[0.0, 1.0, 10.0, 11.0]),
        of(&format!("encoder.{DENSE}"), &[1, 4], &[0.0, 1.0, 10.0, 11.0]),
        // FC1 has twice as many rows as FC2 has columns, so the first half of its rows are the
        // gates.
        of(&format!("encoder.{FC1}"), &[8, 1], &[0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]),
        of(&format!("encoder.{FC2}"), &[1, 4], &[0.0, 1.0, 10.0, 11.0]),
        of(&format!("encoder.{NORM}"), &[1], &[5.0]),
    ];
    assert_eq!(tensors, expected);
}

#[test]
fn what_is_the_same_on_all_ranks_is_compared() {
    let error = with_hint(&read(tensor_parallel(6.0, None), &[("state", "model")]).unwrap_err());
    for part in [NORM, "mp_rank_00", "mp_rank_01", "replicated=first"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let (tensors, losses) =
        read(tensor_parallel(6.0, None), &[("state", "model"), ("replicated", "first")]).unwrap();
    assert_eq!((tensors.last().unwrap().2.as_slice(), losses), (&[5.0][..], 1));
    // A tensor with an unknown name is rejected unless it is equal on all ranks.
    assert_eq!(read(tensor_parallel(5.0, Some(1.0)), &[("state", "model")]).unwrap().0.len(), 7);
    for given in [&[("state", "model")][..], &[("state", "model"), ("replicated", "first")]] {
        let error = read(tensor_parallel(5.0, Some(2.0)), given).unwrap_err().to_string();
        assert!(error.contains("odd.weight") && error.contains("does not determine"), "{error}");
    }
}

#[test]
fn ranks_that_are_missing_or_lack_something_are_refused() {
    let mut files = tensor_parallel(5.0, None);
    files.remove("global_step1/mp_rank_01_model_states.pt");
    let error = read(files, &[("state", "model")]).unwrap_err().to_string();
    assert!(error.contains("mp_world_size"), "{error}");
    let mut files = tensor_parallel(5.0, Some(1.0));
    files.insert(
        "global_step1/mp_rank_01_model_states.pt".to_owned(),
        rank(&[1.0, 2.0], &[(QKV, &[2, 1], &[0.0; 2])]),
    );
    let error = read(files, &[("state", "model")]).unwrap_err().to_string();
    assert!(error.contains("lacks a parameter") && error.contains("mp_rank_01"), "{error}");
    let error = with_hint(&read(tensor_parallel(5.0, None), &[]).unwrap_err());
    assert!(error.contains("state=model") && error.contains("mp_rank_01"), "{error}");
}

fn layer(tensors: &Tensors<'_>) -> Vec<u8> {
    let mut saved = Saved::default();
    for &(name, dims, values) in tensors {
        let tensor = saved.floats(values, dims);
        saved.entries.push((name.to_owned().leak(), tensor));
    }
    saved.bytes()
}

#[test]
fn a_pipelines_layers_are_joined_one_by_one() {
    let file = |layer: u64, rank: u64| format!("layer_{layer:02}-model_{rank:02}-model_states.pt");
    let mut files = Files::new();
    for (rank, base) in [(0, 0.0), (1, 10.0)] {
        let values = [base, base + 1.0];
        files.insert(file(0, rank), layer(&[("word_embeddings.weight", &[2, 1], &values)]));
        files.insert(
            file(2, rank),
            layer(&[
                ("attention.query_key_value.weight", &[2, 1], &values),
                ("attention.dense.weight", &[1, 2], &values),
                ("input_layernorm.weight", &[1], &[3.0]),
            ]),
        );
        files.insert(file(13, rank), layer(&[("norm.weight", &[1], &[4.0])]));
        files.insert(file(14, rank), layer(&[("final_linear.weight", &[2, 1], &values)]));
    }
    // These files contain training state. In a pipeline, there are more of these files than tensor
    // ranks.
    for rank in 0..4 {
        let mut states = Saved::default();
        states.set("module", b"N".to_vec());
        states.set("buffer_names", list(&[]));
        files.insert(format!("mp_rank_{rank:02}_model_states.pt"), states.bytes());
    }
    let (tensors, _) = read(files.clone(), &[("state", "model")]).unwrap();
    let names: Vec<&str> = tensors.iter().map(|(name, ..)| name.as_str()).collect();
    let all = [
        "0.word_embeddings.weight",
        "2.attention.query_key_value.weight",
        "2.attention.dense.weight",
        "2.input_layernorm.weight",
        "13.norm.weight",
        "14.final_linear.weight",
    ];
    assert_eq!(names, all);
    assert_eq!(tensors[2].1, [1, 4]);
    assert_eq!(tensors[5].2, [0.0, 1.0, 10.0, 11.0]);
    files.remove(&file(2, 1));
    let error = read(files, &[("state", "model")]).unwrap_err().to_string();
    assert!(error.contains("layer_02-model_01"), "{error}");
}
