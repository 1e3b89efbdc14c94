//! Opening a library runs its code. Therefore, only the user and root may have permission to write
//! to the library or to replace it. This rule applies to the file, to every link that leads to the
//! file, and to every folder above the file or a link.
//!
//! A folder that others may write to is safe if it is sticky and does not directly contain the
//! library. The folder next to `ferry` is safe, because the program trusts that folder like itself.
//! A file below that folder is safe if every user who may write to the file may also write to the
//! folder.
//!
//! Plugins come only from named folders, not from a search path like `LD_LIBRARY_PATH`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links to follow for one file, as in Linux.
const MAX_LINKS: u32 = 40;
/// The mode bits that allow the group and other users to write.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder with this bit, only the owner of an entry or of the folder may remove or rename the
/// entry.
const STICKY: u32 = 0o1000;

/// The users and folders that are trusted.
#[derive(Debug)]
pub(super) struct Trust {
    user: u32,
    /// Folders that the program trusts like itself, with links resolved.
    folders: Vec<PathBuf>,
}

impl Trust {
    /// Returns rules that trust root, the user of this process, and these folders regardless of who
    /// may write to them.
    pub(super) fn new<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let folders = folders.into_iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        Self { user: rustix::process::geteuid().as_raw(), folders }
    }

    /// Checks that a plugin file or folder may be used. The error message is a single line.
    pub(super) fn check(&self, path: &Path) -> Result<(), String> {
        let mut links = 0;
        let mut path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
        while let Some(next) = self.check_to_link(&path)? {
            path = next;
            links += 1;
            if links > MAX_LINKS {
                return Err(format!("{}: too many links", path.display()));
            }
        }
        Ok(())
    }

    /// Checks a path up to its first link, and returns the path that the link leads to.
    fn check_to_link(&self, path: &Path) -> Result<Option<PathBuf>, String> {
        let mut at = PathBuf::from("/");
        let mut fault = None;
        // The trusted folder above `at`, and whether others may add entries to `at`.
        let (mut trusted, mut is_shared) = (None, false);
        let mut components = path.components();
        while let Some(component) = components.next() {
            if component == Component::RootDir {
                continue;
            }
            if component == Component::ParentDir {
                // No component so far is a link, so `..` is the parent folder, whose own path is
                // checked again.
                at.pop();
                return Ok(Some(at.join(components.as_path())));
            }
            at.push(component);
            let metadata = at.symlink_metadata().map_err(|e| format!("{}: {e}", at.display()))?;
            let trust = trusted.as_ref();
            if metadata.is_symlink() {
                let fault = fault.or_else(|| self.owner_fault(&at, &metadata, trust));
                let target = at.read_link().map_err(|e| format!("{}: {e}", at.display()))?;
                at.pop();
                let next = at.join(target).join(components.as_path());
                return fault.map_or(Ok(Some(next)), Err);
            }
            if !metadata.is_dir() {
                let own = || self.fault(&at, &metadata, trust);
                let beside = || is_shared.then(|| write_fault(at.parent().unwrap_or(&at)));
                return fault.or_else(own).or_else(beside).map_or(Ok(None), Err);
            }
            if self.folders.contains(&at) {
                // A user who can write to a folder above this one could also replace the program.
                (fault, is_shared) = (None, false);
                trusted = Some(metadata);
                continue;
            }
            // In a sticky folder, others may add entries, but not replace existing ones.
            is_shared = metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY != 0;
            fault = fault.or_else(|| {
                if is_shared {
                    self.owner_fault(&at, &metadata, trust)
                } else {
                    self.fault(&at, &metadata, trust)
                }
            });
        }
        // The path is a folder, and other users must not be able to write to the folder.
        fault.or_else(|| is_shared.then(|| write_fault(&at))).map_or(Ok(None), Err)
    }

    /// Returns why this file or folder is not safe. `trusted` is a trusted folder above the file or
    /// folder.
    fn fault(&self, path: &Path, metadata: &Metadata, trusted: Option<&Metadata>) -> Option<String> {
        let mut writers = metadata.mode() & OTHERS_WRITE;
        // Users who may write to the trusted folder may also write to this entry.
        if let Some(trusted) = trusted.filter(|trusted| trusted.mode() & STICKY == 0) {
            match trusted.mode() & OTHERS_WRITE {
                all if all & 0o002 != 0 => writers = 0,
                group if trusted.gid() == metadata.gid() => writers &= !group,
                _ => {}
            }
        }
        let owner = self.owner_fault(path, metadata, trusted);
        owner.or_else(|| (writers != 0).then(|| write_fault(path)))
    }

    fn owner_fault(&self, path: &Path, metadata: &Metadata, trusted: Option<&Metadata>) -> Option<String> {
        let owner = metadata.uid();
        let is_known =
            owner == 0 || owner == self.user || trusted.is_some_and(|trusted| trusted.uid() == owner);
        (!is_known).then(|| {
            format!("{} belongs to another user ({owner}): make your own copy of the plugin", path.display())
        })
    }
}

