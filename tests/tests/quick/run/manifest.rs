//! Tests of manifests, of the locations in messages about mistakes, and of the output of a dry run.

use serde_json::Value;
use tensorferry_tests::Outcome;
use tensorferry_tests::zoo::Zoo;

fn zoo() -> Zoo {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 16, 1);
    zoo.add_model("sub/a.safetensors", 1 << 16, 2);
    zoo.add_model("sub/b.safetensors", 1 << 16, 3);
    zoo
}

/// Runs a manifest that must be rejected. `expected` lists the location of each mistake and words
/// from its message, in order.
fn refused(manifest: &str, expected: &[(&str, &[&str])]) {
    let zoo = zoo();
    zoo.manifest(manifest);
    let outcome = zoo.run(&["--json"]).expect(2);
    let errors: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), expected.len(), "{outcome}");
    for (error, (place, words)) in errors.iter().zip(expected) {
        assert!(error.contains(&format!("zoo.toml:{place}: ")), "not at {place}: {error}");
        for word in *words {
            assert!(error.contains(word), "{word:?} is not in {error}");
        }
    }
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), expected.len());
    for (line, (place, _)) in lines.iter().zip(expected) {
        assert_eq!(format!("{}:{}", line["line"], line["column"]), *place, "{line}");
        assert_eq!(line["event"], "mistake");
    }
    assert!(!zoo.path("zoo.journal.jsonl").exists() && zoo.outputs().is_empty());
}

#[test]
fn an_unknown_key() {
    refused(
        "[default]\n[defaults]\nverfy = true\n[[job]]\ninput = \"in/a.safetensors\"\noutputs = \"x\"\noutput = \"a.pt\"\n",
        &[
            ("1:2", &["unknown key \"default\"", "did you mean \"defaults\"?"]),
            ("3:1", &["unknown key \"verfy\"", "did you mean \"verify\"?"]),
            ("6:1", &["unknown key \"outputs\"", "did you mean \"output\"?"]),
        ],
    );
}

#[test]
fn a_wrong_type() {
    refused(
        "[[job]]\ninput = \"in/a.safetensors\"\noutput = \"a.pt\"\nverify = \"yes\"\nretries = -1\ntimeout = \"soon\"\n\
         [run]\njobs = \"two\"\nthreads = 0\n",
        &[
            ("4:10", &["expected a boolean"]),
            ("5:11", &["expected u32"]),
            ("6:11", &["expected a time such as 90s", "\"soon\""]),
            ("8:8", &["expected u32"]),
            ("9:11", &["expected 1 to 1024, found 0"]),
        ],
    );
}

#[test]
fn a_missing_key_and_text_that_is_no_toml() {
    refused("[[job]]\ninput = \"in/a.safetensors\"\n", &[("1:1", &["missing field `output`"])]);
    refused("[[job]]\ninput = \n", &[("2:9", &[])]);
    refused("", &[("1:1", &["no [[job]], [[zoo]] or [[dataset]]"])]);
}

#[test]
fn an_unknown_format_or_option() {
    refused(
        "[[job]]\ninput = \"in/a.safetensors\"\noutput = \"a.pt\"\nto = \"safetensor\"\nfrom = \"troch\"\n\
         [[job]]\ninput = \"in/a.safetensors\"\noutput = \"a.pb\"\n\
         [[job]]\ninput = \"in/a.safetensors\"\noutput = \"b.pt\"\noutput_options = { fromat = \"legacy\", format = \"old\" }\n\
         input_options = { stat = 1 }\nallow_loss = [\"tensors\"]\n",
        &[
            ("4:6", &["unknown format \"safetensor\" for `to`", "did you mean \"safetensors\"?"]),
            ("5:8", &["unknown format \"troch\" for `from`", "did you mean \"torch\"?"]),
            ("8:10", &["does not determine its format", "safetensors"]),
            ("12:20", &["torch has no output option \"fromat\"", "did you mean \"format\"?"]),
            ("12:39", &["format", "legacy", "\"old\""]),
            ("13:19", &["no input option \"stat\"", "did you mean \"state\"?"]),
            ("14:15", &["unknown kind of loss \"tensors\"", "did you mean \"tensor\"?"]),
        ],
    );
}

