//! Runs one command with a disk that is full or read-only.
//!
//! Each disk is mounted in its own mount namespace, so that nothing remains mounted after the
//! command.

use crate::ferry::{Outcome, after, run};
use std::path::Path;
use std::process::Command;

/// Returns whether to skip a test because `FERRY_TEST_WITHOUT_MOUNTS` is set. The variable is for
/// users who are not allowed to mount file systems.
pub fn is_left_out() -> bool {
    let is_left_out = std::env::var_os("FERRY_TEST_WITHOUT_MOUNTS").is_some();
    if is_left_out {
        eprintln!("skipped, because FERRY_TEST_WITHOUT_MOUNTS is set");
    }
    is_left_out
}

/// Mounts a tmpfs at `folder` with the mount options `options`, and runs `command`. Also returns
/// the names of the files that remain in the tmpfs.
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
        panic!("cannot mount a tmpfs (set FERRY_TEST_WITHOUT_MOUNTS=1 to skip such tests): {outcome}");
    };
    let left = left.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    outcome.stdout = stdout.to_owned();
    (outcome, left)
}

/// Returns the command with a limit on the size of each file that it writes. The command ignores
/// the signal for exceeding the limit, so that a write fails in the same way as on a full disk.
#[must_use]
pub fn with_file_limit(bytes: u64, command: &Command) -> Command {
    // POSIX: the unit of `ulimit -f` is 512 bytes.
    after(&format!("trap '' XFSZ; ulimit -f {}", bytes.div_ceil(512)), command)
}
