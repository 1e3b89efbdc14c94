//! Reads the files of a model folder. These files are as untrusted as any other input.

use serde_json::Value as Json;
use tensorferry_sdk::{Error, Limits, Result, Source};

#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) limits: &'a Limits,
}

impl Folder<'_> {
    /// Reads a file. Returns `None` if the file is missing.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if !self.source.contains(name)? {
            return Ok(None);
        }
        let file = self.source.open(name)?;
        let (len, max) = (self.source.len(file), self.limits.header_bytes);
        if len > max {
            return Err(Error::limit("a file next to the weights is too long")
                .file(name)
                .hint("raise the limit with --limit header_bytes=N")
                .expected(format!("at most {max} bytes"))
                .found(len));
        }
        self.source.read_vec(file, 0, len, self.limits).map(Some)
    }

    /// Reads a file as JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Json>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let json = serde_json::from_slice(&bytes);
        json.map(Some).map_err(|error| Error::malformed(format!("invalid JSON: {error}")).file(name))
    }

    /// Reads a file as a string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        let text = self.bytes(name)?.map(String::from_utf8).transpose();
        text.map_err(|_| Error::malformed("the text is not UTF-8").file(name))
    }
}

/// Returns the error for an invalid value of a `config.json` key.
pub(crate) fn impossible_value(key: &str) -> Error {
    Error::malformed(format!("{key} has an impossible value")).file("config.json")
}

/// Returns the error for weights that contradict `config.json`.
pub(crate) fn contradicts(what: &str) -> Error {
    Error::malformed(what).file("config.json").hint("pass -o names=keep to write the weights as they are")
}
