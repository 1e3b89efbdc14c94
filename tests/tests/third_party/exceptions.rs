//! Tests C++ exceptions in every function of a plugin that the host calls. An exception that the
//! function catches becomes an error with its message. An exception that leaves the function
//! violates the contract and ends the process. The conversion must then report the crash and leave
//! no output.

use crate::outside;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::workspace::{root, workspace};
use tensorferry_tests::zoo::Zoo;
use tensorferry_tests::{Ferry, Outcome};

/// Builds a plugin of `third-party/throws-cpp`.
pub(crate) fn library(name: &str) -> PathBuf {
    let folder = workspace().target.join("third-party/cpp");
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join(format!("libferry_{name}.so"));
    let mut compile = Command::new("c++");
    compile.args([
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Wno-missing-field-initializers",
        "-Werror",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        "-I",
    ]);
    compile.arg(root().join("sdk/abi/include")).arg("-o").arg(&library);
    run(compile.arg(outside::folder().join(format!("throws-cpp/{name}.cc")))).expect(0);
    library
}

/// Returns the functions of a plugin's objects, including the `drop` of each object.
fn entries() -> Vec<String> {
    let layout = tensorferry_abi::layout();
    let of_plugins = ["Format", "Tensor", "Record"];
    let slots = layout.lines().filter_map(|line| {
        let (object, slot) = line.strip_prefix("Ferry")?.split_once(' ')?.0.split_once("Table.")?;
        of_plugins.iter().any(|start| object.starts_with(start)).then_some((object, slot))
    });
    let slots: Vec<(&str, &str)> = slots.collect();
    let objects: BTreeSet<&str> = slots.iter().map(|(object, _)| *object).collect();
    let ends = objects.into_iter().map(|object| (object, "drop"));
    let entries: Vec<String> =
        slots.iter().copied().chain(ends).map(|(object, slot)| format!("{object}.{slot}")).collect();
    assert!(entries.len() > 40, "{entries:?}");
    entries
}

/// A folder with an input of each format.
struct Inputs {
    ferry: Ferry,
}

impl Inputs {
    fn new(library: &Path) -> Self {
        let ferry = Ferry::new();
        ferry.add_plugin(library);
        ferry.write("in.every-tensor", "EVERYTENSOR");
        ferry.write("in.every-rows", "EVERYROWS");
        // The description of the library is cached before anything throws.
        ferry.run(["formats"]).expect(0);
        Self { ferry }
    }

    /// Runs a command that calls the function `entry`. `throws` names the function that throws.
    fn call(&self, entry: &str, throws: &str) -> Outcome {
        let at = |name: &str| self.ferry.at(name).to_str().unwrap().to_owned();
        let kind = if entry.starts_with("Record") || entry.contains("record_") || entry.starts_with("Stream")
        {
            "every-rows"
        } else {
            "every-tensor"
        };
        let (input, output) = (at(&format!("in.{kind}")), at(&format!("out.{kind}")));
        let arguments: Vec<String> = match entry {
            "RecordReader.index" => vec!["index".into(), input],
            "RecordSet.json" => vec!["cat".into(), input],
            // Convert to a different format, because the format's own writer copies the encoded
            // bytes without decoding them.
            "TensorDecoder.decode" => vec!["convert".into(), input, at("out.safetensors")],
            "Format.describe" | "init" => {
                let library = self.ferry.plugin_folder().join("libferry_every.so");
                vec!["plugin".into(), "check".into(), library.to_str().unwrap().to_owned()]
            }
            // Use a file without the magic of the format, which would otherwise determine the
            // format before the probe.
            "Format.probe" => {
                self.ferry.write("in.unknown", "EVERYTENSOR");
                vec!["convert".into(), at("in.unknown"), output]
            }
            _ => vec!["convert".into(), input, output],
        };
        run(self.ferry.command(&arguments).env("FERRY_THROW", throws))
    }

    /// Returns all files except the inputs.
    fn made(&self) -> Vec<String> {
        let names = self.ferry.names();
        names.into_iter().filter(|name| name.starts_with("out")).collect()
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn what_is_thrown_in_any_function_is_an_error_of_the_plugin() {
    let inputs = Inputs::new(&library("every"));
    for kind in ["Tensor", "RecordSet"] {
        let outcome = inputs.call(kind, "");
        assert_eq!(outcome.code, Some(0), "without a request, nothing is thrown: {outcome}");
    }
    inputs.made().iter().for_each(|name| std::fs::remove_file(inputs.ferry.at(name)).unwrap());
    let more = ["init", "Stream.get_schema", "Stream.get_next"].map(str::to_owned);
    for entry in entries().into_iter().chain(more) {
        let outcome = inputs.call(&entry, &entry);
        if entry == "Format.drop" {
            // The conversion is already complete.
            assert!(matches!(outcome.code, Some(0 | 5)), "{entry}: {outcome}");
            inputs.made().iter().for_each(|name| std::fs::remove_file(inputs.ferry.at(name)).unwrap());
            continue;
        }
        let says = format!("thrown in {entry}");
        assert!(outcome.said().contains(&says) && outcome.said().contains("every"), "{entry}: {outcome}");
        let is_note = entry == "Format.probe" && outcome.code == Some(0);
        assert!(outcome.code == Some(5) || is_note, "{entry}: {outcome}");
        // Objects are dropped before the output becomes visible, so an error in a destructor still
        // prevents the output.
        if is_note {
            inputs.made().iter().for_each(|name| std::fs::remove_file(inputs.ferry.at(name)).unwrap());
        }
        assert_eq!(inputs.made(), Vec::<String>::new(), "{entry}: {outcome}");
    }
}

/// Tests exceptions that leave a function, which violates the contract. The process cannot continue
/// after an exception has passed through its frames. The process ends immediately, and its parent
/// process reports the crash.
#[test]
#[ignore = "builds crates out of the workspace"]
fn an_exception_that_leaves_a_function_ends_the_process_and_nothing_is_written() {
    let inputs = Inputs::new(&library("every"));
    let mut entries = entries();
    // Test `Format.describe` last, because a library that crashes the process that describes it is
    // not opened again.
    entries.sort_by_key(|entry| entry == "Format.describe");
    for entry in entries {
        let outcome = inputs.call(&entry, &format!("unguarded {entry}"));
        match &*entry {
            "Format.describe" => {
                outcome.clone().expect(5).says(&["signal 6"]);
            }
            "Format.drop" => {}
            _ => assert_eq!(outcome.code, None, "{entry}: {outcome}"),
        }
        // The format is dropped when the program is done.
        if entry == "Format.drop" {
            inputs.made().iter().for_each(|name| std::fs::remove_file(inputs.ferry.at(name)).unwrap());
        }
        assert_eq!(inputs.made(), Vec::<String>::new(), "{entry}: {outcome}");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_job_that_an_exception_ends_is_told_with_its_plugin() {
    let zoo = Zoo::new();
    zoo.ferry.add_plugin(&library("every"));
    zoo.write("in/a.every-tensor", b"EVERYTENSOR");
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"out/{name}.safetensors\"\n");
    zoo.ferry.run(["formats"]).expect(0);
    let outcome = run(zoo.command(&[]).env("FERRY_THROW", "unguarded TensorReader.read")).expect(3);
    let failure = zoo.failure("in/a.every-tensor");
    assert_eq!(
        (&failure["kind"], &failure["signal"]),
        (&"crashed".into(), &6.into()),
        "{failure}\n{outcome}"
    );
    assert!(failure.to_string().contains("foreign exception"), "{failure}");
    zoo.nothing_is_staged();
}
