//! Tests with kernels, sandboxes and file systems that lack a system call. A killed run must leave
//! either the old or the new output, and the next run must complete.

use std::path::Path;
use std::process::Command;
use tensorferry_tests::calls::{Call, Errno, launcher};
use tensorferry_tests::ferry::{run, started_by};
use tensorferry_tests::files::files_below;
use tensorferry_tests::host::STAGES;
use tensorferry_tests::model::Model;
use tensorferry_tests::settings::kills;
use tensorferry_tests::workspace::workspace;
use tensorferry_tests::{Ferry, args, disk};

const CALLS: [&str; 6] = ["statx", "renameat2", "openat2", "copy_file_range", "flock", "fallocate"];
const INDEX: &str = "model.safetensors.index.json";

/// The type of file system that contains the output folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Disk,
    Memory,
    /// A bind mount on the same device.
    Mount,
}

/// Returns the command with `output` mounted onto itself.
fn mounted(output: &Path, command: &Command) -> Command {
    let mut mount = Command::new("unshare");
    let script = "mount --bind \"$1\" \"$1\" || exit 97; shift; exec \"$@\"";
    mount.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(output);
    started_by(mount, command)
}

/// Returns the names and bytes of all files outside staging folders.
fn seen(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = files_below(folder);
    found.retain(|path| !path.to_string_lossy().contains(".ferry-stage-"));
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read(folder.join(path)).unwrap())).collect()
}

#[test]
#[ignore = "kills processes"]
fn a_call_that_fails_leaves_the_old_or_the_new_output() {
    if disk::is_left_out() {
        return;
    }
    let ferry = Ferry::on_disk();
    for (name, seed) in [("old.safetensors", 1), ("new.safetensors", 2)] {
        Model::of_size(1 << 18, 4, seed).write(&ferry.at(name)).unwrap();
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = ["--to", "safetensors", "-o", "max_shard_size=100KB", "--force"];
    let [old, new] = ["old", "new"].map(|which| {
        let reference = ferry.at(format!("reference-{which}"));
        std::fs::create_dir(&reference).unwrap();
        ferry.convert(&ferry.at(format!("{which}.safetensors")), &reference, &options);
        seen(&reference)
    });
    let cases: Vec<_> = [Place::Disk, Place::Memory, Place::Mount]
        .into_iter()
        .flat_map(|place| CALLS.map(|call| (place, call)))
        .flat_map(|(place, call)| ["ENOSYS", "EPERM"].map(|error| (place, call, error)))
        .collect();
    let launchers = workspace().folder("launchers-");
    let (kills, mut killed) = (usize::try_from(kills(cases.len() as u64)).unwrap(), 0);
    for kill in 0..kills {
        let (place, call, error) = cases[kill % cases.len()];
        // Each round combines stages and cases differently.
        let stage = STAGES[(kill + kill / cases.len()) % STAGES.len()];
        let what = format!("kill {kill}: {place:?}, {call} fails with {error}, killed at {stage}");
        let home = if place == Place::Memory { memory.path() } else { ferry.home() };
        let output = home.join("work/out");
        let _ = std::fs::remove_dir_all(home.join("work"));
        std::fs::create_dir_all(&output).unwrap();
        for (name, bytes) in &old {
            std::fs::write(output.join(name), bytes).unwrap();
        }
        let launcher = launcher(launchers.path(), Call(call), Errno(error));
        let convert = |fault: Option<String>| {
            let mut command = ferry.command(args!["convert", ferry.at("new.safetensors"), output]);
            command.args(options);
            command.envs(fault.map(|fault| ("FERRY_FAULT", fault)));
            let command = started_by(Command::new(&launcher), &command);
            run(&mut if place == Place::Mount { mounted(&output, &command) } else { command })
        };
        let outcome = convert(Some(format!("{stage}@1")));
        if outcome.code.is_none() {
            killed += 1;
        } else {
            assert_eq!(outcome.code, Some(0), "{what}: {outcome}");
        }
        let found = seen(&output);
        if found.iter().any(|(path, _)| path == Path::new(INDEX)) {
            let holds = |all: &[_]| all.iter().all(|file| found.contains(file));
            assert!(holds(&old) || holds(&new), "{what}: old and new files are mixed");
        }
        let next = convert(None);
        assert_eq!(next.code, Some(0), "{what}: the next run: {next}");
        assert!(seen(&output) == new, "{what}: after the next run");
    }
    println!("killed {killed} of {kills} runs");
    assert!(killed > kills / 4, "killed {killed} of {kills} runs");
}
