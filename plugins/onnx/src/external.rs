//! A location says where elements lie outside of the model: a file below the model's folder, an offset, a
//! length. Names that leave the folder are refused; so does the host refuse links that do, except in the Hub's cache,
//! which is made of them.

use tensorferry_sdk::{Error, FileId, Result, Source, check_name, check_range};

/// Where the elements of a tensor lie in another file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// The file, relative to the model's folder.
    pub(crate) file: Option<String>,
    offset: u64,
    /// Absent: to the file's end.
    length: Option<u64>,
}

impl Location {
    /// Sets what an entry of `external_data` says; of an entry that is given twice, the last counts. What it
    /// says besides (a checksum, which no reader looks at) changes nothing.
    pub(crate) fn set(&mut self, key: &str, value: String) -> Result<()> {
        let number = |value: &str| {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            value.parse::<u64>().ok().filter(|_| digits).ok_or_else(|| {
                Error::malformed(format!("the {key} of elements in another file is no number"))
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

    /// The file and the first byte of `len` bytes of elements, for a model of this name.
    pub(crate) fn find(&self, source: &dyn Source, model: &str, len: u64) -> Result<(FileId, u64)> {
        let location = self.file.as_deref().unwrap_or_default();
        let name = location.strip_prefix("./").unwrap_or(location);
        check_name(name).map_err(|error| error.context("elements in another file"))?;
        let path = match model.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        let file = source.open(&path).map_err(|error| error.context("elements in another file"))?;
        let there = self.length.unwrap_or(source.len(file).saturating_sub(self.offset));
        check_range(&path, source.len(file), self.offset, there)?;
        if there != len {
            return Err(Error::malformed(
                "elements in another file have not the length that dtype and shape say",
            )
            .file(path)
            .offset(self.offset)
            .expected(format!("{len} bytes"))
            .found(format!("{there} bytes")));
        }
        Ok((file, self.offset))
    }
}
