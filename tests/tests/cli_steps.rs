//! Steps through the program: what comes out bit for bit, what is said, and what is refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsStr;
use std::path::Path;
use tempfile::tempdir;
use tensorferry_tests::ferry::names_in;
use tensorferry_tests::fixtures::{cases, inspected};
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

fn run(ferry: &Ferry, arguments: &[&dyn AsRef<OsStr>]) -> tensorferry_tests::Outcome {
    ferry.run(arguments.iter().map(|argument| argument.as_ref()))
}

#[test]
fn what_is_turned_and_cut_is_what_torch_makes_of_it() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let truth = python::script("steps_make.py", [folder.path()]).json();
    for (format, output) in [("safetensors", "out.safetensors"), ("torch", "out.pt")] {
        let steps = [
            "--step",
            "permute:abcd->dbca,where=conv",
            "--step",
            "transpose,where=large",
            "--step",
            "reshape:-1,where=large",
            "--step",
            "split:^qkv$,to=q,to=k,to=v,sizes=5x2x2,axis=1",
            "--step",
            r"stack:^expert\.(?<i>\d+)$,to=experts,axis=1",
            "--step",
            "tie:^q$,to=tied",
            "--verify",
            "--memory",
            "32MiB",
            "--to",
            format,
        ];
        ferry.convert(&at("in.pt"), &at(output), &steps);
        let expected = serde_json::from_value(truth.clone()).unwrap();
        assert_eq!(inspected(&ferry.inspect(&at(output))), expected, "{format}");
    }
}

#[test]
fn a_nested_checkpoint_keeps_its_state_under_other_names() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let case = cases("torch", "zip_training_checkpoint_plain").pop().unwrap();
    let output = folder.path().join("renamed.pt");
    ferry.convert(
        &case.input(),
        &output,
        &["--verify", "--strict", "--step", r"rename:^model\.emb,to=model.embedding"],
    );
    let [before, after] = [&case.input(), &output].map(|path| inspected(&ferry.inspect(path)));
    assert_eq!(after["model.embedding.weight"], before["model.emb.weight"]);
    assert_eq!(after.len(), before.len());
    let diff: [&dyn AsRef<OsStr>; 5] =
        [&"diff", &case.input(), &output, &"--step", &r"rename:^model\.emb,to=model.embedding"];
    run(&ferry, &diff).expect(0);
    // What is no tensor is still there.
    let state = |path: &Path| ferry.inspect(path)["state"].to_string().replace("embedding", "emb");
    assert_eq!(state(&output), state(&case.input()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [input, output] = ["in.safetensors", "out.safetensors"].map(|name| folder.path().join(name));
    Model::of_size(1 << 16, 6, 1).write(&input).unwrap();
    for (step, said) in [
        ("renam:a,to=b", "did you mean \"rename\""),
        ("rename:.*,to=x", "several tensors would have one name"),
        ("select:nothing", "leaves no tensor"),
        ("transpose", "rank="),
        ("@nowhere.toml", "no such recipe"),
    ] {
        run(&ferry, &[&"convert", &input, &output, &"--step", &step]).expect(2).says(&[said, "step"]);
        assert_eq!(names_in(folder.path()), ["in.safetensors"]);
    }
    let outcome = run(&ferry, &[&"convert", &input, &output, &"--step", &"drop:nothing"]).expect(0);
    outcome.says(&["drop:nothing changed nothing"]);
}

#[test]
fn steps_and_recipes_are_listed_and_shown() {
    let ferry = Ferry::new();
    let all = run(&ferry, &[&"steps", &"--json"]).expect(0).json();
    let text = run(&ferry, &[&"steps"]).expect(0).stdout;
    let mut seen = 0;
    for list in ["steps", "recipes"] {
        for item in all[list].as_array().unwrap() {
            let name = item["name"].as_str().unwrap();
            let shown = run(&ferry, &[&"steps", &name]).expect(0).stdout;
            assert!(
                text.contains(name) && shown.contains(item["summary"].as_str().unwrap()),
                "{name}: {shown}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 20, "{text}");
    run(&ferry, &[&"steps", &"renam"]).expect(2).says(&["did you mean \"rename\""]);
}

#[test]
fn a_parameter_is_one_wherever_it_goes() {
    let folder = tempdir().unwrap();
    let _ = python::script("steps_parameters.py", [folder.path()]);
    let (input, output) = (folder.path().join("in.pt"), folder.path().join("out.pt"));
    let steps = ["^model.weight$,to=ema.weight", "^model.bias$,to=model.shift", "^list.0$,to=ema.other"];
    let steps = steps.map(|step| format!("rename:{step}"));
    let mut options = vec!["--part", "."];
    steps.iter().for_each(|step| options.extend(["--step", step]));
    let _ = Ferry::new().convert(&input, &output, &options);
    let _ = python::script("steps_parameters.py", [folder.path().as_os_str(), OsStr::new("--check")]);
}
