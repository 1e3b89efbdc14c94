//! A page's header, as it is written: a Thrift struct in compact protocol (parquet.thrift; `read/header.rs`
//! has its fields).

use super::levels::put_varint;
use parquet::basic::{Encoding, PageType};

/// A field's type, behind how many fields it comes after the one before.
const NEXT_I32: u8 = 0x15;
const NEXT_TRUE: u8 = 0x11;
const STRUCT: u8 = 0x0c;
const STOP: u8 = 0;

/// The header of a data page or a dictionary page; `None`, if a length has more than 31 bits.
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
    // The last field was number 3.
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

/// A number that is not negative, in zigzag order.
fn put(header: &mut Vec<u8>, number: usize) -> Option<()> {
    let number = u32::try_from(i32::try_from(number).ok()?).ok()?;
    header.push(NEXT_I32);
    put_varint(header, u64::from(number) << 1);
    Some(())
}
