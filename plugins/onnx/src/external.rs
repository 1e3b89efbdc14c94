//! Finds elements that are stored outside of the model, at an offset in a file below the model's
//! folder. Names that refer to files outside of this folder are rejected. The host also rejects
//! links to files outside of this folder, except in the Hub's cache, which consists of links.

use tensorferry_sdk::{Error, FileId, Result, Source, check_name, check_range};

/// The location of a tensor's elements in a separate file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// Path of the file, relative to the model's folder.
    pub(crate) file: Option<String>,
    offset: u64,
    /// Length in bytes, or `None` if the elements extend to the end of the file.
    length: Option<u64>,
}

impl Location {
    /// Applies an entry of `external_data`. If a key is repeated, the last value is used. Other
    /// keys, such as a checksum, are ignored.
    pub(crate) fn set(&mut self, key: &str, value: String) -> Result<()> {
        let number = |value: &str| {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            value.parse::<u64>().ok().filter(|_| digits).ok_or_else(|| {
                Error::malformed(format!("the {key} of external data is not a number"))
                    .expected("decimal digits")
                    .found(format!("{value:?}"))
            })
        };
        match key {
            "location" => self.file = Some(value),
            "offset" => self.offset = number(&value)?,
            "length" => self.length = Some(number(&value)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the file and offset of the elements. The elements must be `len` bytes long. `model`
    /// is the path of the model.
    pub(crate) fn find(&self, source: &dyn Source, model: &str, len: u64) -> Result<(FileId, u64)> {
        let location = self.file.as_deref().unwrap_or_default();
        let name = location.strip_prefix("./").unwrap_or(location);
        check_name(name).map_err(|error| error.context("external data"))?;
        let path = match model.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        let file = source.open(&path).map_err(|error| error.context("external data"))?;
        let there = self.length.unwrap_or(source.len(file).saturating_sub(self.offset));
        check_range(&path, source.len(file), self.offset, there)?;
        if there != len {
            return Err(Error::malformed("the length of external data does not match the dtype and shape")
                .file(path)
                .offset(self.offset)
                .expected(format!("{len} bytes"))
                .found(format!("{there} bytes")));
        }
        Ok((file, self.offset))
    }
}
