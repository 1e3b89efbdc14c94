//! A file URL names a file on this machine: `file:///data/my%20model.pt` (RFC 8089).

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Converts a file URL to its path. Any other string remains unchanged, including a file URL that
/// names a different machine.
#[must_use]
pub fn local_path(path: &Path) -> Cow<'_, Path> {
    match path.to_str().and_then(path_of) {
        Some(encoded) => PathBuf::from(OsString::from_vec(percent_decode_str(encoded).collect())).into(),
        None => path.into(),
    }
}

/// Returns the path from a file URL that names this machine, still percent-encoded.
pub(super) fn path_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    (scheme.eq_ignore_ascii_case("file") && rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_url_is_a_path() {
        for (url, expected) in [
            ("file:///a/b%20c%2Bd", "/a/b c+d"),
            ("FILE://localhost/a/", "/a/"),
            ("file://elsewhere/a", "file://elsewhere/a"),
            ("file:a", "file:a"),
            ("/a%20b", "/a%20b"),
            ("s3://a/b%20c", "s3://a/b%20c"),
        ] {
            assert_eq!(local_path(Path::new(url)), Path::new(expected));
        }
    }
}
