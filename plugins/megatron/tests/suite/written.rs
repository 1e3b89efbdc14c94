//! Writes runs with different grids, and reads them back.

use crate::common::{Rank, one, options, run};
use crate::fixtures::files;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tensorferry_megatron::Megatron;
use tensorferry_sdk::memory::{MemoryOutput, MemoryView, write};
use tensorferry_sdk::{ErrorKind, LossKind, MemoryContext, MemorySource, Result, Severity, Source, Target};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::fixtures::{cases, expected};
use tensorferry_torch_file::{Destination, Extent, Names, ObjectFile, Storages, flatten};

type Tensors = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

fn tensors(view: &MemoryView<'_>) -> Tensors {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| (name.clone(), view.tensor_named(&name).unwrap())).collect()
}

/// Writes the tensors of the run `files`, with the arguments of the run `like`.
fn written(files: &Files, like: &Files, given: &[(&str, &str)]) -> (Tensors, Result<MemoryOutput>) {
    let (source, mut context) = (MemorySource::folder(files.clone()), MemoryContext::default());
    let like: Arc<dyn Source> = Arc::new(MemorySource::folder(like.clone()));
    context.sources.insert("run".to_owned(), like);
    let view = MemoryView::read(&Megatron, &[], &source, &context).unwrap();
    let view = &view.reduced_to(tensorferry_sdk::Format::describe(&Megatron).capabilities);
    (tensors(view), write(&Megatron, &options(given), view, &Target::Folder, &context))
}

fn read(output: &MemoryOutput) -> Tensors {
    let source = MemorySource::folder(output.files.clone());
    let context = MemoryContext::default();
    let view = MemoryView::read(&Megatron, &[], &source, &context).unwrap();
    tensors(&view)
}

fn runs() -> Vec<(String, Files)> {
    let run = |name: &&str| {
        let case = cases("megatron", name).into_iter().find(|case| case.ends_with(name)).unwrap();
        ((*name).to_owned(), files(&case, &expected(&case)))
    };
    ["gpt_tp2", "gpt_tp2_pp2", "gpt_tp2_swiglu_gqa"].iter().map(run).collect()
}

#[test]
fn rank_folders_are_joined_to_what_they_were_cut_of() {
    let mut grids = 0;
    for (case, files) in runs() {
        for (tensor, stages) in [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2)] {
            let (tensor, stages) = (tensor.to_string(), stages.to_string());
            let given = [("like", "run"), ("tensor_parallel", &*tensor), ("pipeline_parallel", &*stages)];
            let (before, output) = written(&files, &files, &given);
            let output = match output {
                // Two query groups cannot be divided among four ranks.
                Err(error) if case == "gpt_tp2_swiglu_gqa" && tensor == "4" => {
                    assert_eq!(error.kind(), ErrorKind::Usage);
                    assert!(error.to_string().contains("query groups"), "{error}");
                    continue;
                }
                output => output.unwrap(),
            };
            let folder = if stages == "1" { "mp_rank_00" } else { "mp_rank_00_001" };
            assert!(
                output.files.contains_key(&format!("iter_0000005/{folder}/model_optim_rng.pt")),
                "{folder}"
            );
            assert_eq!(output.files["latest_checkpointed_iteration.txt"], b"5");
            assert_eq!(output.layout.losses(), [], "{case}");
            assert!(read(&output) == before, "{case} {tensor} x {stages}");
            grids += 1;
        }
    }
    assert_eq!(grids, 16);
}

#[test]
fn ranks_are_what_megatron_itself_wrote() {
    // If a run is written with the grid of the original run, each rank's file contains the same
    // parts as in the original.
    for (case, files) in runs() {
        let stages = if case == "gpt_tp2_pp2" { "2" } else { "1" };
        let given = [("like", "run"), ("tensor_parallel", "2"), ("pipeline_parallel", stages)];
        let (_, output) = written(&files, &files, &given);
        let output = output.unwrap();
        let ranks = output.files.keys().filter(|name| name.ends_with("model_optim_rng.pt"));
        let mut compared = 0;
        for rank in ranks {
            assert_eq!(one_rank(&output.files[rank]), one_rank(&files[rank]), "{case}: {rank}");
            compared += 1;
        }
        assert_eq!(compared, if stages == "2" { 4 } else { 2 });
    }
}

