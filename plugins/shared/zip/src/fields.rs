//! Reads the little-endian numbers in zip headers.

use tensorferry_sdk::{Error, Result};

/// The part of a header that has not been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| {
            Error::malformed("a zip header is truncated")
                .expected(format!("{len} bytes more"))
                .found(self.0.len())
        })?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Finds the zip64 extra field among the extra fields of a header. The zip64 field contains a
/// number only if the number's header field has all bits set. The numbers are in header order.
///
/// The search stops at the first extra field that cannot be parsed. torch writes its padding as a
/// single long extra field, and other writers leave stray bytes.
pub(crate) fn zip64(extra: &[u8]) -> Option<Fields<'_>> {
    const ZIP64: u16 = 1;
    let mut rest = Fields(extra);
    loop {
        let id = rest.u16().ok()?;
        let len = rest.u16().ok()?;
        let field = rest.take(len.into()).ok()?;
        if id == ZIP64 {
            return Some(Fields(field));
        }
    }
}
