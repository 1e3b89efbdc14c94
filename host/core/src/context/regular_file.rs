//! Opens only regular files. Opening a pipe without a writer would block forever, and reading a
//! device may never end.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file without blocking. Returns an `InvalidInput` error for a pipe, device, socket or
/// folder.
pub fn open(path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    let options =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = options.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => refused(),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn nothing_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let pipe = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::write(at("file"), "x").unwrap();
        assert!(pipe.success() && open(&at("file")).is_ok());
        for path in [at("pipe"), at("socket"), home.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
    }
}
