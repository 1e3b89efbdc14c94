//! The bytes of a file once they are decompressed, seen through a window that moves forward.

mod gzip_header;
mod inflated;
mod input;
mod plain;
mod sequential;
mod unsnapped;

pub(crate) use inflated::Inflated;
pub(crate) use input::Input;
pub(crate) use plain::Plain;
pub(crate) use sequential::{Decoder, Sequential};
pub(crate) use unsnapped::Unsnapped;

use tensorferry_sdk::Result;

/// What is read at once: a window stays in the L2 cache while it is looked at.
pub(crate) const WINDOW: usize = 256 << 10;

/// Bytes by offset, going forward.
pub(crate) trait Window {
    /// The bytes from `offset` on: at least `least` of them, or all that there are up to the end.
    ///
    /// # Errors
    /// Whatever reading or decompressing gives, once what can be read has been given.
    fn at(&mut self, offset: u64, least: usize) -> Result<&[u8]>;

    /// How many bytes there are, where that is known before they are read.
    fn len(&self) -> Option<u64>;
}

impl<W: Window + ?Sized> Window for Box<W> {
    fn at(&mut self, offset: u64, least: usize) -> Result<&[u8]> {
        (**self).at(offset, least)
    }

    fn len(&self) -> Option<u64> {
        (**self).len()
    }
}
