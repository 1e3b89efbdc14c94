//! Tests runs that Megatron never writes. Each error must state the problem and its location.

use crate::common::{Rank, catalog, error, limited, one, options, run, tensors};
use tensorferry_megatron::Megatron;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{ErrorKind, Format, Limits, MemoryContext, MemorySource, Purpose};
use tensorferry_test_kit::Files;

const NORM: &str = "decoder.layers.0.input_layernorm.weight";

fn rank(args: &[(&'static str, i64)], names: &[&str]) -> Rank {
    let model = names.iter().map(|name| one(name, &[1], &[1.0])).collect();
    Rank { args: args.to_vec(), chunks: vec![model], ..Rank::default() }
}

fn refuses(files: Files, parts: &[&str]) {
    let error = error(files, &[]);
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn grids_with_a_rank_too_few_or_too_many_are_refused() {
    let two = [("tensor_model_parallel_size", 2)];
    let good = || rank(&two, &[NORM]);
    refuses(run(&[("01", good())]), &["mp_rank_00", "missing"]);
    refuses(run(&[("00", good()), ("01", good()), ("02", good())]), &["mp_rank_02", "not part of the run"]);
    refuses(run(&[("00", good()), ("01", good()), ("1", good())]), &["two folders", "mp_rank_1"]);
    refuses(run(&[("00", good()), ("x1", good())]), &["mp_rank_x1"]);
    refuses(run(&[("00", good()), ("00_000_000_000", good())]), &["mp_rank_00_000_000_000"]);
    let many = [("tensor_model_parallel_size", i64::MAX), ("pipeline_model_parallel_size", i64::MAX)];
    refuses(run(&[("00", rank(&many, &[NORM]))]), &["4096"]);
    // If a run has no arguments, the reader derives the number of ranks from the folders' names.
    let last = u64::MAX.to_string();
    refuses(run(&[("00", rank(&[], &[NORM])), (&last, rank(&[], &[NORM]))]), &["4096"]);
    let mut files = run(&[("00", good()), ("01", good())]);
    files.remove("iter_0000005/mp_rank_01/model_optim_rng.pt");
    files.insert("iter_0000005/mp_rank_01/other.pt".to_owned(), Vec::new());
    refuses(files, &["mp_rank_01", "model_optim_rng.pt"]);
}

#[test]
fn ranks_of_two_runs_are_refused() {
    let two = [("tensor_model_parallel_size", 2), ("hidden_size", 8)];
    let other = [("tensor_model_parallel_size", 2), ("hidden_size", 9)];
    refuses(
        run(&[("00", rank(&two, &[NORM])), ("01", rank(&other, &[NORM]))]),
        &["hidden_size", "mp_rank_01"],
    );
    let later = Rank { iteration: 7, ..rank(&two, &[NORM]) };
    refuses(run(&[("00", rank(&two, &[NORM])), ("01", later)]), &["iteration", "7", "mp_rank_01"]);
    refuses(
        run(&[("00", rank(&two, &[NORM, "a.norm.weight"])), ("01", rank(&two, &[NORM]))]),
        &["a.norm.weight", "mp_rank_01"],
    );
}

#[test]
fn layers_have_no_gaps() {
    let args = [("tensor_model_parallel_size", 1), ("num_layers", 2)];
    let third = "decoder.layers.2.input_layernorm.weight";
    refuses(run(&[("00", rank(&args, &[NORM, third]))]), &["layer 1", "layer 2"]);
    refuses(run(&[("00", rank(&args, &[NORM]))]), &["decoder.layers", "2"]);
}

#[test]
fn parts_with_borders_that_names_do_not_say_are_refused() {
    let two = [("tensor_model_parallel_size", 2)];
    for name in ["decoder.layers.0.mixer.in_proj.weight", "decoder.layers.0.mlp.experts.weight1"] {
        refuses(run(&[("00", rank(&two, &[name])), ("01", rank(&two, &[name]))]), &[name]);
    }
    refuses(
        run(&[("00", rank(&two, &["a.linear_proj.weight"])), ("01", rank(&two, &["a.linear_proj.weight"]))]),
        &["a.linear_proj.weight", "dimension 1"],
    );
}

#[test]
fn trackers_name_no_path() {
    for bad in ["../5", "", "5/..", "-5", "5 6", "iter_0000005", "99999999999999999999999"] {
        let mut files = run(&[("00", rank(&[], &[NORM]))]);
        files.insert("latest_checkpointed_iteration.txt".to_owned(), bad.as_bytes().to_vec());
        refuses(files, &["latest_checkpointed_iteration.txt"]);
    }
    let mut files = run(&[("00", rank(&[], &[NORM]))]);
    files.insert("latest_checkpointed_iteration.txt".to_owned(), b"6".to_vec());
    refuses(files, &["iter_0000006"]);
}

#[test]
fn names_are_bounded() {
    let long = "x".repeat(100);
    let files = run(&[("00", rank(&[], &[&long]))]);
    let mut limits = Limits::default();
    limits.name_bytes = 99;
    assert_eq!(limited(files, limits).unwrap_err().kind(), ErrorKind::Limit);
}

/// The folder of one rank normally contains only a part of a model. Without an option, the reader
/// accepts it only if it contains the whole model.
#[test]
fn one_rank_is_not_taken_for_the_model() {
    let alone = |args: &[(&'static str, i64)]| {
        let bytes = rank(args, &["embedding.word_embeddings.weight", NORM]).bytes();
        Files::from([("model_optim_rng.pt".to_owned(), bytes), ("distrib_optim.pt".to_owned(), Vec::new())])
    };
    let two = [("tensor_model_parallel_size", 2), ("num_layers", 4), ("padded_vocab_size", 9)];
    let stage = [("tensor_model_parallel_size", 1), ("pipeline_model_parallel_size", 2)];
    for args in [&two[..], &stage, &[]] {
        let source = MemorySource::folder(alone(args));
        let mut context = MemoryContext::default();
        assert_eq!(Megatron.probe(&source, &context).unwrap().unwrap().0, 40);
        let read = |given: &[(&str, &str)], context: &MemoryContext| {
            let view = MemoryView::read(&Megatron, &options(given), &source, context);
            view.map(|view| view.catalog().tensors().len())
        };
        assert_eq!(read(&[], &context).unwrap(), 2);
        assert!(context.notes()[0].contains("one rank's part"), "{:?}", context.notes());
        context.purpose = Purpose::FLAT;
        let error = read(&[], &context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let hint = error.details().find(|(name, _)| *name == "hint").unwrap().1;
        assert!(hint.contains("parent folder") && hint.contains("shard=alone"), "{hint}");
        assert_eq!(read(&[("shard", "alone")], &context).unwrap(), 2);
        assert_eq!(
            read(&[("shard", "alone"), ("vocab_size", "1")], &context).unwrap_err().kind(),
            ErrorKind::Usage
        );
    }
    let whole = [("tensor_model_parallel_size", 1), ("num_layers", 1)];
    assert_eq!(catalog(alone(&whole), &[]).unwrap().tensors().len(), 2);
    // The parent folder contains only one of the two ranks of a run.
    refuses(run(&[("00", rank(&two, &[NORM]))]), &["mp_rank_01", "missing"]);
}

/// Without arguments, the second number in a folder's name is an expert rank if all ranks have the
/// same parameter names. Otherwise, it is a pipeline rank.
#[test]
fn second_numbers_are_told_by_names() {
    let expert = "decoder.layers.0.mlp.experts.local_experts.0.linear_fc2.weight";
    let of_expert = |value: f32| Rank {
        chunks: vec![vec![one(NORM, &[1], &[1.0]), one(expert, &[1, 1], &[value])]],
        ..Rank::default()
    };
    let read = tensors(run(&[("00_000", of_expert(5.0)), ("00_001", of_expert(6.0))]), &[]);
    let second = expert.replace("local_experts.0", "local_experts.1");
    assert_eq!(read.keys().collect::<Vec<_>>(), [NORM, expert, &second]);
    assert_eq!((&*read[expert].1, &*read[&second].1), (&[5.0][..], &[6.0][..]));
    let stages = [rank(&[], &[NORM, "embedding.word_embeddings.weight"]), rank(&[], &[NORM])];
    let read = tensors(run(&[("00_000", stages[0].clone()), ("00_001", stages[1].clone())]), &[]);
    assert!(read.contains_key("decoder.layers.1.input_layernorm.weight"), "{:?}", read.keys());
}
