//! Finds images among the values of a column. An image is a value that starts with the signature of
//! PNG or JPEG, and whose size is read from its header. A browser has to decode the images, so only
//! a few are kept, and large ones are left out.
//!
//! A PNG file starts with the signature, the length and name of IHDR, the width and the height, all
//! big-endian. A JPEG file starts with FF D8, followed by segments with a marker and a length. In a
//! frame segment (C0 to CF except C4, C8 and CC), the height and width follow the precision (ITU-T
//! T.81).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef};
use tensorferry_sdk::arrow_schema::DataType;

/// Maximum number of images per page and per column.
const MAX_IMAGES: usize = 24;
const MAX_COLUMN_IMAGES: usize = 8;
/// Maximum number of bytes per image, and of all images together.
const MAX_IMAGE_BYTES: usize = 512 << 10;
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// Maximum number of pixels per image. A browser needs four bytes for each pixel.
const MAX_PIXELS: u64 = 1 << 24;

#[derive(Default)]
pub(super) struct Pictures {
    /// The images, as entries of the page document.
    pub(super) found: Vec<Value>,
    bytes: usize,
}

impl Pictures {
    /// Adds the images in the values of a column. `first` is the row number of the first value.
    pub(super) fn add(&mut self, column: &str, first: usize, array: &ArrayRef) {
        match array.data_type() {
            DataType::Binary => self.add_all(column, first, array.as_binary::<i32>().iter()),
            DataType::LargeBinary => self.add_all(column, first, array.as_binary::<i64>().iter()),
            // If a row contains a list, only the first image in the list is used.
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                for (row, values) in list.iter().enumerate() {
                    if self.is_full(column) {
                        return;
                    }
                    let values = values.filter(|values| *values.data_type() == DataType::Binary);
                    if let Some(values) = values {
                        let values = values.as_binary::<i32>().iter().take(1);
                        self.add_all(column, first + row, values);
                    }
                }
            }
            DataType::Struct(_) => {
                for inner in array.as_struct().columns() {
                    if matches!(inner.data_type(), DataType::Binary | DataType::LargeBinary) {
                        self.add(column, first, inner);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_full(&self, column: &str) -> bool {
        self.found.len() >= MAX_IMAGES
            || self.found.iter().filter(|it| it["column"] == column).count() >= MAX_COLUMN_IMAGES
    }

    fn add_all<'v>(&mut self, column: &str, first: usize, values: impl Iterator<Item = Option<&'v [u8]>>) {
        for (row, value) in values.enumerate() {
            if self.is_full(column) {
                return;
            }
            let Some((bytes, (kind, width, height))) = value.and_then(|bytes| Some((bytes, picture(bytes)?)))
            else {
                continue;
            };
            let is_small = bytes.len() <= MAX_IMAGE_BYTES && self.bytes + bytes.len() <= MAX_TOTAL_BYTES;
            if is_small && u64::from(width) * u64::from(height) <= MAX_PIXELS {
                self.bytes += bytes.len();
                self.found.push(json!({
                    "column": column, "row": first + row, "bytes": bytes.len(), "width": width, "height": height,
                    "url": format!("data:{kind};base64,{}", STANDARD.encode(bytes)),
                }));
            }
        }
    }
}

/// Returns the media type, width and height of an image.
fn picture(bytes: &[u8]) -> Option<(&'static str, u32, u32)> {
    if let Some(rest) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") {
        let number = |at: usize| Some(u32::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        return Some(("image/png", number(0)?, number(4)?))
            .filter(|(_, width, height)| *width > 0 && *height > 0);
    }
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, marker, len @ ..] = rest else { return None };
        // A marker may be preceded by fill bytes.
        if *marker == 0xff {
            rest = &rest[1..];
            continue;
        }
        let len = usize::from(u16::from_be_bytes(*len.first_chunk()?));
        let segment = rest.get(4..2 + len)?;
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let number = |at: usize| Some(u32::from(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?)));
            return Some(("image/jpeg", number(3)?, number(1)?))
                .filter(|(_, width, height)| *width > 0 && *height > 0);
        }
        rest = rest.get(2 + len..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_say_how_large_they_are() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 7, 0, 0, 0, 5, 8, 2, 0, 0, 0]].concat();
        assert_eq!(picture(&png), Some(("image/png", 7, 5)));
        let jpeg =
            [&[0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2][..], &[0xff, 0xff, 0xc2, 0, 8, 8, 0, 9, 1, 0, 1]].concat();
        assert_eq!(picture(&jpeg), Some(("image/jpeg", 256, 9)));
        for truncated in 0..png.len() - 5 {
            assert_eq!(picture(&png[..truncated]), None);
        }
        for truncated in 0..jpeg.len() - 1 {
            assert_eq!(picture(&jpeg[..truncated]), None, "{truncated}");
        }
        assert_eq!(picture(b"GIF89a"), None);
        assert_eq!(picture(&[0xff, 0xd8, 0xff, 0xe0, 0, 0]), None);
        assert_eq!(picture(&[0xff, 0xd8, 0xff, 0xda, 0, 1]), None);
    }
}
