//! Lists the children of a group. Like Keras, ferry rejects links to other files, so that it never
//! opens a file to which the input refers.

use super::file::File;
use super::header::{ATTRIBUTE, Header, LINK, LINK_INFO, SYMBOL_TABLE};
use hdf5_reader::btree_v1::collect_btree_v1_leaves_storage;
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::fractal_heap::{FractalHeap, FractalHeapDirectBlockCache};
use hdf5_reader::io::Cursor;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::link::{self, LinkMessage, LinkTarget};
use hdf5_reader::messages::{link_info, symbol_table_msg};
use std::collections::HashSet;
use tensorferry_sdk::{Error, Result};

/// The cache type of a symbol table entry for a soft link.
const SOFT: u32 = 2;

pub(crate) fn is_group(header: &Header) -> bool {
    let kinds = [SYMBOL_TABLE, LINK_INFO, LINK];
    header.messages.iter().any(|message| kinds.contains(&message.kind))
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Address of the target's object header.
    Hard(u64),
    /// Path of the target of a soft link.
    Soft(String),
}

/// Returns the names and targets of a group's children, in file order.
pub(crate) fn children(file: &File<'_>, group: &Header) -> Result<Vec<(String, Target)>> {
    let (os, ls) = (file.offset_size, file.length_size);
    let mut found = Vec::new();
    for message in group.all(SYMBOL_TABLE) {
        let parsed = symbol_table_msg::parse(&mut Cursor::new(message), os, ls, message.len());
        let table = file.parsed(parsed, "a symbol table", group.address)?;
        old_children(file, table.btree_address, table.heap_address, &mut found)?;
    }
    for message in group.all(LINK) {
        found.push(parse_link(file, group.address, message)?);
    }
    for message in group.all(LINK_INFO) {
        let parsed = link_info::parse(&mut Cursor::new(message), os, ls, message.len());
        let info = file.parsed(parsed, "a group's link info", group.address)?;
        if !file.is_undefined(info.fractal_heap_address) {
            let heap = (info.fractal_heap_address, info.btree_name_index_address);
            for bytes in heap_objects(file, heap.0, heap.1)? {
                found.push(parse_link(file, info.fractal_heap_address, &bytes)?);
            }
        }
    }
    let mut names = HashSet::with_capacity(found.len());
    for (name, _) in &found {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            let error = Error::malformed("invalid link name").found(format!("{name:?}"));
            return Err(file.at(error, group.address));
        }
        if !names.insert(name) {
            let error =
                Error::malformed("a group has two links with the same name").found(format!("{name:?}"));
            return Err(file.at(error, group.address));
        }
    }
    Ok(found)
}

/// Parses a link message. Returns the link's name and its target.
fn parse_link(file: &File<'_>, address: u64, message: &[u8]) -> Result<(String, Target)> {
    let parsed = link::parse(&mut Cursor::new(message), file.offset_size, file.length_size, message.len());
    let LinkMessage { name, target, .. } = file.parsed(parsed, "a link", address)?;
    match target {
        LinkTarget::Hard { address } => Ok((name, Target::Hard(address))),
        LinkTarget::Soft { path } => Ok((name, Target::Soft(path))),
        LinkTarget::External { filename, .. } => {
            let error = Error::unsupported(format!(
                "the link {name:?} refers to the file {filename:?}, and ferry does not open other files"
            ));
            Err(file.at(error, address))
        }
    }
}