#[test]
fn an_unknown_step() {
    refused(
        "[defaults]\nsteps = [\"drop:y\"]\n[[job]]\ninput = \"in/a.safetensors\"\noutput = \"a.pt\"\n\
         steps = [\"drop:x\", \"renam:^a,to=b\", { step = \"transpos\", arg = \"x\" }]\n",
        &[
            ("6:20", &["unknown step or recipe \"renam\"", "did you mean \"rename\"?"]),
            ("6:37", &["unknown step or recipe \"transpos\"", "did you mean \"transpose\"?"]),
        ],
    );
}

#[test]
fn a_template_that_maps_two_models_to_one_output() {
    refused(
        "[[zoo]]\nroot = \"in\"\noutput = \"out/{stem}.pt\"\n",
        &[("3:10", &["two jobs write", "out/a.pt", "in/a.safetensors", "in/sub/a.safetensors", "{path}"])],
    );
    refused(
        "[[zoo]]\nroot = \"in\"\noutput = \"out/{pth}.pt\"\n",
        &[("3:10", &["unknown field {pth}", "did you mean \"path\"?"])],
    );
}

#[test]
fn a_glob_or_a_root_that_is_nothing() {
    refused(
        "[[zoo]]\nroot = \"in\"\ninclude = [\"**/*.safetensors\", \"**/*.safetensor\"]\noutput = \"out/{path}.pt\"\n\
         [[zoo.rule]]\nmatch = \"sbu/**\"\n",
        &[
            ("3:32", &["matches no model", "did you mean \"**/*.safetensors\"?"]),
            ("6:9", &["\"sbu/**\" matches no model"]),
        ],
    );
    refused(
        "[[zoo]]\nroot = \"inn\"\noutput = \"{path}.pt\"\n",
        &[("2:8", &["is not a folder", "did you mean \"in\"?"])],
    );
}

#[test]
fn a_variable_without_a_value() {
    refused(
        "[vars]\nOUT = \"out\"\n[[job]]\ninput = \"${WHERE}/a.safetensors\"\noutput = \"${OUTT}/a.pt\"\n",
        &[
            ("4:9", &["unknown variable \"WHERE\"", "--var WHERE=VALUE"]),
            ("5:10", &["\"OUTT\"", "did you mean \"OUT\"?"]),
        ],
    );
    let zoo = zoo();
    zoo.manifest("[vars]\nA = \"no\"\n[[zoo]]\nroot = \"${IN}\"\noutput = \"${A}/{path}.pt\"\n");
    let _ = zoo.run(&["--var", "IN=in", "--var", "A=out"]).expect(0);
    assert_eq!(zoo.outputs().len(), 3);
    let unused = ["--var", "IN=in", "--var", "AA=out"];
    let _ = zoo.run(&unused).expect(2).says(&["--var AA: the manifest does not use", "did you mean \"A\"?"]);
}

