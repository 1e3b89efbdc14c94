//! Files of a model folder: they are as hostile as any input.

use serde_json::Value as Json;
use tensorferry_sdk::{Error, Limits, Result, Source};

#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) limits: &'a Limits,
}

impl Folder<'_> {
    /// The bytes of a file; `None` where there is none of this name.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if !self.source.contains(name)? {
            return Ok(None);
        }
        let file = self.source.open(name)?;
        let (len, most) = (self.source.len(file), self.limits.header_bytes);
        if len > most {
            return Err(Error::limit("a file beside the weights is too long")
                .file(name)
                .expected(format!("at most {most} bytes, or --bound header_bytes=N"))
                .found(len));
        }
        self.source.read_vec(file, 0, len, self.limits).map(Some)
    }

    /// The JSON in a file.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Json>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let json = serde_json::from_slice(&bytes);
        json.map(Some).map_err(|error| Error::malformed(format!("no JSON: {error}")).file(name))
    }

    /// The text in a file.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        let text = self.bytes(name)?.map(String::from_utf8).transpose();
        text.map_err(|_| Error::malformed("a text that is not UTF-8").file(name))
    }
}

/// A key of `config.json` that no model can have so.
pub(crate) fn no_model(key: &str) -> Error {
    Error::malformed(format!("{key} says what no model can have")).file("config.json")
}

/// Weights that are not what `config.json` says of them.
pub(crate) fn contradicts(what: &str) -> Error {
    Error::malformed(format!("{what}; -o names=keep carries weights as they are")).file("config.json")
}
