//! The shapes of an output on disk: one file, a separate folder, or a set among other files. A
//! scene is a folder in which a test starts writing such an output, kills ferry, and checks the
//! remaining files.

use crate::Ferry;
use crate::ferry::{Outcome, run};
use crate::files::{STAGING, copy_below, files_below};
use crate::model::Model;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The form of an output on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    File,
    /// A separate folder, with a sidecar.
    Folder,
    /// Shards and their index, among other files.
    Set,
    /// A checkpoint's data files and their index, among other files.
    Bundle,
}

impl Shape {
    /// Returns the file that is needed to open all other files.
    fn index(self) -> Option<&'static Path> {
        match self {
            Self::File | Self::Folder => None,
            Self::Set => Some(Path::new("model.safetensors.index.json")),
            Self::Bundle => Some(Path::new("model.index")),
        }
    }
}

/// The state of the files with the names of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No output that could be opened exists.
    None,
    /// Exactly the old output exists.
    Old,
    /// Exactly the new output exists.
    New,
}

/// An unrelated file in the folder of the output.
const BYSTANDER: &str = "keep.txt";
const TENSORS: u64 = 32;
/// The number of files of an output that is not a single file.
const SHARDS: u64 = 4;
/// The number of data files of the old checkpoint. It differs from the number in the new
/// checkpoint, so the names of the data files also differ.
const OLD_BUNDLE_SHARDS: u64 = 2;

/// A folder with an old and a new input of one shape, and their outputs.
#[derive(Debug)]
pub struct Scene {
    pub ferry: Ferry,
    shape: Shape,
    new_tensor_bytes: u64,
}

const OLD_TENSOR_BYTES: u64 = 8 << 10;

impl Scene {
    /// Creates a new input of `bytes` bytes and a small old input. Their outputs have the same
    /// names.
    pub fn new(shape: Shape, bytes: u64) -> Self {
        let scene = Self { ferry: Ferry::on_disk(), shape, new_tensor_bytes: bytes / TENSORS };
        for (which, tensor_bytes) in [(State::Old, OLD_TENSOR_BYTES), (State::New, scene.new_tensor_bytes)] {
            let input = scene.input(which);
            let model = Model::uniform(TENSORS, tensor_bytes, tensor_bytes);
            if shape == Shape::Folder {
                std::fs::create_dir(&input).unwrap();
                std::fs::write(input.join("config.json"), format!("{{\"is\": \"{which:?}\"}}")).unwrap();
                model.write(&input.join("model.safetensors")).unwrap();
            } else {
                model.write(&input).unwrap();
            }
            let reference = scene.reference(which);
            std::fs::create_dir(&reference).unwrap();
            let _ = run(&mut scene.command_to(which, &reference, &[])).expect(0);
        }
        scene.reset(false);
        scene
    }

    /// Returns the folder of the outputs.
    pub fn work(&self) -> PathBuf {
        self.ferry.at("work")
    }

    /// Returns the input whose conversion creates this state.
    pub fn input(&self, which: State) -> PathBuf {
        let suffix = if self.shape == Shape::Folder { "" } else { ".safetensors" };
        self.ferry.at(format!("{which:?}{suffix}"))
    }

    /// Returns the files of an output.
    fn files_of(&self, which: State) -> Vec<PathBuf> {
        files_below(&self.reference(which))
    }

    fn reference(&self, which: State) -> PathBuf {
        self.ferry.at(format!("reference-{which:?}"))
    }

    /// Returns the conversion that creates this state, with additional options.
    #[must_use]
    pub fn command(&self, which: State, options: &[&str]) -> Command {
        self.command_to(which, &self.work(), options)
    }

    fn command_to(&self, which: State, folder: &Path, options: &[&str]) -> Command {
        let is_old = which == State::Old;
        let bytes = if is_old { OLD_TENSOR_BYTES } else { self.new_tensor_bytes };
        let mut command = self.ferry.command(["convert"]);
        command.arg(self.input(which));
        match self.shape {
            Shape::File => command.arg(folder.join("out.pt")),
            Shape::Folder => command.arg(folder.join("out")).args(["--to", "torch"]),
            Shape::Set => command
                .arg(folder.join("model.safetensors"))
                .args(["-o", &format!("max_shard_size={}", bytes * TENSORS / SHARDS)]),
            Shape::Bundle => {
                let shards = if is_old { OLD_BUNDLE_SHARDS } else { SHARDS };
                command.arg(folder.join("model")).args(["--to", "tf-bundle"]);
                command.args(["-o", &format!("shards={shards}")])
            }
        };
        command.args(options);
        command
    }

