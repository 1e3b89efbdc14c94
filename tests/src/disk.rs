//! Disks that are full or read-only, made for one command.
//!
//! A tmpfs in a mount namespace of its own leaves nothing behind; where none can be mounted, the
//! caller is told to take the next best thing.

use crate::ferry::Outcome;
use std::path::Path;
use std::process::Command;

/// Runs `command` with a tmpfs at `folder`, mounted with `options`; lists what it left there after
/// it. `None` where nothing can be mounted.
///
/// # Panics
/// If `unshare` worked for a trial, and then did not.
#[must_use]
pub fn on_tmpfs(folder: &Path, options: &str, command: &Command) -> Option<(Outcome, Vec<String>)> {
    let probe = mounted(folder, options, "true", &Command::new("true"));
    if !probe.is_ok_and(|outcome| outcome.code == Some(0)) {
        return None;
    }
    const MARK: &str = "left in the folder:";
    let script = format!("\"$@\"; code=$?; echo '{MARK}'; ls -A \"$folder\"; exit $code");
    let mut outcome = mounted(folder, options, &script, command).expect("it worked for the trial");
    let (stdout, left) = outcome.stdout.split_once(MARK).expect("the script prints it");
    let left = left.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    outcome.stdout = stdout.to_owned();
    Some((outcome, left))
}

fn mounted(folder: &Path, options: &str, script: &str, command: &Command) -> std::io::Result<Outcome> {
    let setup =
        "folder=$1; options=$2; shift 2; mount -t tmpfs -o \"$options\" tmpfs \"$folder\" || exit 99; ";
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--map-root-user", "--mount", "sh", "-c", &format!("{setup}{script}"), "sh"]);
    wrapped.arg(folder).arg(options).arg(command.get_program()).args(command.get_args());
    let output = wrapped.output()?;
    Ok(Outcome::new(format!("{wrapped:?}"), &output))
}

/// The command, with no file that it writes allowed to grow past `bytes`. The signal that comes
/// with it is ignored, as a shell may do, so that the write fails like on a full disk.
#[must_use]
pub fn with_file_limit(bytes: u64, command: &Command) -> Command {
    let mut wrapped = Command::new("sh");
    // POSIX: the unit of `ulimit -f` is 512 bytes.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", bytes.div_ceil(512));
    wrapped.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    wrapped
}
