//! Dequantization of quantized weights to a file of floats, compared with libraries that compute
//! the same weights but write nothing.

use crate::table::print;
use crate::turns::{Folder, Job};
use std::path::Path;
use tensorferry_tests::measure::Clock;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

const SCRIPT: &str = "bench_quantised.py";

/// A kind of quantized weights, the dtype after dequantization, and the library to compare with.
const KINDS: [(&str, &str, &str); 5] = [
    ("q4_0", "f16", "gguf-py"),
    ("q4_k", "f16", "gguf-py"),
    ("q8_0", "f16", "gguf-py"),
    ("gptq", "bf16", "torch"),
    ("fp8", "bf16", "torch"),
];

/// Measures models whose dequantized weights are this many bytes in total.
pub(crate) fn beside_libraries(folder: &Path, bytes: u64, rounds: usize) {
    let (folder, ferry) = (Folder::new(folder), Ferry::new());
    let numbers = bytes / 2;
    let mut jobs = Vec::new();
    for (kind, to, library) in KINDS {
        let is_block = matches!(kind, "q4_0" | "q8_0");
        let input = folder.path(&if matches!(kind, "gptq" | "fp8") {
            kind.to_owned()
        } else {
            format!("{kind}.gguf")
        });
        if is_block {
            let weights = folder.path("weights.safetensors");
            Model::of_weights(bytes * 2, 32, 5).write(&weights).unwrap();
            let _ = ferry.convert(&weights, &input, &["--quiet", "-o", &format!("quantize={kind}")]);
            std::fs::remove_file(weights).unwrap();
        } else {
            let numbers = numbers.to_string();
            let _ =
                python::script(SCRIPT, ["make".as_ref(), kind.as_ref(), numbers.as_ref(), input.as_os_str()]);
        }
        let command = python::command(SCRIPT, ["time".as_ref(), kind.as_ref(), input.as_os_str()]);
        let name = format!("{library}: {kind} to {to}, one tensor after the other, not written");
        jobs.push(Job { name, command, outputs: Vec::new(), clock: Clock::Printed });
        let mut command = ferry.command(["convert", "--quiet", "--step", &format!("dequantize:{to}")]);
        command.arg(&input).arg(folder.path("out.safetensors"));
        let outputs = vec!["out.safetensors".to_owned()];
        jobs.push(Job {
            name: format!("ferry convert, {kind} to {to}"),
            command,
            outputs,
            clock: Clock::Process,
        });
    }
    let rows = folder.in_turns(rounds, jobs);
    let title = format!("memory: dequantizing to {} MiB, {rounds} rounds", bytes >> 20);
    print(&title, &rows, |index| Some(index & !1));
}
