//! The user's allow-list of plugin libraries. If the list exists, ferry loads only the listed
//! libraries and its own.
//!
//! Each line contains the SHA-256 digest of a library, two spaces, and the library's path, which is
//! for information only. `sha256sum` writes the same format.

use super::user_folders;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// Paths of the allowed libraries, keyed by the SHA-256 digest of each file.
pub(crate) type AllowList = BTreeMap<String, String>;

/// Returns the user's list, or `None` if the list does not exist and every library is allowed. If
/// the current user may not read the list's folder, returns an empty list, which allows only
/// ferry's own libraries. This happens, for example, if a service runs in another user's home
/// folder.
pub(crate) fn read() -> Result<Option<AllowList>> {
    user_folders::allow_list().map_or(Ok(None), |path| read_from(&path))
}

fn read_from(path: &Path) -> Result<Option<AllowList>> {
    let failed = |e: std::io::Error| Error::from(e).context("the list of allowed plugins").file(shown(path));
    let metadata = match path.metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Some(AllowList::new())),
        metadata => metadata.map_err(failed)?,
    };
    let is_own = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    if !is_own || metadata.mode() & 0o022 != 0 {
        return Err(Error::io("other users may write to the list of allowed plugins")
            .file(shown(path))
            .hint(format!("run `chmod go-w {}`", shown(path))));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (sum, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let is_sum = sum.len() == 64 && sum.chars().all(|c| c.is_ascii_hexdigit());
        is_sum.then(|| (sum.to_ascii_lowercase(), name.trim().to_owned()))
    };
    let list = lines.map(|line| {
        entry(line).ok_or_else(|| {
            Error::io("a line of the list of allowed plugins is not a SHA-256 digest")
                .file(shown(path))
                .found(line)
        })
    });
    list.collect::<Result<_>>().map(Some)
}

/// Writes the list atomically and returns its path.
pub(crate) fn write(list: &AllowList) -> Result<PathBuf> {
    let path = user_folders::allow_list()
        .ok_or_else(|| Error::io("no folder for the list of allowed plugins: HOME is not set"))?;
    write_to(&path, list)?;
    Ok(path)
}

fn write_to(path: &Path, list: &AllowList) -> Result<()> {
    let failed = |e: std::io::Error| Error::from(e).file(shown(path));
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let text: String = list.iter().map(|(sum, name)| format!("{sum}  {name}\n")).collect();
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error)).map(drop)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_list_is_read_as_it_was_written_and_nothing_else_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/list");
        assert_eq!(read_from(&path).unwrap(), None);
        let list: AllowList = [("ab".repeat(32), "/a path/lib.so".to_owned())].into();
        write_to(&path, &list).unwrap();
        assert_eq!(read_from(&path).unwrap(), Some(list.clone()));
        std::fs::write(&path, format!("# mine\n\n{}\n", "AB".repeat(32))).unwrap();
        assert_eq!(read_from(&path).unwrap().unwrap().into_keys().collect::<Vec<_>>(), ["ab".repeat(32)]);
        for bad in ["abc  lib.so\n", "lib.so\n"] {
            std::fs::write(&path, bad).unwrap();
            assert!(read_from(&path).is_err());
        }
        write_to(&path, &list).unwrap();
        set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(read_from(&path).unwrap_err().to_string().contains("other users may write"));
    }
}
