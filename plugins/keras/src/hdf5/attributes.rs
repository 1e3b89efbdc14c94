//! Reads the attributes of HDF5 objects. Keras writes only attributes that are strings or lists of
//! strings.
//!
//! ```text
//! version u8, flags u8, lengths of name, datatype and dataspace, each u16; [charset u8 in version 3];
//! name, datatype, dataspace (each padded to 8 in version 1), data
//! ```

use super::datatype::{Datatype, Element};
use super::file::File;
use super::header::{ATTRIBUTE, ATTRIBUTE_INFO, DATASPACE, DATATYPE, Header, shared_data};
use super::links::heap_objects;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::{attribute_info, dataspace};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<Attribute>);

/// An attribute whose value has not been decoded.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    /// Address to report in error messages.
    address: u64,
    datatype: Vec<u8>,
    dataspace: Vec<u8>,
    data: Vec<u8>,
}

impl Attributes {
    /// Reads the attributes of an object from its header and its heap.
    pub(crate) fn read(file: &File<'_>, header: &Header) -> Result<Self> {
        let mut found = Vec::new();
        for message in header.all(ATTRIBUTE) {
            found.push(parse(file, message, header.address).map_err(|error| file.at(error, header.address))?);
        }
        for message in header.all(ATTRIBUTE_INFO) {
            let parsed = attribute_info::parse(
                &mut Cursor::new(message),
                file.offset_size,
                file.length_size,
                message.len(),
            );
            let info = file.parsed(parsed, "an attribute info", header.address)?;
            let heap = info.fractal_heap_address;
            if !file.is_undefined(heap) {
                for object in heap_objects(file, heap, info.btree_name_index_address)? {
                    found.push(parse(file, &object, heap).map_err(|error| file.at(error, heap))?);
                }
            }
        }
        Ok(Self(found))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the string in the attribute `name`, or `None` if the attribute is missing or not a
    /// string.
    pub(crate) fn text(&self, file: &File<'_>, name: &str) -> Result<Option<String>> {
        let Some(attribute) = self.get(name) else { return Ok(None) };
        Ok(attribute.texts(file, 1)?.and_then(|texts| texts.into_iter().next()))
    }

    /// Returns the strings in the attribute `name`. If it is missing, returns the strings in the
    /// attributes `name0`, `name1`, and so on. Keras splits long lists this way, because an
    /// attribute can be at most 64 KiB long.
    pub(crate) fn list(&self, file: &File<'_>, name: &str) -> Result<Option<Vec<String>>> {
        let texts = |attribute: &Attribute| -> Result<Vec<String>> {
            attribute.texts(file, u64::MAX)?.ok_or_else(|| {
                let error =
                    Error::malformed(format!("the attribute {:?} is not a list of strings", attribute.name));
                file.at(error, attribute.address)
            })
        };
        if let Some(attribute) = self.get(name) {
            return texts(attribute).map(Some);
        }
        let pieces: BTreeMap<u64, &Attribute> = self
            .0
            .iter()
            .filter_map(|attribute| {
                let number = attribute.name.strip_prefix(name)?;
                // Keras writes the numbers in these attribute names without a sign or leading
                // zeros.
                let piece: u64 = number.parse().ok()?;
                (piece.to_string() == number).then_some((piece, attribute))
            })
            .collect();
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for (expected, (number, attribute)) in (0..).zip(pieces) {
            if number != expected {
                let error = Error::malformed(format!("the attribute \"{name}{expected}\" is missing"));
                return Err(file.at(error, attribute.address));
            }
            all.extend(texts(attribute)?);
        }
        Ok(Some(all))
    }
}

impl Attribute {
    /// Returns at most the first `max` strings, or `None` if the attribute does not contain
    /// strings.
    fn texts(&self, file: &File<'_>, max: u64) -> Result<Option<Vec<String>>> {
        let parsed = dataspace::parse(
            &mut Cursor::new(&self.dataspace),
            file.offset_size,
            file.length_size,
            self.dataspace.len(),
        );
        let space = file.parsed(parsed, "an attribute's dataspace", self.address)?;
        let count = space.num_elements().unwrap_or(u64::MAX);
        if count == 0 {
            // h5py writes an empty list of strings as an empty list of numbers.
            return Ok(Some(Vec::new()));
        }
        let Ok(datatype) = Datatype::parse(&self.datatype) else { return Ok(None) };
        if !matches!(datatype.element, Element::FixedText(_) | Element::VariableText) {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut each = |text: &[u8]| {
            file.held.add(text.len())?;
            found.push(String::from_utf8_lossy(text).into_owned());
            Ok(())
        };
        texts(file, &self.data, &datatype, count.min(max), &mut each).map_err(|error| {
            file.at(error.context(format!("the attribute {:?}", self.name)), self.address)
        })?;
        Ok(Some(found))
    }
}

/// Passes each of `count` consecutive strings to `each`.
pub(crate) fn texts(
    file: &File<'_>,
    data: &[u8],
    datatype: &Datatype,
    count: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let width = usize::try_from(datatype.width).unwrap_or(0).max(1);
    let all = count.checked_mul(width as u64);
    let data = all.and_then(|len| data.get(..usize::try_from(len).ok()?));
    let data = data.ok_or_else(|| Error::malformed("some of its strings are missing").expected(count))?;
    data.chunks_exact(width).try_for_each(|element| match datatype.element {
        Element::FixedText(padding) => each(padding.trim(element)),
        _ => variable(file, element, each),
    })
}

/// Reads a string in a global heap. `element` contains the string's length, the heap's address, and
/// the string's index in the heap.
fn variable(file: &File<'_>, element: &[u8], each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut cursor = Cursor::new(element);
    let place = cursor
        .read_u32_le()
        .and_then(|len| Ok((len, cursor.read_offset(file.offset_size)?, cursor.read_u32_le()?)));
    let (len, address, index) = file.parsed(place, "a string", 0)?;
    if len == 0 || file.is_undefined(address) || address == 0 {
        return each(&[]);
    }
    file.heap_object(address, index, len, &mut |text| {
        each(text.split(|&byte| byte == 0).next().unwrap_or_default())
    })
}

fn parse(file: &File<'_>, message: &[u8], address: u64) -> Result<Attribute> {
    let cut = || Error::malformed("an attribute is truncated");
    let (version, flags, lens) = match message {
        [version @ 1..=3, flags, rest @ ..] => (*version, *flags, rest.get(..6).ok_or_else(cut)?),
        [version, ..] => return Err(Error::unsupported("unknown attribute version").found(version)),
        [] => return Err(cut()),
    };
    let padded = |len: usize| if version == 1 { len.next_multiple_of(8) } else { len };
    let mut at = if version == 3 { 9 } else { 8 };
    let mut take = |len: usize| -> Result<Vec<u8>> {
        let bytes = message.get(at..at + len).ok_or_else(cut)?.to_vec();
        at += padded(len);
        Ok(bytes)
    };
    let len = |place: usize| usize::from(u16::from_le_bytes([lens[place], lens[place + 1]]));
    let (name, datatype, dataspace) = (take(len(0))?, take(len(2))?, take(len(4))?);
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    // A named datatype is in a different object header. If the named datatype cannot be read, the
    // attribute has no datatype. The missing datatype is an error only if the attribute's value is
    // needed.
    let fetched = |flag: u8, kind: u16, bytes: Vec<u8>| {
        if version > 1 && flags & flag != 0 {
            shared_data(file, kind, &bytes, address).unwrap_or_default()
        } else {
            bytes
        }
    };
    let (datatype, dataspace) = (fetched(1, DATATYPE, datatype), fetched(2, DATASPACE, dataspace));
    let data = message.get(at..).unwrap_or_default().to_vec();
    Ok(Attribute { name, address, datatype, dataspace, data })
}
