//! Reads chunked arrays. A chunked array is a map that represents a single array. Flax writes this
//! form if the array is too long for one msgpack value.

use crate::array::{Array, bytes_of};
use crate::document::{Document, Item, Key};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result, element_count};

/// The map key that marks a chunked array.
pub const MARK: &str = "__msgpack_chunked_array__";

/// Returns whether a map with these entries is a chunked array.
pub fn is_chunked(entries: &[(Key, u32)]) -> bool {
    entries.iter().any(|(key, _)| matches!(key, Key::Text(text) if text == MARK))
}

/// Returns the array that a map represents. Fails if the chunks do not match the array's shape.
pub fn join(document: &Document, entries: &[(Key, u32)]) -> Result<Array> {
    let wrong = |what: &str| Error::malformed(format!("a chunked array {what}"));
    let part = |name: &str| {
        let found = entries.iter().find(|(key, _)| matches!(key, Key::Text(text) if text == name));
        match found.map(|(_, id)| &document.items[*id as usize]) {
            Some(Item::Map(entries)) => numbered(document, entries),
            _ => Err(wrong("lacks a map").expected(name)),
        }
    };
    if entries.len() != 3 {
        return Err(wrong("has unexpected entries").expected(format!("{MARK}, shape and chunks")));
    }
    let dims = part("shape")?.into_iter().map(|item| match item {
        Item::Leaf(node) => node.as_wide_int().and_then(|dim| u64::try_from(dim).ok()),
        _ => None,
    });
    let shape: Option<Vec<u64>> = dims.collect();
    let shape = shape.ok_or_else(|| wrong("has a dimension that is not a whole number"))?;
    let mut joined: Option<Array> = None;
    let (mut elements, mut bytes) = (0_u64, 0_u64);
    for (number, chunk) in part("chunks")?.into_iter().enumerate() {
        let Item::Array(chunk) = chunk else {
            return Err(wrong("has a chunk that is not an array").found(format!("chunk {number}")));
        };
        let at = |error: Error| error.offset(chunk.place);
        let &[len] = &*chunk.shape else {
            return Err(
                at(wrong("has a chunk that is not one-dimensional")).found(format!("{:?}", chunk.shape))
            );
        };
        let array = joined.get_or_insert_with(|| Array { ranges: Vec::new(), ..chunk.clone() });
        if array.dtype != chunk.dtype {
            return Err(at(wrong("has chunks of different dtypes")).found(format!("chunk {number}")));
        }
        elements = elements.saturating_add(len);
        bytes = bytes.saturating_add(chunk.ranges.iter().map(|(_, len)| len).sum());
        array.ranges.extend(&chunk.ranges);
    }
    let array = joined.ok_or_else(|| wrong("has no chunks"))?;
    if element_count(&shape)? != elements || bytes_of(array.dtype, &shape)? != bytes {
        let error = wrong("has chunks that do not add up to its shape").offset(array.place);
        return Err(error.expected(format!("those of {shape:?}")).found(elements));
    }
    Ok(Array { shape, is_scalar: false, ..array })
}

/// Returns the values of a map with the keys "0", "1" and so on, in numeric order.
fn numbered<'a>(document: &'a Document, entries: &[(Key, u32)]) -> Result<Vec<&'a Item>> {
    let numbers = entries.iter().map(|(key, id)| match key {
        Key::Text(text) => {
            let number = text.parse::<usize>().ok().filter(|number| number.to_string() == *text);
            number.map(|number| (number, *id))
        }
        Key::Int(_) => None,
    });
    let error = || {
        let error = Error::malformed("a chunked array's parts are not numbered from 0");
        let keys: Vec<String> = entries.iter().take(8).map(|(key, _)| key.to_string()).collect();
        error.expected(format!("{} parts without a gap", entries.len())).found(keys.join(", "))
    };
    let numbers: Option<BTreeMap<usize, u32>> = numbers.collect();
    let numbers = numbers.ok_or_else(error)?;
    if !numbers.keys().copied().eq(0..entries.len()) {
        return Err(error());
    }
    Ok(numbers.values().map(|&id| &document.items[id as usize]).collect())
}
