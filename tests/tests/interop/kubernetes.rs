//! Tests the guide's manifest for an indexed Job. The manifest must be valid in Kubernetes' own
//! schema. A simulated Job controller that follows the rules in the manifest must complete a plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::guide::Chapter;
use tensorferry_tests::model::Model;
use tensorferry_tests::workspace::{root, workspace};

const PACKAGES: [&str; 2] = ["kubernetes-validate==1.37.0", "PyYAML==6.0.4"];
const INDEXES: u64 = 8;
const MODELS: u64 = 160;

/// Returns a Python environment with [`PACKAGES`], which is installed once in the target folder.
fn environment() -> &'static Path {
    static ENVIRONMENT: OnceLock<PathBuf> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let path = workspace().target.join("kubernetes-venv");
        let (installed, wanted) = (path.join("installed"), PACKAGES.join(" "));
        if !std::fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path)).expect(0);
            let mut pip = Command::new(path.join("bin/pip"));
            run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES)).expect(0);
            std::fs::write(installed, wanted).unwrap();
        }
        path
    })
}

#[test]
#[ignore = "installs kubernetes-validate from PyPI"]
fn kubernetes_schema_takes_the_guides_manifests() {
    let ferry = Ferry::new();
    let chapter = Chapter::read("cluster.md");
    let validate = |file: &Path| {
        run(Command::new(environment().join("bin/kubernetes-validate")).arg("--strict").arg(file))
    };
    for name in ["zoo-plan.yaml", "zoo-job.yaml"] {
        let _ = validate(&ferry.write(name, chapter.file(name))).expect(0);
    }
    let misspelt = chapter.file("zoo-job.yaml").replace("backoffLimitPerIndex", "backoffLimitsPerIndex");
    let _ = validate(&ferry.write("misspelt.yaml", misspelt)).expect(1);
}

#[test]
#[ignore = "installs PyYAML from PyPI"]
fn the_guides_job_does_a_plan_by_its_own_rules() {
    let ferry = Ferry::on_disk();
    let chapter = Chapter::read("cluster.md");
    ferry.write("zoo-job.yaml", chapter.file("zoo-job.yaml"));
    // Disable retries of jobs, so that only a new pod can succeed.
    ferry.write("zoo.toml", format!("[defaults]\nretries = 0\n\n{}", chapter.file("zoo.toml")));
    for n in 0..MODELS {
        let model = ferry.write(&format!("models/{n:03}.bin"), []);
        Model::of_size(1 << 14, 3, n + 1).write(&model).unwrap();
    }
    ferry.write("models/007.bin", "no model");
    let _ = run(&mut ferry.shell("ferry plan zoo.toml zoo.plan --piece-jobs 10")).expect(0);
    let jobs = jobs_by_index(&ferry);
    let malformed = *jobs.iter().find(|(_, names)| names.contains(&"007".to_owned())).unwrap().0;
    let [evicted, passing] = [1, 2].map(|after| (malformed + after) % INDEXES);

    // The disk fails in the first attempt of one index. The exit code of the program determines
    // whether the pod is retried.
    let program = workspace().program.display();
    let wrapper = format!(
        "#!/bin/sh\nif [ $JOB_COMPLETION_INDEX = {passing} ] && mkdir tried; then export FERRY_FAULT=copied=eio; fi\n\
         exec {program} \"$@\"\n"
    );
    let wrapper = ferry.write("bin/ferry", wrapper);
    run(Command::new("chmod").arg("+x").arg(wrapper)).expect(0);
    let first = &jobs[&evicted][0];
    let mut job = ferry.shell(
        "PATH=$PWD/bin:$PATH; \"$PYTHON\" -B \"$CONTROLLER\" zoo-job.yaml --mount /work=$PWD --evict \"$EVICT\"",
    );
    job.env("PYTHON", environment().join("bin/python"));
    job.env("CONTROLLER", root().join("tests/python/k8s_job.py"));
    job.env("EVICT", format!("{evicted}={}", ferry.at(format!("out/{first}.safetensors")).display()));
    let ended = run(&mut job).expect(0).json();

    let mut tries: BTreeMap<u64, Vec<(u64, Option<&str>)>> = BTreeMap::new();
    for pod in ended["pods"].as_array().unwrap() {
        let (index, code) = (pod["index"].as_u64().unwrap(), pod["exit_code"].as_u64().unwrap());
        tries.entry(index).or_default().push((code, pod["action"].as_str()));
    }
    for (index, tries) in tries {
        let wanted = match index {
            index if index == malformed => vec![(3, Some("FailIndex"))],
            index if index == evicted => vec![(137, Some("Ignore")), (0, None)],
            index if index == passing => vec![(75, Some("Count")), (0, None)],
            _ => vec![(0, None)],
        };
        assert_eq!(tries, wanted, "index {index}: {ended}");
    }
    assert_eq!(ended["succeeded"].as_array().unwrap().len() as u64, INDEXES - 1, "{ended}");
    assert_eq!(ended["failed"].as_array().unwrap()[..], [malformed], "{ended}");
    assert_eq!((ended["at_a_time"].as_u64(), ended["condition"].as_str()), (Some(4), Some("Failed")));

    for n in (0..MODELS).filter(|n| *n != 7) {
        let (input, output) = (format!("models/{n:03}.bin"), format!("out/{n:03}.safetensors"));
        assert!(ferry.at(&output).exists(), "{output}");
        assert!(n % 10 != 3 || ferry.equal(&ferry.at(input), &ferry.at(&output)), "{output}");
    }
    assert!(!ferry.at("out/007.safetensors").exists());
    let again = run(&mut ferry.shell("ferry run zoo.plan")).expect(3);
    let _ = again.prints(&["160 jobs: 1 failed, 159 unchanged"]);
}

/// Returns the job names of each index, in the order in which they run. The index that processes a
/// piece is the number of the piece modulo the number of indexes.
fn jobs_by_index(ferry: &Ferry) -> BTreeMap<u64, Vec<String>> {
    let mut jobs: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for piece in 0..MODELS / 10 {
        let text = std::fs::read_to_string(ferry.at(format!("zoo.plan/pieces/{piece:05}.jsonl"))).unwrap();
        for line in text.lines() {
            let job: serde_json::Value = serde_json::from_str(line).unwrap();
            let output = job["job"]["request"]["output"]["path"].as_str().unwrap();
            let name = Path::new(output).file_name().unwrap().to_str().unwrap();
            let name = name.strip_suffix(".safetensors").unwrap();
            jobs.entry(piece % INDEXES).or_default().push(name.to_owned());
        }
    }
    assert_eq!(jobs.values().map(Vec::len).sum::<usize>() as u64, MODELS);
    jobs
}