/// Returns the children of a group in the old format, which consists of a B-tree of symbol tables
/// and a heap that contains the names.
fn old_children(file: &File<'_>, tree: u64, heap: u64, found: &mut Vec<(String, Target)>) -> Result<()> {
    let (os, ls) = (file.offset_size, file.length_size);
    let leaves = collect_btree_v1_leaves_storage(file.storage(), tree, os, ls, None, &[], None);
    let leaves = file.parsed(leaves, "a group's B-tree", tree)?;
    if leaves.is_empty() {
        return Ok(());
    }
    let parsed = LocalHeap::parse_at_storage(file.storage(), heap, os, ls);
    let LocalHeap { data_segment_address, data_segment_size, .. } =
        file.parsed(parsed, "a group's names", heap)?;
    let names = file.bytes(data_segment_address, data_segment_size, "a group's names")?;
    let text = |offset: u64| -> Result<String> {
        let start = usize::try_from(offset).ok().and_then(|start| names.get(start..));
        let text = start.and_then(|start| start.split(|&byte| byte == 0).next());
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| {
            file.at(
                Error::malformed("the name of a link is missing from its group's names").found(offset),
                heap,
            )
        })?;
        file.count_copied(heap, text.len())?;
        Ok(text.to_owned())
    };
    // In real files, the offset of a name has the width of a length. The specification and
    // `hdf5-reader` give it the width of an address.
    let entry_len = u64::from(ls) + u64::from(os) + 24;
    for (_, node) in leaves {
        let prefix = file.bytes(node, 8, "a symbol table")?;
        let Some((b"SNOD\x01", &[_, a, b])) = prefix.split_first_chunk() else {
            return Err(file.at(Error::malformed("not a symbol table"), node));
        };
        let bytes =
            file.bytes(node, 8 + u64::from(u16::from_le_bytes([a, b])) * entry_len, "a symbol table")?;
        let mut cursor = Cursor::new(bytes.get(8..).unwrap_or_default());
        while cursor.remaining() > 0 {
            let mut entry = || -> hdf5_reader::error::Result<_> {
                let (name, address) = (cursor.read_length(ls)?, cursor.read_offset(os)?);
                let kind = cursor.read_u32_le()?;
                cursor.skip(4)?;
                let path = cursor.read_u32_le()?;
                cursor.skip(12)?;
                Ok((name, address, kind, path))
            };
            let (name, address, kind, path) = file.parsed(entry(), "a symbol table", node)?;
            let name = text(name)?;
            let target = if kind == SOFT { Target::Soft(text(path.into())?) } else { Target::Hard(address) };
            found.push((name, target));
        }
    }
    Ok(())
}

/// Returns the objects in a fractal heap. A B-tree contains the names of these objects. Each object
/// is the content of a link message or an attribute message, without the message prefix.
pub(crate) fn heap_objects(file: &File<'_>, heap: u64, tree: u64) -> Result<Vec<Vec<u8>>> {
    const WHAT: &str = "a heap of links or attributes";
    let (os, ls) = (file.offset_size, file.length_size);
    let fractal = file.parsed(FractalHeap::parse_at_storage(file.storage(), heap, os, ls), WHAT, heap)?;
    if fractal.io_filters_len > 0 {
        let error = Error::unsupported("the file has compressed links or attributes")
            .hint("rewrite the file with h5repack");
        return Err(file.at(error, heap));
    }
    let index = file.parsed(BTreeV2Header::parse_at_storage(file.storage(), tree, os, ls), WHAT, tree)?;
    let records = collect_btree_v2_records_storage(file.storage(), &index, os, ls, None, &[], None);
    let mut cache = FractalHeapDirectBlockCache::default();
    let mut objects = Vec::new();
    for record in file.parsed(records, WHAT, tree)? {
        let id = match record {
            BTreeV2Record::LinkNameHash { heap_id, .. }
            | BTreeV2Record::AttributeNameHash { heap_id, flags: 0, .. } => heap_id,
            BTreeV2Record::AttributeNameHash { .. } => {
                let error = Error::unsupported(format!("a shared message {ATTRIBUTE} in a heap"));
                return Err(file.at(error, heap));
            }
            _ => return Err(file.at(Error::malformed("not an index of names"), tree)),
        };
        let object = fractal.get_object_storage_cached(&id, file.storage(), os, ls, &mut cache);
        let object = file.parsed(object, WHAT, heap)?;
        file.count_copied(heap, object.len())?;
        objects.push(object);
    }
    Ok(objects)
}
