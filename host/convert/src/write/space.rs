//! Checks that the file system has room for an output before the output is written.

use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// Estimates the space that a file system needs in addition to the bytes themselves: partly filled
/// blocks, block maps, folders.
const fn overhead(bytes: u64) -> u64 {
    64 * 1024 + bytes / 1024
}

/// Checks that `bytes` more bytes fit on the file system on which `folder` is or will be created.
///
/// The size of the whole output counts even if the output replaces an existing one, because the old
/// and the new output both exist until the commit.
pub(crate) fn check_space(folder: &Path, bytes: u64) -> Result<()> {
    let place = nearest_existing(folder);
    let stat = rustix::fs::statvfs(&place).map_err(|error| {
        Error::from(std::io::Error::from(error))
            .context("cannot determine the free space")
            .file(display(&place))
    })?;
    // Some network and FUSE file systems do not report sizes. On these file systems, a full disk is
    // detected only by a failing write.
    if stat.f_blocks == 0 {
        return Ok(());
    }
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    compare(bytes, free).map_err(|error| error.file(display(folder)))
}

fn compare(bytes: u64, free: u64) -> Result<()> {
    let needed = bytes.saturating_add(overhead(bytes));
    if needed <= free {
        return Ok(());
    }
    Err(Error::io("not enough space for the output")
        .expected(format!("{needed} bytes free ({})", human(needed)))
        .found(format!("{free} bytes ({})", human(free))))
}

fn nearest_existing(folder: &Path) -> PathBuf {
    folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn what_fits_passes_also_below_folders_that_do_not_exist_yet() {
        let home = tempfile::tempdir().unwrap();
        check_space(home.path(), 0).unwrap();
        check_space(&home.path().join("a/b/c"), 4096).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("out");
        let error = check_space(&folder, u64::MAX / 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = error.to_string();
        assert!(text.contains("not enough space") && text.contains(&folder.display().to_string()), "{text}");

        let error = compare(3 << 30, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("3.0 GiB") && error.contains("found 1073741824 bytes (1.0 GiB)"), "{error}");
        compare(1 << 30, (1 << 30) + overhead(1 << 30)).unwrap();
        assert!(compare(u64::MAX, u64::MAX - 1).is_err());
        assert_eq!(human(12), "12 B");
    }
}
