//! The measured conversions, and the commands that they are compared with.

use crate::kinds::{CONVERSIONS, Kind, Recipe};
use crate::table::print;
use crate::turns::{Folder, Job};
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::measure::Clock;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

const TENSORS: u64 = 300;

/// A folder that contains the model in every measured form.
pub(crate) struct Bench {
    name: &'static str,
    folder: Folder,
    bytes: u64,
    /// The kinds whose conversions are measured.
    kinds: Vec<Kind>,
    ferry: Ferry,
}

impl Bench {
    pub(crate) fn new(name: &'static str, folder: &Path, bytes: u64, kinds: &[Kind]) -> Self {
        let (folder, kinds) = (Folder::new(folder), kinds.to_vec());
        let bench = Self { name, folder, bytes, kinds, ferry: Ferry::new() };
        bench.make("model", &Model::of_size(bytes, TENSORS, 1), &bench.inputs());
        bench
    }

    /// Returns the conversions from and to the measured kinds.
    fn conversions(&self) -> impl Iterator<Item = (Kind, Kind)> {
        let is_measured =
            |&(from, to): &(Kind, Kind)| self.kinds.iter().any(|&kind| kind == from || kind == to);
        CONVERSIONS.into_iter().filter(is_measured)
    }

    /// Returns the inputs of these conversions.
    fn inputs(&self) -> Vec<Kind> {
        let is_input = |&kind: &Kind| self.conversions().any(|(from, _)| from == kind);
        Kind::ALL.into_iter().filter(is_input).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Writes a model as safetensors and as these kinds, under the kinds' usual names.
    fn make(&self, name: &str, model: &Model, kinds: &[Kind]) {
        model.write(&self.path(&Kind::Safetensors.name(name))).unwrap();
        for &kind in kinds {
            self.make_from_safetensors(name, kind);
        }
    }

    fn make_from_safetensors(&self, name: &str, kind: Kind) {
        let (safetensors, path) = (self.path(&Kind::Safetensors.name(name)), self.path(&kind.name(name)));
        match kind.recipe() {
            Recipe::Itself => {}
            Recipe::Conversion(options) => {
                let options = [&["--force", "--quiet", "--to", kind.id()], options].concat();
                let _ = self.ferry.convert(&safetensors, &path, &options);
            }
            Recipe::Script(script) => {
                let _ = python::script(script, [safetensors, path]);
            }
            Recipe::Weights => {
                let bytes = std::fs::metadata(safetensors).unwrap().len();
                Model::of_weights(bytes, TENSORS, 5).write(&path).unwrap();
            }
        }
    }

    fn convert(&self, name: String, model: &str, from: Kind, to: Kind, options: &[&str]) -> Job {
        let mut command = self.ferry.command(["convert", "--quiet", "--from", from.id(), "--to", to.id()]);
        command.arg(self.path(&from.name(model))).arg(self.path(&to.name("out")));
        command.args(from.options()).args(options);
        Job { name, command, outputs: to.files("out"), clock: Clock::Process }
    }

    fn cp(&self, kind: Kind, sync: bool) -> Job {
        let input = &kind.files("model")[0];
        let mut command = Command::new(if sync { "sh" } else { "cp" });
        let args = match (kind.is_folder(), sync) {
            // The copy must read and write all bytes, which a reflink would not do.
            (false, false) => &["--reflink=never"][..],
            (true, false) => &["--reflink=never", "-r"],
            (false, true) => &["-c", "cp \"$1\" \"$2\" && sync \"$2\"", "sh"],
            (true, true) => &["-c", "cp -r \"$1\" \"$2\" && find \"$2\" -type f -exec sync {} +", "sh"],
        };
        command.args(args).arg(self.path(input)).arg(self.path("copy"));
        let recursive = if kind.is_folder() { "-r " } else { "" };
        let name = format!("cp {recursive}{input}{}", if sync { " + sync" } else { "" });
        Job { name, command, outputs: vec!["copy".to_owned()], clock: Clock::Process }
    }

    /// Measures the conversions, each compared with a copy of its input.
    pub(crate) fn beside_cp(&self, rounds: usize, options: &[&str]) {
        let sync = options.contains(&"--sync");
        let mut jobs = Vec::new();
        for (from, to) in self.conversions() {
            jobs.push(self.cp(from, sync));
            let name = format!("ferry {} -> {}{}", from.word(), to.word(), if sync { " --sync" } else { "" });
            jobs.push(self.convert(name, "model", from, to, options));
        }
        let rows = self.folder.in_turns(rounds, jobs);
        let with_sync = if sync { " + sync" } else { "" };
        let mebibytes = self.bytes >> 20;
        let title =
            format!("{}: {mebibytes} MiB in {TENSORS} tensors, {rounds} rounds{with_sync}", self.name);
        print(&title, &rows, |index| Some(index & !1));
    }

    /// Measures the conversions with a receipt. They are compared with the same conversions without
    /// a receipt, and with copying the input.
    pub(crate) fn with_receipts(&self, rounds: usize) {
        let mut jobs = Vec::new();
        for (from, to) in self.conversions() {
            let name = format!("ferry {} -> {}", from.word(), to.word());
            let mut with = self.convert(format!("{name} --receipt"), "model", from, to, &["--receipt"]);
            with.outputs.push(format!("{}.ferry.json", to.name("out")));
            jobs.extend([self.convert(name, "model", from, to, &[]), with, self.cp(from, false)]);
        }
        let rows = self.folder.in_turns(rounds, jobs);
        let mebibytes = self.bytes >> 20;
        let title = format!("{}: receipts, {mebibytes} MiB in {TENSORS} tensors, {rounds} rounds", self.name);
        print(&title, &rows, |index| Some(index / 3 * 3));
    }

    /// Measures the conversions compared with scripts that use the frameworks and the safetensors
    /// library.
    pub(crate) fn beside_python(&self) {
        let scripts = [
            ("torch.load(mmap=True) + save_file", "convert.py", Kind::Torch, Kind::Safetensors),
            ("tf.train.load_checkpoint + save_file", "tf_convert.py", Kind::Bundle, Kind::Safetensors),
            ("safe_open + tf.train.Checkpoint.write", "tf_convert.py", Kind::Safetensors, Kind::Bundle),
            ("zero_to_fp32 + save_file", "zero_convert.py", Kind::Zero3, Kind::Safetensors),
            ("load_file + .to(bfloat16) + save_file", "cast_convert.py", Kind::Cast, Kind::Safetensors),
        ];
        let mut jobs = Vec::new();
        for (name, script, from, to) in scripts {
            if !self.conversions().any(|conversion| conversion == (from, to)) {
                continue;
            }
            let ferry = format!("ferry {} -> {}", from.word(), to.word());
            let ferry = self.convert(ferry, "model", from, to, &[]);
            let paths = [self.path(&from.name("model")), self.path(&to.name("out"))];
            let command = python::command(script, paths);
            jobs.push(Job {
                name: name.to_owned(),
                command,
                outputs: ferry.outputs.clone(),
                clock: Clock::Process,
            });
            jobs.push(ferry);
        }
        let title = format!("{}: beside Python", self.name);
        print(&title, &self.folder.in_turns(3, jobs), |index| Some(index & !1));
    }

    /// Measures a model of 1 MiB, which shows the startup cost, and a catalog of 100,000 tensors.
    pub(crate) fn small_and_many(&self) {
        let inputs = self.inputs();
        self.make("small", &Model::of_size(1 << 20, 30, 2), &inputs);
        // The other kinds are training checkpoints, which do not have thousands of scalars.
        let is_catalog = |kind: &Kind| matches!(kind, Kind::Safetensors | Kind::Torch | Kind::Bundle);
        let catalogs: Vec<Kind> = inputs.into_iter().filter(is_catalog).collect();
        self.make("many", &Model::of_scalars(100_000, 3), &catalogs);
        let mut jobs = Vec::new();
        for (from, to) in self.conversions() {
            let name = format!("1 MiB, {} -> {}", from.word(), to.word());
            jobs.push(self.convert(name, "small", from, to, &[]));
        }
        for kind in catalogs {
            let mut command = self.ferry.command(["inspect", "--json", "--from", kind.id()]);
            command.arg(self.path(&kind.name("many")));
            let name = format!("inspect 100,000 tensors, {}", kind.word());
            jobs.push(Job { name, command, outputs: Vec::new(), clock: Clock::Process });
        }
        print(&format!("{}: small and many", self.name), &self.folder.in_turns(15, jobs), |_| None);
    }

    /// Measures peak memory at the usual size and at four times the size.
    pub(crate) fn peak_memory(&self) {
        let large = self.bytes * 4;
        self.make("large", &Model::of_size(large, TENSORS, 4), &[]);
        let mut rows = Vec::new();
        for (model, bytes) in [("model", self.bytes), ("large", large)] {
            for from in self.inputs() {
                // Writes one kind at a time, because some disks have no space for all kinds at this
                // size.
                if model == "large" {
                    self.make_from_safetensors(model, from);
                }
                let conversions = self.conversions().filter(|conversion| conversion.0 == from);
                let jobs = conversions.map(|(_, to)| {
                    let name = format!("{} MiB, {} -> {}", bytes >> 20, from.word(), to.word());
                    self.convert(name, model, from, to, &[])
                });
                rows.extend(self.folder.in_turns(1, jobs.collect()));
                if model == "large" && from != Kind::Safetensors {
                    self.folder.remove(&from.files(model));
                }
            }
        }
        self.folder.remove(&Kind::Safetensors.files("large"));
        print(&format!("{}: peak memory", self.name), &rows, |_| None);
    }
}
