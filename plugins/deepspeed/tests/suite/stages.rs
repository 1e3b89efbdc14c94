//! Reads checkpoints of each stage, and rejects invalid ones.

use crate::common::{
    A, B, C, FROZEN, MODEL, NONE, Run, Saved, catalog, error, names, pieces, size, tensors, with_hint,
};
use std::collections::BTreeSet;
use tensorferry_sdk::{ErrorKind, LossKind, TensorId};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::pickle::{call, dict, global, int, list, text};

type Row<'a> = (&'a str, &'a str, &'a [u64], &'a [f32]);

fn check(files: Files, given: &[(&str, &str)], expected: &[Row<'_>]) {
    let found = tensors(files, given);
    let rows: Vec<Row<'_>> =
        found.iter().map(|(n, d, s, v)| (n.as_str(), d.as_str(), &s[..], &v[..])).collect();
    assert_eq!(rows, expected);
}

const FP32: [Row<'_>; 7] = [
    ("count", "I64", &[], &[]),
    ("mean", "F32", &[2], &[1.5, -2.0]),
    ("frozen", "F32", &[3], &FROZEN),
    ("a", "F32", &[3], &A),
    ("b", "F32", &[2, 3], &B),
    ("c", "F32", &[2], &C),
    ("tied", "F32", &[2, 3], &B),
];

#[test]
fn every_stage_gives_the_same_weights() {
    for stage in 1..=3 {
        check(Run::of_stage(stage).files(), &[], &FP32);
        let catalog = catalog(Run::of_stage(stage).files(), &[]).unwrap();
        assert_eq!(catalog.ties()[6], TensorId(4), "stage {stage}");
        assert!(catalog.losses().is_empty(), "{:?}", catalog.losses());
    }
}

#[test]
fn the_folder_itself_may_be_named() {
    let files = Run::of_stage(2).files();
    let inside: Files = files
        .iter()
        .filter_map(|(name, bytes)| Some((name.strip_prefix("step/")?.to_owned(), bytes.clone())))
        .collect();
    check(inside, &[], &FP32);
    let mut other = files.clone();
    other.insert("latest".to_owned(), b"gone".to_vec());
    check(other.clone(), &[("tag", "step")], &FP32);
    assert!(error(other).contains("gone"));
    assert!(catalog(files, &[("tag", "../step")]).is_err());
}

#[test]
fn the_module_is_as_it_ran() {
    let expected: [Row<'_>; 7] = [
        ("a", "F32", &[3], &A),
        ("b", "F32", &[2, 3], &B),
        ("c", "F32", &[2], &C),
        ("tied", "F32", &[2, 3], &B),
        ("frozen", "F32", &[3], &FROZEN),
        ("count", "I64", &[], &[]),
        ("mean", "BF16", &[2], &[]),
    ];
    check(Run::of_stage(1).files(), &[("state", "model")], &expected);
    let error = catalog(Run::of_stage(3).files(), &[("state", "model")]).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && with_hint(&error).contains("state=fp32"), "{error}");
}

#[test]
fn the_optimizer_has_a_tensor_for_each_parameter() {
    let half = |values: &[f32]| values.iter().map(|value| value / 2.0).collect::<Vec<_>>();
    let (a, b, c) = (half(&A), half(&B), half(&C));
    for stage in 1..=3 {
        let expected: [Row<'_>; 9] = [
            ("a.exp_avg", "F32", &[3], &a),
            ("a.step", "F32", &[], &[2.0]),
            ("a.count", "I64", &[], &[]),
            ("b.exp_avg", "F32", &[2, 3], &b),
            ("b.step", "F32", &[], &[2.0]),
            ("b.count", "I64", &[], &[]),
            ("c.exp_avg", "F32", &[2], &c),
            ("c.step", "F32", &[], &[2.0]),
            ("c.count", "I64", &[], &[]),
        ];
        check(Run::of_stage(stage).files(), &[("state", "optimizer")], &expected);
        let catalog = catalog(Run::of_stage(stage).files(), &[("state", "optimizer")]).unwrap();
        let ties: BTreeSet<TensorId> = catalog.ties().into_iter().collect();
        assert_eq!(ties.len(), expected.len(), "steps do not count as tied");
    }
}

#[test]
fn a_frozen_parameter_that_was_not_saved_is_listed() {
    for (stage, lost) in [(1, vec!["frozen"]), (3, vec!["frozen"])] {
        let mut run = Run::of_stage(stage);
        run.model.iter_mut().for_each(|model| model.set("frozen_param_shapes", NONE.to_vec()));
        let catalog = catalog(run.files(), &[]).unwrap();
        let losses: Vec<&str> =
            catalog.losses().iter().filter(|l| l.kind == LossKind::Tensor).map(|l| &*l.what).collect();
        assert_eq!(losses, lost, "stage {stage}");
        assert_eq!(catalog.tensors().len(), 6);
    }
}

