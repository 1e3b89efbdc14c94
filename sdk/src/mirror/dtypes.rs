//! Dtypes cross as facts. The number that the host gives one is its own: a plugin keeps a list of what the
//! numbers mean, in which a dtype that says the same as a built-in one is that one.

use crate::{Dtype, DtypeInfo, Error, Result};

/// What a host's numbers mean.
#[derive(Default)]
pub(super) struct Dtypes(Vec<Known>);

struct Known {
    number: u32,
    dtype: Dtype,
    info: DtypeInfo,
}

impl Dtypes {
    /// The number of a dtype of these facts.
    pub(super) fn number_of(&self, info: &DtypeInfo) -> Option<(u32, Dtype)> {
        self.0.iter().find(|known| known.info == *info).map(|known| (known.number, known.dtype))
    }

    /// The number of a dtype of this side.
    pub(super) fn number(&self, dtype: Dtype) -> Option<u32> {
        self.0.iter().find(|known| known.dtype == dtype).map(|known| known.number)
    }

    /// The dtype of a number.
    pub(super) fn dtype(&self, number: u32) -> Option<Dtype> {
        self.0.iter().find(|known| known.number == number).map(|known| known.dtype)
    }

    /// The facts of a dtype of this side.
    pub(super) fn info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        let known = self.0.iter().find(|known| known.dtype == dtype).map(|known| &known.info);
        let info = known.or_else(|| dtype.info());
        info.cloned().ok_or_else(|| Error::plugin(format!("no dtype {}", dtype.id())))
    }

    /// Keeps what a number means.
    pub(super) fn keep(&mut self, number: u32, info: DtypeInfo) -> Result<Dtype> {
        let dtype = match Dtype::named(info.name()) {
            Some(built_in) => Some(built_in),
            None => Dtype::extension(self.0.len()),
        };
        let dtype = dtype.ok_or_else(|| Error::limit("too many dtypes"))?;
        self.0.push(Known { number, dtype, info });
        Ok(dtype)
    }
}