#[test]
fn names_that_no_job_has_are_refused() {
    let zoo = zoo();
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"out/{path}.pt\"\n");
    let said = ["; did you mean \"in/a.safetensors\"?", "such as in/a.safetensors, in/sub/"];
    for more in [&[][..], &["--shard", "1/2"], &["--only", "in/sub/*"], &["--dry-run"]] {
        let options: Vec<&str> = ["--only", "in/aa.safetensors"].iter().chain(more).copied().collect();
        let _ = zoo.run(&options).expect(2).says(&["--only \"in/aa.safetensors\""]).says(&said);
    }
    let plan = |more: &[&str]| {
        let words = [zoo.path("zoo.toml"), zoo.path("zoo.plan")].map(std::path::PathBuf::into_os_string);
        let more = more.iter().map(std::ffi::OsString::from);
        zoo.ferry.run(["plan".into()].into_iter().chain(words).chain(more))
    };
    let _ = plan(&["--only", "in/aa.safetensors"]).expect(2).says(&said);
    assert!(!zoo.path("zoo.plan").exists());
    let _ = plan(&[]).expect(0);
    let on_plan = |options: &[&str]| tensorferry_tests::ferry::run(&mut zoo.on_plan("run", options));
    let _ = on_plan(&["--only", "in/aa.safetensors"]).expect(2).says(&said);
    let _ = on_plan(&["--only", "x", "--shard", "1/1"]).expect(0).says(&["no job of this shard"]);
    let file = zoo.path("zoo.plan/plan.json");
    let _ = zoo.ferry.run(["run".as_ref(), file.as_os_str()]).expect(2).says(&["pass the plan's folder"]);
    zoo.manifest("[[zoo]]\nroot = \"in\"\nexclude = [\"**\"]\noutput = \"out/{path}.pt\"\n");
    let _ = zoo.run(&[]).expect(2).says(&["zoo.toml:3:12", "no model is left: `exclude` matches all 3"]);
}

#[test]
fn the_schema_is_printed() {
    let zoo = zoo();
    let schema = zoo.ferry.run(["run", "--schema"]).expect(0).json();
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["$defs"].to_string().contains("memory_limit"), "{schema}");
}

fn plan(outcome: &Outcome) -> Value {
    let line = outcome.stdout.lines().find(|line| line.contains("\"event\":\"plan\""));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no plan: {outcome}"))).unwrap()
}

#[test]
fn a_dry_run_tells_the_plan_and_writes_nothing() {
    let zoo = zoo();
    zoo.write("in/bad.safetensors", b"\xff\xff\0\0\0\0\0\0{}");
    zoo.write("out/sub/b.pt", b"mine");
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"out/{path}.pt\"\n");
    let text = zoo.run(&["--dry-run"]).expect(2);
    for part in [
        "in/a.safetensors: ",
        "torch, 12 tensors",
        "would fail: malformed",
        "conflict: in/sub/b.safetensors: ",
        "space: ",
    ] {
        assert!(text.stdout.contains(part), "{part:?} is not in {text}");
    }
    let plan = plan(&zoo.run(&["--dry-run", "--json"]).expect(2));
    assert_eq!(plan["jobs"].as_array().unwrap().len(), 4);
    assert_eq!(plan["conflicts"][0]["jobs"][0], "in/sub/b.safetensors");
    assert!(plan["space"][0]["needed"].as_u64().unwrap() > 3 << 15, "{plan}");
    assert!(plan["jobs"].as_array().unwrap().iter().any(|job| job["failure"]["kind"] == "malformed"));
    assert_eq!(zoo.outputs().len(), 1);
    assert!(!zoo.path("zoo.journal.jsonl").exists() && !zoo.path("zoo.report").exists());

    std::fs::remove_file(zoo.path("in/bad.safetensors")).unwrap();
    std::fs::remove_file(zoo.path("out/sub/b.pt")).unwrap();
    let _ = zoo.run(&["--dry-run"]).expect(0);
    let _ = zoo.run(&[]).expect(0);
    let text = zoo.run(&["--dry-run"]).expect(0);
    assert!(text.stdout.contains("3 jobs: 0 would run, 3 unchanged"), "{text}");
}

#[test]
fn events_are_json_lines() {
    let zoo = zoo();
    let outcome = zoo.run(&["--json"]).expect(0);
    let events: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("run-began"), count("job-began"), count("job-done"), count("run-ended")), (1, 3, 3, 1));
    let done = events.iter().find(|event| event["event"] == "job-done").unwrap();
    assert_eq!(
        (&done["from"], &done["to"], &done["tensors"]),
        (&"safetensors".into(), &"safetensors".into(), &12.into())
    );
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["done"]), (&"run-ended".into(), &3.into()), "{last}");
}
