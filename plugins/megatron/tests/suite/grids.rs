//! Tests grids of ranks that do not occur in the fixtures, with experts, virtual stages, gates and
//! copies.

use crate::common::{Rank, Tensors, error, one, run, tensors};

fn rank(args: &[(&'static str, i64)], model: Tensors) -> Rank {
    Rank { args: args.to_vec(), chunks: vec![model], ..Rank::default() }
}

const FC1: &str = "decoder.layers.0.mlp.linear_fc1.weight";
const FC2: &str = "decoder.layers.0.mlp.linear_fc2.weight";

#[test]
fn gates_come_before_the_others() {
    let model = |base: f32| {
        let rows: Vec<f32> = (0..4_u8).map(|row| base + f32::from(row)).collect();
        vec![one(FC1, &[4, 1], &rows), one(FC2, &[1, 2], &rows[..2])]
    };
    let args = [("tensor_model_parallel_size", 2)];
    let files = run(&[("00", rank(&args, model(0.0))), ("01", rank(&args, model(10.0)))]);
    let read = tensors(files, &[]);
    assert_eq!(read[FC1], (vec![8, 1], vec![0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]));
    assert_eq!(read[FC2], (vec![1, 4], vec![0.0, 1.0, 10.0, 11.0]));
    let said = |flag| {
        let of = |base| Rank { flags: vec![("swiglu", flag)], ..rank(&args, model(base)) };
        run(&[("00", of(0.0)), ("01", of(10.0))])
    };
    assert_eq!(tensors(said(true), &[])[FC1], read[FC1]);
    assert!(error(said(false), &[]).contains("no gate"));
}

fn expert(local: u8, value: f32) -> (String, Vec<i64>, Vec<f32>) {
    one(&format!("decoder.layers.0.mlp.experts.local_experts.{local}.linear_fc2.weight"), &[1, 1], &[value])
}

#[test]
fn experts_are_numbered_over_their_ranks() {
    let args = [("tensor_model_parallel_size", 1), ("expert_model_parallel_size", 2), ("num_experts", 4)];
    let model = |base: f32, norm: f32| {
        vec![expert(0, base), expert(1, base + 1.0), one("decoder.final_layernorm.weight", &[1], &[norm])]
    };
    let files =
        |norm| run(&[("00_000", rank(&args, model(0.0, 5.0))), ("00_001", rank(&args, model(2.0, norm)))]);
    let read = tensors(files(5.0), &[]);
    for (number, value) in [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)] {
        let name = format!("decoder.layers.0.mlp.experts.local_experts.{number}.linear_fc2.weight");
        assert_eq!(read[&name].1, [value], "{name}");
    }
    assert_eq!(read.len(), 5);
    let error = error(files(6.0), &[]);
    for part in ["final_layernorm", "mp_rank_00_000", "mp_rank_00_001", "replicated=first"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(tensors(files(6.0), &[("replicated", "first")])["decoder.final_layernorm.weight"].1, [5.0]);
    // If the arguments declare a single pipeline stage, the second number is also the expert rank.
    let args = [args[0], args[1], args[2], ("pipeline_model_parallel_size", 1)];
    let files = run(&[("00_000", rank(&args, model(0.0, 5.0))), ("00_001", rank(&args, model(2.0, 5.0)))]);
    assert_eq!(tensors(files, &[]).len(), 5);
}

#[test]
fn virtual_stages_come_in_turns() {
    let args = [("tensor_model_parallel_size", 1), ("pipeline_model_parallel_size", 2), ("num_layers", 4)];
    let layer = |value: f32| vec![one("decoder.layers.0.pre_mlp_layernorm.weight", &[1], &[value])];
    let stage = |first, second| Rank {
        args: args.to_vec(),
        chunks: vec![layer(first), layer(second)],
        ..Rank::default()
    };
    let files = run(&[("00_000", stage(0.0, 2.0)), ("00_001", stage(1.0, 3.0))]);
    let read = tensors(files, &[]);
    for (number, value) in [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)] {
        assert_eq!(read[&format!("decoder.layers.{number}.pre_mlp_layernorm.weight")].1, [value]);
    }
    let one_chunk = Rank { args: args.to_vec(), chunks: vec![layer(1.0)], ..Rank::default() };
    let error = error(run(&[("00_000", stage(0.0, 2.0)), ("00_001", one_chunk)]), &[]);
    assert!(error.contains("virtual stages"), "{error}");
}

#[test]
fn an_output_layer_is_the_embedding_only_where_it_has_the_same_bytes() {
    let args =
        [("tensor_model_parallel_size", 2), ("pipeline_model_parallel_size", 2), ("padded_vocab_size", 4)];
    let ranks = |last: f32| {
        let part = |name: &str, values: [f32; 2]| {
            let flags = vec![("untie_embeddings_and_output_weights", false)];
            Rank { flags, ..rank(&args, vec![one(name, &[2, 1], &values)]) }
        };
        let (embedding, output) = ("embedding.word_embeddings.weight", "output_layer.weight");
        run(&[
            ("00_000", part(embedding, [0.0, 1.0])),
            ("01_000", part(embedding, [2.0, 3.0])),
            ("00_001", part(output, [0.0, 1.0])),
            ("01_001", part(output, [2.0, last])),
        ])
    };
    let read = tensors(ranks(3.0), &[]);
    assert_eq!(read.into_values().collect::<Vec<_>>(), [(vec![4, 1], vec![0.0, 1.0, 2.0, 3.0])]);
    let cut = tensors(ranks(3.0), &[("vocab_size", "3")]);
    assert_eq!(cut["embedding.word_embeddings.weight"], (vec![3, 1], vec![0.0, 1.0, 2.0]));
    let cut = tensors(ranks(3.0), &[("vocab_size", "1")]);
    assert_eq!(cut["embedding.word_embeddings.weight"], (vec![1, 1], vec![0.0]));
    let error = error(ranks(9.0), &[]);
    assert!(error.contains("output_layer") && error.contains("mp_rank_01_001"), "{error}");
}

#[test]
fn what_no_name_says_is_taken_only_where_all_have_it() {
    let args = [("tensor_model_parallel_size", 2)];
    let files = |value| {
        run(&[
            ("00", rank(&args, vec![one("odd.weight", &[1], &[1.0])])),
            ("01", rank(&args, vec![one("odd.weight", &[1], &[value])])),
        ])
    };
    assert_eq!(tensors(files(1.0), &[])["odd.weight"].1, [1.0]);
    for options in [&[][..], &[("replicated", "first")][..]] {
        let error = error(files(2.0), options);
        assert!(error.contains("odd.weight") && error.contains("mp_rank_01"), "{error}");
    }
}
