//! Hand-made OCDBT stores: valid nodes with arbitrary contents.

use std::collections::BTreeMap;
use tensorferry_sdk::crc32c;

/// The first bytes of a manifest.
pub const MANIFEST: u32 = 0x0cdb_3a2a;
/// The first bytes of a node.
pub const NODE: u32 = 0x0cdb_20de;

/// A value in a leaf node.
#[derive(Clone)]
pub enum Kv {
    Inline(Vec<u8>),
    /// The value's offset and length in the node's file.
    Indirect(u64, u64),
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

fn column(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(varint).collect()
}

fn lens<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    column(texts.into_iter().map(|text| text.len() as u64))
}

/// Returns a manifest or a node with this magic number and body.
pub fn frame(magic: u32, body: &[u8], is_zstd: bool) -> Vec<u8> {
    let body = if is_zstd { zstd::encode_all(body, 1).unwrap() } else { body.to_vec() };
    let content = [&[0, u8::from(is_zstd)][..], &body].concat();
    let len = 16 + content.len() as u64;
    let whole = [&magic.to_be_bytes()[..], &len.to_le_bytes(), &content].concat();
    [&whole[..], &crc32c(&whole).to_le_bytes()].concat()
}

/// Returns a table of data files with one file, or an empty table if the path is empty.
fn file_table(path: &str) -> Vec<u8> {
    if path.is_empty() {
        return varint(0);
    }
    [varint(1), varint(path.len() as u64), varint(0), path.as_bytes().to_vec()].concat()
}

fn node(height: u8, path: &str, keys: &[&[u8]], rest: &[Vec<u8>], is_zstd: bool) -> Vec<u8> {
    let shared = vec![0; keys.len() - 1];
    let count = varint(keys.len() as u64);
    let head = [&[height][..], &file_table(path), &count, &shared, &lens(keys.iter().copied())].concat();
    frame(NODE, &[head, rest.concat()].concat(), is_zstd)
}

/// Returns an inner node whose children are in one file. Each child has a key, the length of its
/// key prefix, an offset and a length.
pub fn inner(height: u8, path: &str, children: &[(Vec<u8>, u64, u64, u64)], is_zstd: bool) -> Vec<u8> {
    let keys: Vec<&[u8]> = children.iter().map(|(key, ..)| &key[..]).collect();
    let zeros = vec![0; keys.len()];
    let rest = [
        column(children.iter().map(|(_, prefix, ..)| *prefix)),
        keys.concat(),
        zeros.clone(),
        column(children.iter().map(|(_, _, offset, _)| *offset)),
        column(children.iter().map(|(.., len)| *len)),
        zeros.repeat(3),
    ];
    node(height, path, &keys, &rest, is_zstd)
}

/// Returns a leaf node whose values are inline or in one file.
pub fn leaf(path: &str, values: &[(&[u8], Kv)], is_zstd: bool) -> Vec<u8> {
    let keys: Vec<&[u8]> = values.iter().map(|(key, _)| *key).collect();
    let (mut sizes, mut kinds, mut offsets, mut inline) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (_, value) in values {
        match value {
            Kv::Inline(bytes) => {
                sizes.push(bytes.len() as u64);
                kinds.push(0);
                inline.extend(bytes);
            }
            Kv::Indirect(offset, len) => {
                sizes.push(*len);
                kinds.push(1);
                offsets.push(*offset);
            }
        }
    }
    let zeros = vec![0; offsets.len()];
    node(0, path, &keys, &[keys.concat(), column(sizes), kinds, zeros, column(offsets), inline], is_zstd)
}

/// Returns a store with one file, `d/x`, and a root at this location in that file.
pub fn store(data: &[u8], offset: usize, len: usize, height: u8) -> BTreeMap<String, Vec<u8>> {
    let manifest = [
        vec![0; 17],
        varint(100),
        varint(128 << 20),
        vec![0, 0],
        file_table("d/x"),
        vec![1, 1, height, 0],
        varint(offset as u64),
        varint(len as u64),
    ];
    let manifest = frame(MANIFEST, &manifest.concat(), false);
    BTreeMap::from([("manifest.ocdbt".to_owned(), manifest), ("d/x".to_owned(), data.to_vec())])
}