    /// Clears the output folder, and restores the old output if `with_old` is set.
    pub fn reset(&self, with_old: bool) {
        let work = self.work();
        if work.exists() {
            std::fs::remove_dir_all(&work).unwrap();
        }
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join(BYSTANDER), "mine").unwrap();
        if with_old {
            copy_below(&self.reference(State::Old), &work);
        }
    }

    /// Returns the current state, without staging folders.
    pub fn state(&self) -> State {
        let work = self.work();
        assert_eq!(std::fs::read(work.join(BYSTANDER)).unwrap(), b"mine");
        let is_staged = |file: &Path| file.iter().any(|part| part.to_string_lossy().starts_with(STAGING));
        let mut found = files_below(&work);
        found.retain(|file| file != Path::new(BYSTANDER) && !is_staged(file));

        let references = [State::Old, State::New].map(|which| (which, self.reference(which)));
        // The state to which each file belongs. The old and new contents of a file differ.
        let mut states = BTreeMap::new();
        for file in &found {
            let of = references.iter().find(|(_, reference)| same(&work.join(file), &reference.join(file)));
            let (of, _) =
                of.unwrap_or_else(|| panic!("{} is neither the old nor the new file", file.display()));
            states.insert(file.clone(), *of);
        }
        let decides = match self.shape.index() {
            // Shards of the other state have different names. They can exist without an index,
            // because they are published before the index and removed after it.
            Some(index) => states.get(index),
            None => states.values().next(),
        };
        let Some(&of) = decides else { return State::None };
        let expected = self.files_of(of);
        assert!(
            expected.iter().all(|file| states.get(file) == Some(&of)),
            "some files of {of:?} are missing: {states:?}"
        );
        assert!(self.shape.index().is_some() || found == expected, "a mixture of old and new: {states:?}");
        of
    }

    /// Checks that the next run removes all files that a killed run left.
    pub fn next_run_cleans_up(&self) {
        let _ = run(&mut self.command(State::Old, &["--force"])).expect(0);
        assert_eq!(self.state(), State::Old);
        self.nothing_is_staged();
    }

    /// Checks that only the files of the current state exist, and that all staging folders are
    /// gone.
    pub fn nothing_is_staged(&self) {
        let mut found = files_below(&self.work());
        found.retain(|file| file != Path::new(BYSTANDER));
        let state = self.state();
        let expected = if state == State::None { Vec::new() } else { self.files_of(state) };
        assert_eq!(found, expected, "unexpected files next to {state:?}");
        for folder in [self.work(), self.work().join("out")] {
            if folder.is_dir() {
                let names = crate::files::names_in(&folder);
                assert!(
                    !names.iter().any(|name| name.starts_with(STAGING)),
                    "left in {}: {names:?}",
                    folder.display()
                );
            }
        }
    }

    /// Checks that `state` is allowed after a killed run. `with_old` is set if an old output
    /// existed, and `what` describes the run in messages.
    pub fn may_stand(&self, state: State, with_old: bool, what: &str) {
        let allowed: &[State] = match (with_old, self.shape) {
            (false, _) => &[State::None, State::New],
            (true, Shape::Set | Shape::Bundle) => &[State::None, State::Old, State::New],
            (true, Shape::File | Shape::Folder) => &[State::Old, State::New],
        };
        assert!(
            allowed.contains(&state),
            "{:?}, old output: {with_old}, {what}: found {state:?}",
            self.shape
        );
    }

    /// Starts the new conversion, which the caller then disturbs.
    pub fn start(&self, options: &[&str]) -> Child {
        let mut command = self.command(State::New, options);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs the new conversion until it exits.
    #[must_use]
    pub fn run(&self, options: &[&str]) -> Outcome {
        run(&mut self.command(State::New, options))
    }
}

/// Returns whether two files exist and have the same bytes.
fn same(a: &Path, b: &Path) -> bool {
    let (Ok(mut a), Ok(mut b)) = (File::open(a), File::open(b)) else { return false };
    let len = |file: &File| file.metadata().map(|metadata| metadata.len()).unwrap();
    if len(&a) != len(&b) {
        return false;
    }
    let mut left = len(&a);
    let mut buffers = [vec![0; 1 << 18], vec![0; 1 << 18]];
    while left > 0 {
        let n = usize::try_from(left.min(1 << 18)).unwrap();
        let [x, y] = &mut buffers;
        a.read_exact(&mut x[..n]).unwrap();
        b.read_exact(&mut y[..n]).unwrap();
        if x[..n] != y[..n] {
            return false;
        }
        left -= n as u64;
    }
    true
}