/// Returns the tensors in one rank's file.
fn one_rank(bytes: &[u8]) -> Tensors {
    let (source, context) = (MemorySource::file("rank.pt", bytes), MemoryContext::default());
    let view = MemoryView::build("rank", &source, &context, |catalog| {
        let extent = Extent::whole(&source, source.open("rank.pt")?);
        let object = ObjectFile::open(&source, extent, &context)?;
        let model = object.graph().entry(object.root(), "model").unwrap();
        let (mut storages, mut names) = (Storages::new(&context.limits), Names::default());
        let mut to = Destination {
            catalog,
            storages: &mut storages,
            names: &mut names,
            source: &source,
            context: &context,
        };
        flatten(&object, model, "", &mut to).map(drop)
    });
    tensors(&view.unwrap())
}

#[test]
fn a_distributed_checkpoint_has_every_layer() {
    for (case, files) in runs() {
        for given in [&[][..], &[("like", "run")]] {
            let (before, output) = written(&files, &files, given);
            let output = output.unwrap();
            let folder = if given.is_empty() { "release" } else { "iter_0000005" };
            for name in [".metadata", "__0_0.distcp", "common.pt", "metadata.json"] {
                assert!(output.files.contains_key(&format!("{folder}/{name}")), "{case} {name}");
            }
            let renamed = |name: &str| {
                name.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")
                    .replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")
            };
            let reported: BTreeSet<&str> =
                output.layout.losses().iter().map(|loss| loss.what.as_str()).collect();
            let others: BTreeSet<&str> =
                before.keys().map(String::as_str).filter(|name| renamed(name) != *name).collect();
            assert_eq!(reported, others, "{case}");
            assert!(output.layout.losses().iter().all(|loss| loss.severity == Severity::Note), "{case}");
            let before: Tensors = before.into_iter().map(|(name, tensor)| (renamed(&name), tensor)).collect();
            assert!(read(&output) == before, "{case}: {:?}", before.keys());
            let source = MemorySource::folder(output.files.clone());
            let context = MemoryContext::default();
            let view = MemoryView::read(&Megatron, &[], &source, &context).unwrap();
            assert_eq!(view.catalog().losses(), []);
            assert_eq!(view.catalog().metadata().contains_key("args"), !given.is_empty(), "{case}");
            // An output can itself be passed as `-o like=`.
            if !given.is_empty() {
                let given = [("like", "run"), ("tensor_parallel", "2")];
                let (_, again) = written(&files, &output.files, &given);
                assert!(again.unwrap().files.contains_key("iter_0000005/mp_rank_01/model_optim_rng.pt"));
            }
        }
    }
}

const FC1: &str = "decoder.layers.0.mlp.linear_fc1.weight";
const FC2: &str = "decoder.layers.0.mlp.linear_fc2.weight";

