//! Reads legacy files. A legacy file is a stream of pickles, followed by the storages. torch wrote
//! this format before version 1.6, and still writes it if `_use_new_zipfile_serialization=False` is
//! set.
//!
//! ```text
//! pickle      the number 0x1950a86a20f9469cfc6c
//! pickle      the number 1001
//! pickle      {"protocol_version", "little_endian", "type_sizes"}
//! pickle      the object; ("storage", class, key, location, elements, view) names a storage
//! pickle      the keys of the storages, in the order of their bytes
//! 8 + n * w   for each key: the number of elements n (i64), and the elements of w bytes each
//! ```
//! Sources: `_legacy_save` and `_legacy_load` in `torch/serialization.py`, and
//! `torch/csrc/serialization.cpp`.
//!
//! Counts and elements are little-endian in every legacy file. On big-endian machines,
//! `THPStorage_writeFileRaw` reverses the bytes of counts and elements, and `_legacy_load` ignores
//! `little_endian`.

use crate::Extent;
use crate::object_file::{ObjectFile, SidePickles};
use crate::persistent_id::PersistentId;
use crate::pickle::{self, EvaluatedPickle, Graph, ValueId};
use crate::window::{NEAR, Window};
use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{Context, Error, Result, Source};

const PROTOCOL_VERSION: i64 = 1001;
const COUNT_LEN: u64 = 8;

/// Opens a legacy file, which starts with the magic number.
pub(crate) fn open(source: &dyn Source, file: Extent, context: &dyn Context) -> Result<ObjectFile> {
    let limits = context.limits();
    let (_magic, rest) = pickle::take(source, file, limits)?;
    let (version, after_version) = pickle::take(source, rest, limits)?;
    if version.graph.int(version.root) != Some(PROTOCOL_VERSION) {
        let found =
            version.graph.int(version.root).map_or_else(|| "not a number".to_owned(), |n| n.to_string());
        let error = Error::unsupported("unknown version of torch's stream format");
        return Err(error.offset(rest.offset).expected(PROTOCOL_VERSION).found(found));
    }
    let (system, rest) = pickle::take(source, after_version, limits)?;
    let (object, rest) = pickle::take(source, rest, limits)?;
    let (keys, data) = pickle::take(source, rest, limits)?;
    let mut beside = SidePickles::default();
    [&version, &system, &keys].into_iter().for_each(|pickle| beside.add(&pickle.graph));
    beside.add_object(&object.graph);
    let named = sizes(&object.graph)?;
    let keys = keys_of(&keys, &named).map_err(|error| error.offset(rest.offset))?;
    let (storages, end) = lay_out(source, &keys, data)?;
    let unread = file.end() - end;
    if unread > 0 {
        let name = source.name(file.file);
        context.note(&format!("{name}: {unread} bytes after the last storage are ignored, as in torch"));
    }
    Ok(ObjectFile::of_table(source.name(file.file), object, storages, beside))
}

/// The length of a storage to which the object's pickle refers.
#[derive(Debug, Clone, Copy)]
struct Size<'g> {
    key: &'g str,
    elements: u64,
    element_bytes: u64,
    bytes: u64,
}

/// Returns the lengths of storages by key. If the pickle refers to a storage with several classes,
/// the first class determines the length. Conflicting lengths are detected when a tensor uses the
/// storage.
fn sizes(graph: &Graph) -> Result<HashMap<&str, Size<'_>>> {
    let mut sizes = HashMap::new();
    for id in graph.persistent_ids() {
        let named = PersistentId::of(graph, id)?
            .map_err(|why| Error::unsupported(format!("a storage has an unknown length: {why}")))?;
        let size = Size {
            key: named.key,
            elements: named.len,
            element_bytes: named.element_bytes(),
            bytes: named.bytes()?,
        };
        sizes.entry(named.key).or_insert(size);
    }
    Ok(sizes)
}

/// Returns the storages in the order in which the file contains their bytes.
fn keys_of<'g>(listed: &EvaluatedPickle, sizes: &HashMap<&'g str, Size<'g>>) -> Result<Vec<Size<'g>>> {
    let graph = &listed.graph;
    let items = graph.sequence(listed.root);
    let items = items.ok_or_else(|| Error::malformed("the keys of the storages are not a list"))?;
    let mut seen = HashSet::with_capacity(items.len());
    let size = |&item: &ValueId| {
        let key = graph.text(item).ok_or_else(|| Error::malformed("the key of a storage is not a string"))?;
        let size = sizes.get(key).ok_or_else(|| {
            Error::malformed(format!("storage {key:?} is listed, but the object does not refer to it"))
        })?;
        if seen.insert(key) {
            Ok(*size)
        } else {
            Err(Error::malformed(format!("storage {key:?} is listed twice")))
        }
    };
    items.iter().map(size).collect()
}

/// Returns the location of each storage's bytes, and the end of the last storage.
fn lay_out(
    source: &dyn Source,
    storages: &[Size<'_>],
    data: Extent,
) -> Result<(HashMap<Box<str>, Extent>, u64)> {
    let mut headers = Window::new(source, data.file, data.end());
    let mut table = HashMap::with_capacity(storages.len());
    let mut rest = data;
    for storage in storages {
        // If this storage is short, the count of the next storage is close enough to be read
        // together with this count.
        let ahead = || (storage.bytes < NEAR / 2).then(|| rest.offset.saturating_add(NEAR));
        let header = headers.get(rest.offset, COUNT_LEN, ahead)?;
        let count = header.first_chunk().map_or(0, |&bytes| i64::from_le_bytes(bytes));
        if u64::try_from(count) != Ok(storage.elements) {
            return Err(Error::malformed(format!("storage {:?} has the wrong length", storage.key))
                .offset(rest.offset)
                .expected(format!("{} elements of {} bytes", storage.elements, storage.element_bytes))
                .found(count));
        }
        rest = rest.after(COUNT_LEN);
        let extent = rest.part(source, rest.offset, storage.bytes)?;
        table.insert(storage.key.into(), extent);
        rest = rest.after(storage.bytes);
    }
    Ok((table, rest.offset))
}