fn write_fault(path: &Path) -> String {
    format!("other users may write to {path}: chmod go-w {path}", path = path.display())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// Returns a folder with `inner/plugin.so`, writable only by the user.
    fn tree() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        create_dir(&inner).unwrap();
        chmod(&inner, 0o755);
        let file = inner.join("plugin.so");
        write(&file, "").unwrap();
        chmod(&file, 0o644);
        (folder, file)
    }

    fn chmod(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn check(path: &Path) -> Result<(), String> {
        Trust::new([]).check(path)
    }

    #[test]
    fn the_file_and_every_folder_above_it_count() {
        let (folder, file) = tree();
        let inner = file.parent().unwrap();
        assert_eq!(check(&file), Ok(()));
        assert_eq!(check(inner), Ok(()));
        for (path, safe) in [(file.as_path(), 0o644), (inner, 0o755), (folder.path(), 0o700)] {
            for mode in [0o775, 0o757] {
                chmod(path, mode);
                let fault = check(&file).unwrap_err();
                assert!(fault.contains(&format!("chmod go-w {}", path.display())), "{fault}");
                assert_eq!(fault.lines().count(), 1);
            }
            chmod(path, safe);
        }
        assert_eq!(check(&file), Ok(()));
    }

    #[test]
    fn a_sticky_folder_is_safe_above_a_folder_and_not_above_a_library() {
        let (folder, file) = tree();
        chmod(folder.path(), 0o1777);
        assert_eq!(check(&file), Ok(()));
        let inner = file.parent().unwrap();
        chmod(inner, 0o1777);
        assert!(check(&file).unwrap_err().contains("inner"));
        assert!(check(inner).unwrap_err().contains("inner"));
    }

    #[test]
    fn links_are_followed_and_their_targets_looked_at() {
        let (folder, file) = tree();
        let links = folder.path().join("links");
        create_dir(&links).unwrap();
        chmod(&links, 0o755);
        for (name, target) in [
            ("absolute", file.as_path()),
            ("relative", Path::new("../inner/./plugin.so")),
            ("loop", Path::new("loop")),
        ] {
            symlink(target, links.join(name)).unwrap();
        }
        symlink("inner", folder.path().join("folder")).unwrap();
        let through = folder.path().join("folder/plugin.so");
        for path in [&links.join("absolute"), &links.join("relative"), &through] {
            assert_eq!(check(path), Ok(()));
        }
        assert!(check(&links.join("loop")).unwrap_err().contains("links"));
        // The folder of the link is safe, but the folder of the target is not.
        chmod(file.parent().unwrap(), 0o777);
        for path in [&links.join("absolute"), &links.join("relative"), &through] {
            assert!(check(path).unwrap_err().contains("inner"), "{}", path.display());
        }
        // The folder of the target is safe, but the folder of the link is not.
        chmod(file.parent().unwrap(), 0o755);
        chmod(&links, 0o777);
        assert!(check(&links.join("absolute")).unwrap_err().contains("links"));
        assert!(check(&folder.path().join("no/such")).is_err());
    }

    #[test]
    fn who_may_write_to_a_trusted_folder_may_write_in_it_and_nobody_else() {
        let (folder, file) = tree();
        let inner = file.parent().unwrap();
        let below = inner.join("below");
        create_dir(&below).unwrap();
        write(below.join("b.so"), "").unwrap();
        let trust = Trust::new([inner]);
        let ok = |trusted: u32, file_mode: u32, below_mode: u32| {
            for (path, mode) in
                [(folder.path(), 0o777), (inner, trusted), (&*file, file_mode), (&*below, below_mode)]
            {
                chmod(path, mode);
            }
            assert_eq!(trust.check(inner), Ok(()));
            (trust.check(&file).is_ok(), trust.check(&below.join("b.so")).is_ok())
        };
        assert_eq!(ok(0o755, 0o644, 0o755), (true, true));
        assert_eq!(ok(0o775, 0o664, 0o775), (true, true));
        assert_eq!(ok(0o777, 0o666, 0o777), (true, true));
        assert_eq!(ok(0o755, 0o664, 0o775), (false, false));
        assert_eq!(ok(0o775, 0o666, 0o777), (false, false));
        // In a sticky folder, others can add files but not change existing ones.
        assert_eq!(ok(0o1777, 0o644, 0o755), (true, true));
        assert_eq!(ok(0o1777, 0o666, 0o777), (false, false));
        // If a file in the folder is a link, its target is checked separately.
        chmod(inner, 0o777);
        symlink("plugin.so", inner.join("same.so")).unwrap();
        assert_eq!(trust.check(&inner.join("same.so")), Ok(()));
        let elsewhere = folder.path().join("elsewhere.so");
        write(&elsewhere, "").unwrap();
        symlink(&elsewhere, inner.join("link.so")).unwrap();
        assert!(trust.check(&inner.join("link.so")).is_err());
    }

    #[test]
    fn the_owner_of_a_trusted_folder_is_trusted_in_it() {
        let (_folder, file) = tree();
        let inner = file.parent().unwrap();
        let user = u32::MAX;
        let folders = vec![inner.canonicalize().unwrap()];
        assert_eq!(Trust { user, folders }.check(&file), Ok(()));
    }

    #[test]
    fn another_user_is_not_trusted() {
        let (_folder, file) = tree();
        let trust = Trust { user: u32::MAX, folders: Vec::new() };
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(trust.check(&file).is_ok(), is_root);
        assert_eq!(trust.check(Path::new("/")), Ok(()));
    }
}
