//! Dtypes cross the boundary by their properties. The host chooses a number for each dtype, and the
//! plugin keeps a list of these numbers. If a declared dtype has the properties of a built-in
//! dtype, it becomes that built-in dtype.

use crate::{Dtype, DtypeInfo, Error, Result};

/// The dtypes to which a host assigned numbers.
#[derive(Default)]
pub(super) struct Dtypes(Vec<DtypeEntry>);

struct DtypeEntry {
    number: u32,
    dtype: Dtype,
    info: DtypeInfo,
}

impl Dtypes {
    /// Returns the dtype with these properties, and its number.
    pub(super) fn number_of(&self, info: &DtypeInfo) -> Option<(u32, Dtype)> {
        self.0.iter().find(|known| known.info == *info).map(|known| (known.number, known.dtype))
    }

    /// Returns the number that the host assigned to a dtype.
    pub(super) fn number(&self, dtype: Dtype) -> Option<u32> {
        self.0.iter().find(|known| known.dtype == dtype).map(|known| known.number)
    }

    /// Returns the dtype to which the host assigned this number.
    pub(super) fn dtype(&self, number: u32) -> Option<Dtype> {
        self.0.iter().find(|known| known.number == number).map(|known| known.dtype)
    }

    /// Returns the properties of a dtype.
    pub(super) fn info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        let known = self.0.iter().find(|known| known.dtype == dtype).map(|known| &known.info);
        let info = known.or_else(|| dtype.info());
        info.cloned().ok_or_else(|| Error::plugin(format!("no dtype {}", dtype.id())))
    }

    /// Adds the host's number for a dtype.
    pub(super) fn insert(&mut self, number: u32, info: DtypeInfo) -> Result<Dtype> {
        let dtype = match Dtype::named(info.name()) {
            Some(built_in) => Some(built_in),
            None => Dtype::extension(self.0.len()),
        };
        let dtype = dtype.ok_or_else(|| Error::limit("too many dtypes"))?;
        self.0.push(DtypeEntry { number, dtype, info });
        Ok(dtype)
    }
}
