//! Statistics of a model in the page cache. They are compared with `cp` of the same file, and with
//! the five calls of torch or numpy that compute the same statistics.

use crate::table::print;
use crate::turns::{Folder, Job};
use std::path::Path;
use std::process::Command;
use tensorferry_tests::measure::Clock;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

const SCRIPT: &str = "bench_statistics.py";

/// Measures plain models of this many bytes, and quantized models whose weights take this many
/// bytes as F32.
pub(crate) fn beside_libraries(folder: &Path, bytes: u64, rounds: usize) {
    let (folder, ferry) = (Folder::new(folder), Ferry::new());
    let wide = |bytes, name: &str| {
        let weights = folder.path(name);
        Model::of_weights(bytes, 32, 5).write(&weights).unwrap();
        weights
    };
    let mut jobs = Vec::new();
    let ferry_job = |input: &Path, name: String| {
        let mut command = ferry.command(["inspect", "--stats", "--json"]);
        command.arg(input);
        Job { name, command, outputs: Vec::new(), clock: Clock::Process }
    };
    for kind in ["f32", "bf16", "f16"] {
        let input = folder.path(&format!("{kind}.safetensors"));
        if kind == "f32" {
            let _ = wide(bytes, "f32.safetensors");
        } else {
            let weights = wide(bytes * 2, "wide.safetensors");
            let _ = ferry.convert(&weights, &input, &["--quiet", "--step", &format!("cast:{kind}")]);
            std::fs::remove_file(weights).unwrap();
        }
        let mut command = Command::new("cp");
        command.arg(&input).arg(folder.path("out"));
        let outputs = vec!["out".to_owned()];
        jobs.push(Job { name: format!("cp, {kind}"), command, outputs, clock: Clock::Process });
        for library in ["torch", "numpy"].into_iter().filter(|library| (*library, kind) != ("numpy", "bf16"))
        {
            let command = python::command(SCRIPT, [library.as_ref(), input.as_os_str()]);
            let name = format!("{library}: min, max, mean, std, count of zeros, {kind}");
            jobs.push(Job { name, command, outputs: Vec::new(), clock: Clock::Printed });
        }
        jobs.push(ferry_job(&input, format!("ferry inspect --stats, {kind}")));
    }
    let rows = folder.in_turns(rounds, jobs);
    let of_cp = |index: usize| {
        let ends = [0, 4, 7, rows.len()];
        ends.iter().rev().find(|start| **start <= index).copied()
    };
    print(&format!("memory: statistics of {} MiB, {rounds} rounds", bytes >> 20), &rows, of_cp);

    let mut jobs = Vec::new();
    for kind in ["q8_0", "q4_k"] {
        let input = folder.path(&format!("{kind}.gguf"));
        if kind == "q8_0" {
            let weights = wide(bytes, "wide.safetensors");
            let _ = ferry.convert(&weights, &input, &["--quiet", "-o", "quantize=q8_0"]);
            std::fs::remove_file(weights).unwrap();
        } else {
            let numbers = (bytes / 4).to_string();
            let arguments = ["make".as_ref(), kind.as_ref(), numbers.as_ref(), input.as_os_str()];
            let _ = python::script("bench_quantised.py", arguments);
        }
        let command = python::command(SCRIPT, ["gguf".as_ref(), input.as_os_str()]);
        let name = format!("gguf-py and numpy: {kind}, one tensor after the other");
        jobs.push(Job { name, command, outputs: Vec::new(), clock: Clock::Printed });
        jobs.push(ferry_job(&input, format!("ferry inspect --stats, {kind}")));
    }
    let rows = folder.in_turns(rounds, jobs);
    let title =
        format!("memory: statistics of {} million quantized numbers, {rounds} rounds", bytes / 4_000_000);
    print(&title, &rows, |index| Some(index & !1));
}
