//! Calls that differ between Linux and macOS. Both variants have the same functions.

pub use system::end_with_parent;
pub(crate) use system::{real_path, real_path_of, will_need};

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{Advice, Mode, OFlags};
    use rustix::process::{Signal, set_parent_process_death_signal};
    use std::fs::File;
    use std::num::NonZeroU64;
    use std::os::fd::{AsFd, AsRawFd};
    use std::path::{Path, PathBuf};

    /// Ends this process when its parent ends.
    pub fn end_with_parent() -> std::io::Result<()> {
        Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
    }

    /// Resolves all links in a path. Returns `None` if nothing exists there.
    pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        real_path_of(&opened, path)
    }

    /// Returns the real path of an open file that was opened at `path`.
    pub(crate) fn real_path_of(opened: &impl AsFd, path: &Path) -> Option<PathBuf> {
        let link = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
        let real = std::fs::read_link(link).ok().filter(|real| real.is_absolute());
        real.or_else(|| std::fs::canonicalize(path).ok())
    }

    /// Asks the system to read bytes ahead of time. The call is only a hint. File systems that do
    /// not support it read the bytes as usual.
    pub(crate) fn will_need(file: &File, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }
}

#[cfg(target_os = "macos")]
mod system {
    use rustix::process::getppid;
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    /// Interval at which a thread checks whether the parent still exists.
    const TICK: Duration = Duration::from_millis(200);

    /// Ends this process when its parent ends.
    pub fn end_with_parent() -> std::io::Result<()> {
        let parent = getppid();
        let watch = move || {
            while getppid() == parent {
                std::thread::sleep(TICK);
            }
            std::process::abort();
        };
        std::thread::Builder::new().name("parent".to_owned()).spawn(watch).map(drop)
    }

    /// Resolves all links in a path. Returns `None` if nothing exists there.
    pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok()
    }

    /// Returns the real path of an open file that was opened at `path`.
    pub(crate) fn real_path_of(opened: &impl AsFd, path: &Path) -> Option<PathBuf> {
        let real = rustix::fs::getpath(opened).ok();
        let real = real.map(|real| PathBuf::from(OsString::from_vec(real.into_bytes())));
        real.or_else(|| real_path(path))
    }

    /// Asks the system to read bytes ahead of time. The call is only a hint.
    pub(crate) fn will_need(file: &File, offset: u64, len: u64) {
        let _ = rustix::fs::fcntl_rdadvise(file, offset, len);
    }
}
