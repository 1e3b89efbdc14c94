//! Writes a page header as a Thrift struct in the compact protocol. `parquet.thrift` defines the
//! fields of the header, and `read/header.rs` lists them.

use super::levels::put_varint;
use parquet::basic::{Encoding, PageType};

/// Header of an `i32` field. The upper four bits contain the distance from the previous field ID,
/// which is 1 here. The lower four bits contain the type.
const NEXT_I32: u8 = 0x15;
const NEXT_TRUE: u8 = 0x11;
const STRUCT: u8 = 0x0c;
const STOP: u8 = 0;

/// Returns the header of a data page or dictionary page. Returns `None` if a length does not fit
/// into 31 bits.
pub(super) fn page_header(
    page_type: PageType,
    uncompressed: usize,
    compressed: usize,
    values: usize,
    encoding: Encoding,
) -> Option<Vec<u8>> {
    let mut header = Vec::with_capacity(32);
    let is_dictionary = page_type == PageType::DICTIONARY_PAGE;
    let inner = if is_dictionary { 7 } else { 5 };
    put(&mut header, page_type as usize)?;
    put(&mut header, uncompressed)?;
    put(&mut header, compressed)?;
    // The ID of the previous field is 3.
    header.push((inner - 3) << 4 | STRUCT);
    put(&mut header, values)?;
    put(&mut header, encoding as usize)?;
    if is_dictionary {
        header.push(NEXT_TRUE);
    } else {
        [(); 2].iter().try_for_each(|()| put(&mut header, Encoding::RLE as usize))?;
    }
    header.extend([STOP, STOP]);
    Some(header)
}

/// Appends a nonnegative number in zigzag encoding.
fn put(header: &mut Vec<u8>, number: usize) -> Option<()> {
    let number = u32::try_from(i32::try_from(number).ok()?).ok()?;
    header.push(NEXT_I32);
    put_varint(header, u64::from(number) << 1);
    Some(())
}
