//! Reads the decompressed bytes of a file in order, through a window that moves forward.

mod decoded_window;
mod deflate;
mod gzip_header;
mod input;
mod plain_window;
mod snappy;

pub(crate) use decoded_window::{DecodedWindow, Decoder};
pub(crate) use deflate::DeflateDecoder;
pub(crate) use input::Input;
pub(crate) use plain_window::PlainWindow;
pub(crate) use snappy::SnappyDecoder;

use tensorferry_sdk::Result;

/// Number of bytes to read at a time. A window of this size remains in the L2 cache while it is
/// processed.
pub(crate) const WINDOW: usize = 256 << 10;

/// Provides access to bytes at ascending offsets.
pub(crate) trait Window {
    /// Returns the bytes that start at `offset`: at least `min` bytes, or all bytes up to the end.
    fn at(&mut self, offset: u64, min: usize) -> Result<&[u8]>;

    /// Returns the total number of bytes, if it is known without reading all of them.
    fn len(&self) -> Option<u64>;
}

impl<W: Window + ?Sized> Window for Box<W> {
    fn at(&mut self, offset: u64, min: usize) -> Result<&[u8]> {
        (**self).at(offset, min)
    }

    fn len(&self) -> Option<u64> {
        (**self).len()
    }
}