#[test]
fn padding_between_parameters_is_left_out() {
    let mut run = Run::of_stage(2);
    let with_padding = [vec![1.0, 2.0, 3.0, 0.0, 4.0], vec![10.0]];
    for (rank, groups) in [(0, with_padding), (1, [vec![5.0, 6.0, 7.0, 8.0, 9.0], vec![11.0]])] {
        replace_vectors(&mut run, rank, &groups);
        add_state(&mut run, rank, "param_alignment_paddings", &paddings(&[1, 0]));
    }
    check(run.files(), &[], &FP32);
    add_state(&mut run, 0, "param_alignment_paddings", &paddings(&[1]));
    assert!(run.error().contains("param_alignment_paddings"), "{}", run.error());
    add_state(&mut run, 0, "param_alignment_paddings", &paddings(&[i64::MAX, 0]));
    assert!(run.error().contains("tensor \"b\""), "{}", run.error());
}

#[test]
fn vectors_are_as_long_as_their_parameters() {
    for stage in 1..=3 {
        for (group, change) in [(0, -1_i64), (0, 5), (1, -1), (1, 9)] {
            let mut run = Run::of_stage(stage);
            let mut groups = pieces(stage, 1);
            let len = usize::try_from(i64::try_from(groups[group].len()).unwrap() + change).unwrap();
            groups[group].resize(len, 0.0);
            replace_vectors(&mut run, 1, &groups);
            let error = run.error();
            assert!(error.contains("malformed"), "stage {stage}, group {group}, {change}: {error}");
        }
    }
}

#[test]
fn missing_ranks_are_named() {
    for stage in 1..=3 {
        let mut files = Run::of_stage(stage).files();
        let name = Run::optimizer_name(1);
        files.remove(&format!("step/{name}"));
        assert!(error(files).contains(&name), "stage {stage}");
        let mut files = Run::of_stage(stage).files();
        files.remove(&format!("step/{}", Run::optimizer_name(0)));
        assert!(error(files).contains(&Run::optimizer_name(0)), "stage {stage}");
    }
    let mut files = Run::of_stage(3).files();
    files.remove("step/zero_pp_rank_1_mp_rank_00_model_states.pt");
    assert!(error(files.clone()).contains("zero_pp_rank_1_mp_rank_00_model_states.pt"));
    files.remove("step/zero_pp_rank_0_mp_rank_00_model_states.pt");
    assert!(error(files).contains("model_states.pt"));
    let mut files = Run::of_stage(2).files();
    files.insert(format!("step/{}", Run::optimizer_name(2)), Vec::new());
    assert!(error(files).contains(&Run::optimizer_name(2)));
}

#[test]
fn parts_of_other_parallelism_are_refused() {
    let mut files = Run::of_stage(2).files();
    files.insert("step/mp_rank_01_model_states.pt".to_owned(), Vec::new());
    let error = catalog(files, &[]).unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("mp_rank_01"), "{error}");
    for (key, value, why) in [
        ("mp_world_size", int(2), "tensor parallelism"),
        ("num_experts", list(&[int(8)]), "experts"),
        ("ds_autoep_layers", list(&[dict(&[])]), "experts"),
        ("module", NONE.to_vec(), "pipeline"),
    ] {
        let mut run = Run::of_stage(2);
        run.model[0].set(key, value);
        let error = run.error();
        assert!(error.contains("unsupported") && error.contains(why) && error.contains(MODEL), "{error}");
    }
    let mut run = Run::of_stage(2);
    add_state(&mut run, 0, "partition_count", &list(&[int(2), int(1)]));
    assert!(run.error().contains("different numbers of ranks"), "{}", run.error());
}

#[test]
fn ranks_of_different_runs_are_refused() {
    let mut run = Run::of_stage(2);
    run.optimizer[1] = Run::of_stage(3).optimizer.remove(1);
    assert!(run.error().contains(&Run::optimizer_name(1)), "{}", run.error());
    let mut run = Run::of_stage(2);
    run.optimizer = Run::of_stage(3).optimizer;
    assert!(run.error().contains("different ZeRO stages"), "{}", run.error());
    let mut run = Run::of_stage(2);
    add_state(&mut run, 0, "zero_stage", &int(4));
    assert!(run.error().contains("stage"), "{}", run.error());
}

#[test]
fn what_deepspeed_does_not_write_is_refused_by_key() {
    for (key, value) in [
        ("buffer_names", int(1)),
        ("module", list(&[])),
        ("param_shapes", int(1)),
        ("param_shapes", list(&[names(&[("a", int(3))])])),
        ("param_shapes", list(&[names(&[("a", size(&[1 << 62, 1 << 62]))])])),
        ("param_shapes", list(&[names(&[("a", size(&[1; 100]))])])),
        ("param_shapes", list(&[])),
        ("frozen_param_fragments", names(&[])),
        ("frozen_param_fragments", names(&[("frozen", int(1))])),
        ("frozen_param_shapes", names(&[("frozen", size(&[4]))])),
        ("shared_params", list(&[])),
    ] {
        let mut run = Run::of_stage(2);
        run.model[0].set(key, value.clone());
        assert!(run.error().contains("malformed"), "{key}: {}", run.error());
    }
    for (key, value) in [
        ("zero_stage", text("two")),
        ("partition_count", int(0)),
        ("partition_count", int(-1)),
        ("partition_count", list(&[])),
        ("single_partition_of_fp32_groups", list(&[int(1)])),
        ("single_partition_of_fp32_groups", NONE.to_vec()),
    ] {
        let mut run = Run::of_stage(2);
        add_state(&mut run, 0, key, &value);
        let error = run.error();
        assert!(error.contains("malformed") && error.contains(&Run::optimizer_name(0)), "{key}: {error}");
    }
    let mut files = Run::of_stage(1).files();
    files.insert(format!("step/{MODEL}"), b"\x80\x02}.".to_vec());
    assert!(error(files).contains(MODEL));
}

