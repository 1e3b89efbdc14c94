//! Calls that differ between Linux and macOS. Both variants have the same functions.

pub(crate) use system::{FOLDER, change_mode, change_owner, each_name, follow, mount, reports_late, stat};

use rustix::fs::{Mode, OFlags, openat};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens the folder at the relative path `way` below `top`, one path component at a time, without
/// following links.
pub(crate) fn walk(top: OwnedFd, way: &Path) -> rustix::io::Result<OwnedFd> {
    way.iter().try_fold(top, |folder, name| openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()))
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{
        AtFlags, CWD, Gid, Mode, OFlags, RawDir, ResolveFlags, StatxFlags, Uid, chownat, open, openat,
        openat2, statx,
    };
    use rustix::io::Errno;
    use std::ffi::OsStr;
    use std::fs::{self, File, Metadata, Permissions};
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// Flags that open a folder for operations on names in it. The folder need not be readable.
    pub(crate) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    /// Returns the metadata of a name in a folder without following a link.
    pub(crate) fn stat(folder: BorrowedFd<'_>, name: &Path) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(folder, name, flags, Mode::empty())?).metadata()
    }

    /// Opens the folder at the relative path `way` below `top` without following links.
    pub(crate) fn follow(top: OwnedFd, way: &Path) -> rustix::io::Result<OwnedFd> {
        match openat2(&top, way, FOLDER, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) {
            // If the kernel is too old for the call, or a sandbox does not allow the call,
            // `walk` replaces it.
            Err(Errno::NOSYS | Errno::PERM) => super::walk(top, way),
            found => found,
        }
    }

    /// Calls `tell` with every name in a folder, in any order. Unlike `fs::read_dir`, it does not
    /// allocate memory for each name, because the folder may contain a hundred thousand other files.
    pub(crate) fn each_name(folder: &Path, mut tell: impl FnMut(&OsStr)) -> io::Result<()> {
        const BUFFER: usize = 32 << 10;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder, flags, Mode::empty())?;
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                tell(name);
            }
        }
        Ok(())
    }

    pub(crate) fn change_owner(folder: &OwnedFd, owner: Uid, group: Gid) -> io::Result<()> {
        Ok(chownat(folder, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)?)
    }

    /// Changes the mode of an open folder that is not readable. The path makes the kernel use the
    /// open folder, even if the folder's original path now leads to a different folder.
    pub(crate) fn change_mode(folder: &OwnedFd, mode: Permissions) -> io::Result<()> {
        fs::set_permissions(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)
    }

    /// Returns whether write errors may first appear when the file is flushed.
    pub(crate) fn reports_late(folder: &Path) -> bool {
        const NFS: u32 = 0x6969;
        const CIFS: u32 = 0xff53_4d42;
        const SMB2: u32 = 0xfe53_4d42;
        const FUSE: u32 = 0x6573_5546;
        let magic =
            rustix::fs::statfs(folder).ok().and_then(|stat| u32::try_from(stat.f_type & 0xffff_ffff).ok());
        magic.is_some_and(|magic| [NFS, CIFS, SMB2, FUSE].contains(&magic))
    }

    /// Returns the mount ID of a path, or `None` if the kernel does not report it. A bind mount of the
    /// same device has its own ID.
    pub(crate) fn mount(path: &Path) -> Option<u64> {
        let number = match statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID) {
            Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Some(found.stx_mnt_id),
            _ => mount_of_open(path),
        };
        // Sandboxes without mount IDs report 0 for every path.
        number.filter(|&number| number != 0)
    }

    /// Returns the mount ID as [`mount`] does, for kernels whose `statx` does not report it (before
    /// Linux 5.8).
    pub(super) fn mount_of_open(path: &Path) -> Option<u64> {
        let open = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", open.as_raw_fd())).ok()?;
        info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
    }
}

#[cfg(target_os = "macos")]
mod system {
    use rustix::fs::{CWD, Gid, OFlags, Uid, fchown, getpath, statfs};
    use std::ffi::{OsStr, OsString};
    use std::fs::{self, File, Metadata, Permissions};
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// Flags that open a folder for operations on names in it. The folder must be readable.
    pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    /// Returns the metadata of a name in a folder without following a link.
    pub(crate) fn stat(folder: BorrowedFd<'_>, name: &Path) -> io::Result<Metadata> {
        if folder.as_raw_fd() == CWD.as_raw_fd() {
            return fs::symlink_metadata(name);
        }
        let path = PathBuf::from(OsString::from_vec(getpath(folder)?.into_bytes()));
        fs::symlink_metadata(path.join(name))
    }

    /// Opens the folder at the relative path `way` below `top` without following links.
    pub(crate) fn follow(top: OwnedFd, way: &Path) -> rustix::io::Result<OwnedFd> {
        super::walk(top, way)
    }

    /// Calls `tell` with every name in a folder, in any order.
    pub(crate) fn each_name(folder: &Path, mut tell: impl FnMut(&OsStr)) -> io::Result<()> {
        fs::read_dir(folder)?.try_for_each(|entry| {
            tell(&entry?.file_name());
            Ok(())
        })
    }

    pub(crate) fn change_owner(folder: &OwnedFd, owner: Uid, group: Gid) -> io::Result<()> {
        Ok(fchown(folder, Some(owner), Some(group))?)
    }

    /// Changes the mode of an open folder.
    pub(crate) fn change_mode(folder: &OwnedFd, mode: Permissions) -> io::Result<()> {
        File::from(folder.try_clone()?).set_permissions(mode)
    }

    /// Returns whether write errors may first appear when the file is flushed.
    pub(crate) fn reports_late(folder: &Path) -> bool {
        let name = |stat: rustix::fs::StatFs| stat.f_fstypename.map(|byte| byte.cast_unsigned());
        let remote = ["nfs", "smbfs", "afpfs", "webdav", "macfuse"];
        statfs(folder).is_ok_and(|stat| {
            let name = name(stat);
            remote.iter().any(|kind| name.starts_with(kind.as_bytes()))
        })
    }

    /// Returns the device of a path. macOS has no bind mounts.
    pub(crate) fn mount(path: &Path) -> Option<u64> {
        fs::metadata(path).ok().map(|metadata| metadata.dev())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::system::{mount, mount_of_open};
    use std::path::Path;

    #[test]
    fn both_calls_report_the_same_mount() {
        for path in [&*std::env::temp_dir(), Path::new("/proc"), Path::new("/")] {
            assert!(mount(path).is_some());
            assert_eq!(mount_of_open(path), mount(path));
        }
    }
}
