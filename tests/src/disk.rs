//! Disks that are full or read-only, made for one command.
//!
//! They are mounted in a mount namespace of its own, and leave nothing behind.

use crate::ferry::{Outcome, after, run};
use std::path::Path;
use std::process::Command;

/// Says that a test is left out, if `FERRY_TEST_WITHOUT_MOUNTS` is set: for who may not mount a file
/// system. Nothing else leaves such a test out.
pub fn is_left_out() -> bool {
    let is_left_out = std::env::var_os("FERRY_TEST_WITHOUT_MOUNTS").is_some();
    if is_left_out {
        eprintln!("left out, as FERRY_TEST_WITHOUT_MOUNTS asks for");
    }
    is_left_out
}

/// Runs `command` with a tmpfs at `folder`, mounted with `options`; lists what it left there after
/// it.
pub fn on_tmpfs(folder: &Path, options: &str, command: &Command) -> (Outcome, Vec<String>) {
    const MARK: &str = "left in the folder:";
    let script = format!(
        "folder=$1; options=$2; shift 2; mount -t tmpfs -o \"$options\" tmpfs \"$folder\" || exit 99; \
         \"$@\"; code=$?; echo '{MARK}'; ls -A \"$folder\"; exit $code"
    );
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    wrapped.arg(folder).arg(options).arg(command.get_program()).args(command.get_args());
    let mut outcome = run(&mut wrapped);
    let Some((stdout, left)) = outcome.stdout.split_once(MARK) else {
        panic!("no tmpfs can be mounted here (FERRY_TEST_WITHOUT_MOUNTS=1 leaves such tests out): {outcome}");
    };
    let left = left.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    outcome.stdout = stdout.to_owned();
    (outcome, left)
}

/// The command, with no file that it writes allowed to grow past `bytes`. The signal that comes
/// with it is ignored, as a shell may do, so that the write fails like on a full disk.
#[must_use]
pub fn with_file_limit(bytes: u64, command: &Command) -> Command {
    // POSIX: the unit of `ulimit -f` is 512 bytes.
    after(&format!("trap '' XFSZ; ulimit -f {}", bytes.div_ceil(512)), command)
}