#[test]
fn nothing_is_executed() {
    let folder = std::env::temp_dir().join(format!("ferry-deepspeed-{}", std::process::id()));
    let payload = call(&global("os", "mkdir"), &[text(folder.to_str().unwrap())]);
    for stage in 1..=3 {
        let mut run = Run::of_stage(stage);
        run.model[0].set("lr_scheduler", payload.clone());
        add_state(&mut run, 0, "loss_scaler", &payload);
        let catalog = catalog(run.files(), &[]).unwrap();
        assert!(!folder.exists(), "a payload ran");
        assert!(catalog.globals().contains(&"os.mkdir".to_owned()), "{:?}", catalog.globals());
        let reported = catalog.losses().iter().filter(|loss| loss.why.contains("os.mkdir")).count();
        assert_eq!(reported, 1, "{:?}", catalog.losses());
        assert_eq!(catalog.tensors().len(), FP32.len(), "the other tensors are read");

        let mut files = run.files();
        let wrapped = run.model[0].wrapped(|dict| call(&global("os", "mkdir"), &[dict]));
        files.insert(format!("step/{}", run.model_name(0)), wrapped);
        assert!(error(files).contains("not DeepSpeed's model states"));
        assert!(!folder.exists());
    }
}

#[test]
fn a_name_that_is_used_again_and_again_is_bounded() {
    let mut run = Run::of_stage(2);
    let long = text(&"n".repeat(100_000));
    run.model[0].set("buffer_names", list(&[long]));
    let error = catalog(run.files(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn a_universal_checkpoint_is_read_whole() {
    let mut files = Run::of_stage(2).files();
    files.retain(|name, _| !name.contains("optim_states"));
    files.insert("step/zero/optimizer_state.pt".to_owned(), Vec::new());
    let mut put = |name: &str, values: &[f32], dims: Option<&[i64]>| {
        let mut saved = Saved::default();
        let flat = [i64::try_from(values.len()).unwrap()];
        let tensor = saved.floats(values, dims.unwrap_or(&flat));
        // In stage 3, the file contains only the flat vector.
        let bytes = match dims {
            Some(_) => {
                saved.set("param", tensor);
                saved.bytes()
            }
            None => saved.wrapped(|_| tensor),
        };
        files.insert(format!("step/zero/{name}.pt"), bytes);
    };
    put("a/fp32", &A, Some(&[3]));
    put("b/fp32", &B, None);
    put("c/fp32", &C, Some(&[2]));
    put("b/exp_avg", &B, Some(&[2, 3]));
    put("b/step", &[2.0], Some(&[]));
    check(files.clone(), &[], &FP32);
    let kept: [Row<'_>; 2] = [("b.exp_avg", "F32", &[2, 3], &B), ("b.step", "F32", &[], &[2.0])];
    check(files.clone(), &[("state", "optimizer")], &kept);

    let mut saved = Saved::default();
    let tensor = saved.floats(&B, &[3, 2]);
    saved.set("param", tensor);
    let mut other = files.clone();
    other.insert("step/zero/b/fp32.pt".to_owned(), saved.bytes());
    let message = error(other);
    assert!(message.contains("step/zero/b/fp32.pt") && message.contains("tensor \"b\""), "{message}");
    files.remove("step/zero/c/fp32.pt");
    assert!(error(files).contains("step/zero/c/fp32.pt"));
}

/// Returns the pickled paddings of both groups. `first` contains the padding after each parameter
/// of the first group. The second group has a single parameter without padding.
fn paddings(first: &[i64]) -> Vec<u8> {
    let first: Vec<_> = first.iter().map(|&padding| int(padding)).collect();
    list(&[list(&first), list(&[int(0)])])
}

/// Adds an entry to a rank's optimizer state. If a key occurs twice, the last entry is used.
fn add_state(run: &mut Run, rank: usize, key: &str, value: &[u8]) {
    let saved = &mut run.optimizer[rank];
    let state = saved.entries.pop().unwrap().1;
    let entry = [&text(key)[..], value, b"s"].concat();
    saved.set("optimizer_state_dict", [state, entry].concat());
}

fn replace_vectors(run: &mut Run, rank: usize, groups: &[Vec<f32>]) {
    let saved = &mut run.optimizer[rank];
    let vectors: Vec<Vec<u8>> =
        groups.iter().map(|group| saved.floats(group, &[i64::try_from(group.len()).unwrap()])).collect();
    let key = if run.stage == 3 { "fp32_flat_groups" } else { "single_partition_of_fp32_groups" };
    add_state(run, rank, key, &list(&vectors));
}
