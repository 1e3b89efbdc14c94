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

/// What is read at once: a window stays in the L2 cache while it is looked at.
pub(crate) const WINDOW: usize = 256 << 10;

/// Bytes by offset, going forward.
pub(crate) trait Window {
    /// The bytes from `offset` on: at least `least` of them, or all that there are up to the end.
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
