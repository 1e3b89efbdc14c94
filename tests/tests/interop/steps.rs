//! Tests that steps produce the same results as torch.

use tensorferry_tests::{Ferry, args, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn what_is_turned_and_cut_is_what_torch_makes_of_it() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let truth = python::script("steps_make.py", [ferry.home()]).json();
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
        assert_eq!(ferry.tensors(&at(output)), expected, "{format}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_parameter_is_one_wherever_it_goes() {
    let ferry = Ferry::new();
    let _ = python::script("steps_parameters.py", [ferry.home()]);
    let (input, output) = (ferry.at("in.pt"), ferry.at("out.pt"));
    let steps = ["^model.weight$,to=ema.weight", "^model.bias$,to=model.shift", "^list.0$,to=ema.other"];
    let steps = steps.map(|step| format!("rename:{step}"));
    let mut options = vec!["--part", "."];
    steps.iter().for_each(|step| options.extend(["--step", step]));
    let _ = ferry.convert(&input, &output, &options);
    let _ = python::script("steps_parameters.py", args![ferry.home(), "--check"]);
}