fn refusal(
    model: Vec<(String, Vec<i64>, Vec<f32>)>,
    args: &[(&'static str, i64)],
    given: &[(&str, &str)],
) -> String {
    let files = run(&[("00", Rank { chunks: vec![model.clone()], ..Rank::default() })]);
    let like = run(&[("00", Rank { args: args.to_vec(), chunks: vec![model], ..Rank::default() })]);
    let (_, output) = written(&files, &like, given);
    let error = output.map(drop).unwrap_err();
    let hint = error.details().find(|(name, _)| *name == "hint");
    format!("{error} {}", hint.map(|(_, text)| text).unwrap_or_default())
}

#[test]
fn what_does_not_divide_is_refused_by_name() {
    let ranks = |count| [("like", "run"), ("tensor_parallel", count)];
    let mlp = || vec![one(FC1, &[6, 1], &[0.0; 6]), one(FC2, &[1, 3], &[0.0; 3])];
    let error = refusal(mlp(), &[], &ranks("2"));
    assert!(error.contains(FC1) && error.contains("multiple of 4"), "{error}");
    let error = refusal(vec![one("odd.weight", &[4], &[0.0; 4])], &[], &ranks("2"));
    assert!(error.contains("odd.weight") && error.contains("does not determine"), "{error}");
    let error = refusal(vec![one("a.linear_proj.weight", &[4], &[0.0; 4])], &[], &ranks("2"));
    assert!(error.contains("dimension 1"), "{error}");
    let error = refusal(mlp(), &[("num_layers", 2)], &ranks("1"));
    assert!(error.contains("number of layers"), "{error}");
    let error = refusal(mlp(), &[("num_layers", 1)], &[("like", "run"), ("pipeline_parallel", "2")]);
    assert!(error.contains("pipeline stages"), "{error}");
    let embedding = || vec![one("embedding.word_embeddings.weight", &[4, 1], &[0.0; 4])];
    let error = refusal(embedding(), &[("padded_vocab_size", 8)], &ranks("1"));
    assert!(error.contains("padded_vocab_size: 8"), "{error}");
    let error = refusal(mlp(), &[], &[("tensor_parallel", "2")]);
    assert!(error.contains("-o like=RUN") && error.contains("torch_dist"), "{error}");
}

#[test]
fn experts_of_a_distributed_checkpoint_are_one_by_one_again() {
    let mut model = Vec::new();
    for (layer, expert) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let value = f32::from(layer * 10_u8 + expert);
        let name = format!("decoder.layers.{layer}.mlp.experts.local_experts.{expert}.linear_fc2.weight");
        model.push(one(&name, &[1, 2], &[value, value + 0.5]));
    }
    let files = run(&[("00", Rank { chunks: vec![model.clone()], ..Rank::default() })]);
    let (before, output) = written(&files, &files, &[]);
    let output = output.unwrap();
    let table = String::from_utf8_lossy(&output.files["release/.metadata"]).into_owned();
    assert!(table.contains("decoder.layers.mlp.experts.experts.linear_fc2.weight"), "{table}");
    assert_eq!(read(&output), before);
    // If one of the layers has no experts, each layer is written as separate tensors, and a note
    // reports this.
    model.truncate(2);
    model.push(one("decoder.layers.1.mlp.linear_fc2.weight", &[1, 2], &[7.0, 8.0]));
    let files = run(&[("00", Rank { chunks: vec![model], ..Rank::default() })]);
    let (before, output) = written(&files, &files, &[]);
    let output = output.unwrap();
    let table = String::from_utf8_lossy(&output.files["release/.metadata"]).into_owned();
    assert!(table.contains("decoder.layers.0.mlp.experts.experts.linear_fc2.weight"), "{table}");
    assert_eq!(read(&output), before);
}

#[test]
fn what_megatron_has_in_another_form_is_refused_by_name() {
    for name in ["decoder.layers.0.mlp.experts.weight1", "language_model.encoder.layers.0.input_norm.weight"]
    {
        let error = refusal(vec![one(name, &[1], &[1.0])], &[], &[]);
        assert!(error.contains(name), "{error}");
    }
    let names = [
        "decoder.layers.0.mlp.experts.local_experts.0.linear_fc2.weight",
        "decoder.layers.0.mlp.experts.local_experts.2.linear_fc2.weight",
    ];
    let error = refusal(names.map(|name| one(name, &[1, 1], &[1.0])).into(), &[], &[]);
    assert!(error.contains("some are missing"), "{error}");
}

#[test]
fn an_argument_that_calls_something_is_left_out_with_a_loss() {
    let model = vec![one("decoder.layers.0.input_layernorm.weight", &[1], &[1.0])];
    let files = run(&[("00", Rank { chunks: vec![model], calls: vec!["odd"], ..Rank::default() })]);
    let (_, output) = written(&files, &files, &[("like", "run"), ("tensor_parallel", "1")]);
    let output = output.unwrap();
    let losses: Vec<_> = output.layout.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(losses, [(LossKind::State, "args.odd")]);
    let bytes = &output.files["iter_0000000/mp_rank_00/model_optim_rng.pt"];
    assert!(!bytes.windows(6).any(|window| window == b"system"), "the output contains the call");
}
