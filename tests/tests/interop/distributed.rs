//! Tests that `ferry` reads whole tensors from checkpoints that several ranks wrote with the real
//! frameworks.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use tensorferry_tests::seen::{Seen, inspect};
use tensorferry_tests::{Ferry, ferry, fixtures, python, seen};

fn check(found: &Value, truth: &Value, case: &str) {
    assert_eq!(Seen::inspected(found), Seen::printed(truth), "{case}");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn deepspeed_checkpoints_are_what_deepspeed_makes_of_them() {
    let cases = [
        "1-fp32",
        "1-fp16",
        "2-fp32-universal",
        "2-bf16-legacy",
        "2-fp16",
        "3-bf16",
        "3-fp16",
        "3-fp32-small_groups-universal",
        "1-bf16-bf16_optimizer",
    ];
    let ferry = Ferry::new();
    let mut arguments = vec![ferry.home().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    let made = python::script("deepspeed_make.py", arguments).json();
    for case in cases {
        let (input, truth) = (ferry.at(case), &made[case]);
        let weights = inspect(&ferry, &input, &[]).expect(0).json();
        assert_eq!(weights["format"], "deepspeed", "{case}");
        check(&weights, &truth["fp32"], case);
        let kept = inspect(&ferry, &input, &["state=optimizer"]).expect(0).json();
        check_optimizer(&kept, &truth["optimizer"], case);
        let module = inspect(&ferry, &input, &["state=model"]);
        if case.starts_with('3') {
            module.expect(2).says(&["state=fp32"]);
        } else {
            check(&module.expect(0).json(), &truth["model"], case);
        }
        if case.contains("universal") {
            let tag = "tag=global_step2_universal";
            check(&inspect(&ferry, &input, &[tag]).expect(0).json(), &truth["fp32"], case);
            let kept = inspect(&ferry, &input, &[tag, "state=optimizer"]).expect(0).json();
            check_optimizer(&kept, &truth["optimizer"], case);
        }
        // DeepSpeed's own conversion to safetensors fails, because the weights are tied.
        let output = ferry.at("out.safetensors");
        ferry.convert(&input, &output, &["--force", "--verify"]);
        assert_eq!(Seen::by_framework(&output).tensors, Seen::printed(&truth["fp32"]).tensors, "{case}");
    }
    for case in ["2-fp16", "3-bf16"] {
        assert_own_script_fails(&ferry.at(case), &Seen::printed(&made[case]["fp32"]));
    }
    assert_parts_are_named(&ferry, ferry.home());
}

/// Runs the script that DeepSpeed adds to a checkpoint. The script must write the expected pickle,
/// but fail to write safetensors, because the weights are tied.
fn assert_own_script_fails(checkpoint: &Path, truth: &Seen) {
    let (script, output) = (checkpoint.join("zero_to_fp32.py"), checkpoint.join("own"));
    let own = |more: &[&str]| {
        let mut arguments = vec![checkpoint.as_os_str(), output.as_os_str()];
        arguments.extend(more.iter().map(OsStr::new));
        let mut command = python::command(script.to_str().unwrap(), arguments);
        ferry::run(command.env("DS_ACCELERATOR", "cpu").env("DS_SKIP_CUDA_CHECK", "1"))
    };
    own(&[]).expect(0);
    assert_eq!(Seen::by_framework(&output.join("pytorch_model.bin")), *truth);
    own(&["--safe_serialization"]).expect(1).says(&["share memory"]);
    fs::remove_dir_all(output).unwrap();
}

/// Checks that a missing file, or a file of a different kind of parallelism, is an error that names
/// the file.
fn assert_parts_are_named(ferry: &Ferry, folder: &Path) {
    let [optimizer, model] =
        ["zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt"];
    for (case, tag, missing) in [
        ("2-fp16", "global_step2", optimizer),
        ("3-fp16", "global_step2", optimizer),
        ("3-fp16", "global_step2", model),
        ("2-fp32-universal", "global_step2_universal", "zero/fc1.weight/fp32.pt"),
    ] {
        let checkpoint = folder.join(case).join(tag);
        let (path, aside) = (checkpoint.join(missing), folder.join("aside"));
        fs::rename(&path, &aside).unwrap();
        ferry.refuses(&checkpoint, missing);
        fs::rename(&aside, &path).unwrap();
    }
    for (case, whole, part) in [
        ("2-fp16", "mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"),
        ("3-fp16", optimizer, "zero_pp_rank_1_mp_rank_01_optim_states.pt"),
    ] {
        let checkpoint = folder.join(case).join("global_step2");
        fs::copy(checkpoint.join(whole), checkpoint.join(part)).unwrap();
        ferry.refuses(&checkpoint, part);
        fs::remove_file(checkpoint.join(part)).unwrap();
    }
}

/// Checks that the optimizer's vectors equal the expected ones, and that each parameter has a step
/// count.
fn check_optimizer(found: &Value, truth: &Value, case: &str) {
    let mut found = Seen::inspected(found);
    found.tensors.retain(|name, _| !name.ends_with(".step"));
    assert_eq!(found, Seen::printed(truth), "{case}");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn distributed_checkpoints_of_torch_are_whole() {
    let cases = ["plain", "ranks", "threads", "hugging_face", "fsdp"];
    let ferry = Ferry::new();
    let mut arguments = vec![ferry.home().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    let made = python::script("dcp_make.py", arguments).json();
    for case in cases {
        let (input, truth) = (ferry.at(case), seen::tensors(&made[case]));
        let seen = inspect(&ferry, &input, &[]).expect(0);
        assert_eq!(seen.stderr.contains("read 3 shards"), case == "hugging_face", "{seen}");
        let document = seen.json();
        assert_eq!(document["format"], "torch-dcp", "{case}");
        assert_eq!(fixtures::inspected(&document), truth, "{case}");
        let losses = document["losses"].as_array().unwrap();
        assert!(losses.is_empty(), "{case}: {losses:?}");
        let (safetensors, torch) = (ferry.at("out.safetensors"), ferry.at("out.pt"));
        ferry.convert(&input, &safetensors, &["--force", "--verify", "--part", "."]);
        assert_eq!(Seen::by_framework(&safetensors).tensors, truth, "{case}");
        ferry.convert(&input, &torch, &["--force", "--verify"]);
        assert_eq!(Seen::by_framework(&torch).tensors, truth, "{case}");
    }
    for (name, fault) in [("plain-gap", "gap"), ("plain-overlap", "overlap")] {
        let said = inspect(&ferry, &ferry.at(name), &[]).expect(3);
        said.says(&[fault, "model.rows"]);
        ferry.refuses(&ferry.at(name), "model.rows");
    }
    for (case, file) in
        [("ranks", "__1_0.distcp"), ("hugging_face", "shard-00001-model-00001-of-00001.safetensors")]
    {
        let folder = ferry.at(case);
        fs::remove_file(folder.join(file)).unwrap();
        // Without a list of files, a missing file is reported as a gap in a tensor.
        ferry.refuses(&folder, if case == "ranks" { file } else { "gap" });
    }
    // The nesting of the state is kept, so that a part of the state can be selected.
    let views = ferry.at("views.safetensors");
    ferry.convert(&ferry.at("plain"), &views, &["--part", "views"]);
    assert_eq!(Seen::by_framework(&views).tensors.len(), 3);
}
