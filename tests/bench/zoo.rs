//! Many small models, converted with `ferry run`. The run is compared with a shell loop of `cp`
//! over the same files. It is also compared with the same conversions in one process without a
//! journal, which shows the cost of isolation.

use crate::table::print;
use crate::turns::{Folder, Job};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tensorferry::request::{CommitOptions, InputRequest, OutputRequest, Request};
use tensorferry::values::Algorithm;
use tensorferry::{Registry, Session};
use tensorferry_tests::Ferry;
use tensorferry_tests::measure::Clock;
use tensorferry_tests::model::Model;
use tensorferry_tests::workspace::workspace;

const MODELS: u64 = 2000;
const MODEL_BYTES: u64 = 100 << 10;
const TENSORS: u64 = 12;

/// The argument with which this program runs [`in_one_process`].
pub(crate) const ONE_PROCESS: &str = "in-one-process";

/// Measures a zoo in this folder. `program` is the path of this program.
pub(crate) fn beside_cp(folder: &Path, rounds: usize, program: &Path) {
    let folder = Folder::new(folder);
    let (models, manifest) = (folder.path("in"), folder.path("zoo.toml"));
    std::fs::create_dir_all(&models).unwrap();
    std::fs::create_dir_all(folder.path("out")).unwrap();
    for seed in 0..MODELS {
        let model = Model::of_size(MODEL_BYTES, TENSORS, seed);
        model.write(&models.join(format!("{seed}.safetensors"))).unwrap();
    }
    let text = "[[zoo]]\nroot = \"in\"\noutput = \"run/{name}\"\nto = \"safetensors\"\n";
    std::fs::write(&manifest, text).unwrap();

    let ferry = Ferry::with_plugins(&[&workspace().formats]);
    let mut cp = Command::new("sh");
    let lines = "mkdir \"$2\" && for file in \"$1\"/*; do cp --reflink=never \"$file\" \"$2\"; done";
    cp.args(["-c", lines, "sh"]).args([&models, &folder.path("copies")]);
    let mut run = ferry.command(["run", "--quiet"]);
    run.arg(&manifest);
    let mut together = Command::new(program);
    together.arg(ONE_PROCESS).args([&*models, &folder.path("together"), ferry.plugin_folder()]);
    let job = |name: &str, command: Command, outputs: &[&str]| Job {
        name: name.to_owned(),
        command,
        outputs: outputs.iter().map(|&output| output.to_owned()).collect(),
        clock: Clock::Process,
    };
    let jobs = vec![
        job("a loop of cp", cp, &["copies"]),
        job("ferry run", run, &["run", "zoo.journal.jsonl", "zoo.report"]),
        job("the same in one process, no journal", together, &["together"]),
    ];
    let rows = folder.in_turns(rounds, jobs);
    let title = format!("disk: a zoo of {MODELS} models of {} KiB, {rounds} rounds", MODEL_BYTES >> 10);
    print(&title, &rows, |_| Some(0));
}

/// Converts every model in one folder to another folder as `ferry run` does: synced, with receipts,
/// and with the same number of small jobs at a time.
pub(crate) fn in_one_process(folders: &[String]) {
    let [models, outputs, plugins] = folders else { panic!("{ONE_PROCESS} takes three folders") };
    let (models, outputs) = (Path::new(models), Path::new(outputs));
    std::fs::create_dir_all(outputs).unwrap();
    let registry = Registry::load([Path::new(plugins)]);
    let names: Vec<_> = std::fs::read_dir(models).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) * 8;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let registry = registry.clone().with_session(Session::new(1, (256 << 20) / jobs as u64));
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let request = Request {
                        input: InputRequest { path: models.join(name), ..InputRequest::default() },
                        output: OutputRequest {
                            path: outputs.join(name),
                            receipt: Some(Algorithm::Sha256),
                            commit: CommitOptions { force: false, sync: true },
                            ..OutputRequest::default()
                        },
                        ..Request::default()
                    };
                    registry.convert_as(&request, &|_| ()).unwrap();
                }
            });
        }
    });
}
