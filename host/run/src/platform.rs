//! Calls that differ between Linux and macOS. Both variants have the same functions.

pub use system::available_memory;
pub(crate) use system::{boot_id, is_alive, limit_memory, offer_to_kill, sync_files};

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::fs::{self, File};
    use std::path::Path;

    /// Returns the machine's free memory, or a smaller value if this process's control groups have a
    /// lower limit.
    #[must_use]
    pub fn available_memory() -> Option<u64> {
        let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let machine = line.split_whitespace().next()?.parse::<u64>().ok()? << 10;
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Some(group_limit(&groups, Path::new("/sys/fs/cgroup")).map_or(machine, |group| group.min(machine)))
    }

    /// Returns the lowest memory limit of all control groups that contain a process. Schedulers nest
    /// these groups. `groups` is the content of `/proc/PID/cgroup`, with one line
    /// `NUMBER:CONTROLLERS:/PATH` per hierarchy. The line for version 2 starts with `0::`.
    fn group_limit(groups: &str, root: &Path) -> Option<u64> {
        let path_of = |is_it: fn(&str) -> bool| {
            groups.lines().find_map(|line| line.split_once(":/").filter(|(hierarchy, _)| is_it(hierarchy)))
        };
        let v2 = path_of(|hierarchy| hierarchy == "0:");
        let v1 = path_of(|hierarchy| hierarchy.split([':', ',']).skip(1).any(|name| name == "memory"));
        let least = |root: &Path, found: Option<(&str, &str)>, file: &str| {
            let own = root.join(found.map_or("", |(_, path)| path));
            let groups = own.ancestors().take_while(|group| group.starts_with(root));
            groups.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
        };
        // Version 1 represents a missing limit as a number close to 2^63.
        let limits: [Option<u64>; 2] =
            [least(root, v2, "memory.max"), least(&root.join("memory"), v1, "memory.limit_in_bytes")];
        limits.into_iter().flatten().filter(|&limit| limit < 1 << 62).min()
    }

    /// Limits how much memory the process may allocate in addition to its current memory. If the
    /// limit cannot be set, the job runs without a limit.
    pub(crate) fn limit_memory(bytes: u64) {
        let limits = getrlimit(Resource::Data);
        let current = Some(allocated().saturating_add(bytes));
        let _ = setrlimit(Resource::Data, Rlimit { current, maximum: limits.maximum });
    }

    /// Returns the memory that counts against the limit: private writable memory, as reported in
    /// `/proc/self/status`.
    fn allocated() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
        let kib =
            line.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Makes the kernel kill this process first if the system runs out of memory.
    pub(crate) fn offer_to_kill() {
        let _ = fs::write("/proc/self/oom_score_adj", "500");
    }

    /// Returns whether a process exists and has not ended.
    pub(crate) fn is_alive(process: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The format is `PID (NAME) STATE ...`. Zombies do not count as alive.
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    }

    /// Returns a random text that identifies this start of the machine.
    pub(crate) fn boot_id() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// Flushes all files in a folder to disk.
    pub(crate) fn sync_files(folder: &Path) -> std::io::Result<()> {
        File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(&folder)?))
    }

    #[cfg(test)]
    mod tests {
        #![expect(clippy::unwrap_used, reason = "tests")]
        use super::*;

        #[test]
        fn the_least_limit_of_nested_groups_holds() {
            let root = tempfile::tempdir().unwrap();
            let group = root.path().join("system.slice/job_7/step_0");
            fs::create_dir_all(&group).unwrap();
            let limit = |groups: &str| group_limit(groups, root.path());
            let own = "1:name=systemd:/x\n0::/system.slice/job_7/step_0\n";
            assert_eq!(limit(own), None);
            fs::write(group.join("memory.max"), "max\n").unwrap();
            fs::write(group.parent().unwrap().join("memory.max"), "4096\n").unwrap();
            fs::write(root.path().join("memory.max"), "8192\n").unwrap();
            assert_eq!(
                (limit(own), limit("0::/\n"), limit("0::/elsewhere/a")),
                (Some(4096), Some(8192), Some(8192))
            );
            // Control groups of version 1, with and without a mounted version 2.
            let group = root.path().join("memory/slurm/job_7");
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
            let old = "5:cpuset:/slurm\n4:cpu,memory:/slurm/job_7\n";
            fs::remove_file(root.path().join("memory.max")).unwrap();
            assert_eq!(limit(old), None);
            fs::write(group.parent().unwrap().join("memory.limit_in_bytes"), "2048\n").unwrap();
            assert_eq!((limit(old), limit(&format!("{old}{own}"))), (Some(2048), Some(2048)));
        }
    }
}

#[cfg(target_os = "macos")]
mod system {
    use rustix::process::{Pid, test_kill_process};
    use std::path::Path;

    /// Returns `None`: the free memory is unknown.
    #[must_use]
    pub fn available_memory() -> Option<u64> {
        None
    }

    /// Does nothing: the kernel does not enforce such limits.
    pub(crate) fn limit_memory(_: u64) {}

    /// Does nothing: macOS has no such setting.
    pub(crate) fn offer_to_kill() {}

    /// Returns whether a process exists.
    pub(crate) fn is_alive(process: u32) -> bool {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        process.is_some_and(|process| test_kill_process(process) != Err(rustix::io::Errno::SRCH))
    }

    /// Returns an empty text: the start of the machine has no identifier.
    pub(crate) fn boot_id() -> String {
        String::new()
    }

    /// Flushes all files of the machine to disk, because folders cannot be flushed as a whole.
    #[expect(clippy::unnecessary_wraps, reason = "on Linux the call may fail")]
    pub(crate) fn sync_files(_: &Path) -> std::io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }
}
