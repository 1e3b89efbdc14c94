//! Reads tar archives, which were torch's first container (version 0.1). An archive has three
//! members, which refer to each other by number.
//!
//! ```text
//! storages    pickle: the number of storages
//!             each: pickle (key, location, class), elements (i64), their bytes
//!             pickle: storages that view other storages, [(key, root's key, offset, elements)]
//! tensors     pickle: the number of tensors
//!             each: pickle (key, storage's key, class), rank (i32), 4 bytes, rank x size (i64),
//!             rank x stride (i64), offset (i64)
//! pickle      the object; each persistent ID is the key of a tensor or a storage
//! ```
//! All numbers are little-endian. Sources: `legacy_load` inside `_legacy_load` in
//! `torch/serialization.py`; POSIX.1-2001 for the headers (`members.rs`).

mod members;

pub(crate) use members::is_checkpoint;

use crate::Extent;
use crate::described::{DescribedStorage, DescribedTensor};
use crate::dtype::TorchDtype;
use crate::object_file::{ObjectFile, SidePickles};
use crate::pickle::{self, EvaluatedPickle, Graph, ValueId};
use members::Members;
use std::collections::HashMap;
use tensorferry_sdk::{Context, Error, Limits, Result, Source};

/// Opens a checkpoint that is a tar archive.
pub(crate) fn open(source: &dyn Source, file: Extent, context: &dyn Context) -> Result<ObjectFile> {
    let limits = context.limits();
    let members = Members::read(source, file, limits)?;
    let mut beside = SidePickles::default();
    let mut reader = Reader { source, limits, context, beside: &mut beside };
    let storages = reader.storages(members.required("storages")?)?;
    let tensors = reader.tensors(members.required("tensors")?)?;
    let mut object = pickle::take(source, members.required("pickle")?, limits)?.0;
    beside.add_object(&object.graph);
    resolve_keys(&mut object.graph, &storages, &tensors)?;
    let table = storages.roots.values().map(|root| (root.name.as_str().into(), root.extent)).collect();
    Ok(ObjectFile::of_table(source.name(file.file), object, table, beside))
}

/// A storage whose bytes the file contains.
struct Root {
    /// The key as a string.
    name: String,
    dtype: &'static TorchDtype,
    location: String,
    elements: u64,
    extent: Extent,
}

/// A storage whose bytes are a part of another storage.
struct StorageView {
    root: i64,
    offset: u64,
    len: u64,
}

struct StorageTable {
    roots: HashMap<i64, Root>,
    parts: HashMap<i64, StorageView>,
}

impl StorageTable {
    fn describe(&self, key: i64) -> Result<DescribedStorage<'_>> {
        let part = self.parts.get(&key);
        let root = self.roots.get(&part.map_or(key, |part| part.root));
        let root = root.ok_or_else(|| Error::malformed(format!("tensor or storage {key} is missing")))?;
        Ok(DescribedStorage {
            dtype: root.dtype,
            key: &root.name,
            location: &root.location,
            len: root.elements,
            view: part.map(|part| (part.offset, part.len)),
        })
    }
}

struct Tensor {
    storage: i64,
    size: Vec<u64>,
    stride: Vec<u64>,
    offset: u64,
}

struct Reader<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    context: &'a dyn Context,
    /// Globals and calls in all pickles other than the object's pickle.
    beside: &'a mut SidePickles,
}

impl Reader<'_> {
    /// Evaluates the next pickle of a member, and returns the bytes after it.
    fn pickle(&mut self, rest: Extent) -> Result<(EvaluatedPickle, Extent)> {
        self.context.check_cancelled()?;
        let (evaluated, rest) = pickle::take(self.source, rest, self.limits)?;
        self.beside.add(&evaluated.graph);
        Ok((evaluated, rest))
    }

    /// Returns the number of items in a member, which is the value of its first pickle.
    fn count(&mut self, member: Extent) -> Result<(u64, Extent)> {
        let (count, rest) = self.pickle(member)?;
        let count = count.graph.count(count.root);
        Ok((count.ok_or_else(|| Error::malformed("invalid number of items").offset(member.offset))?, rest))
    }

    fn storages(&mut self, member: Extent) -> Result<StorageTable> {
        let (count, mut rest) = self.count(member)?;
        let mut roots = HashMap::new();
        for _ in 0..count {
            let at = rest.offset;
            let (id, behind) = self.pickle(rest)?;
            let (key, root, behind) = self.root(&id, behind).map_err(|error| error.offset(at))?;
            if roots.insert(key, root).is_some() {
                return Err(duplicate_key(key).offset(at));
            }
            rest = behind;
        }
        let (views, _) = self.pickle(rest)?;
        let parts = parts(&views.graph, views.root, &roots).map_err(|error| error.offset(rest.offset))?;
        Ok(StorageTable { roots, parts })
    }

    fn root(&self, id: &EvaluatedPickle, rest: Extent) -> Result<(i64, Root, Extent)> {
        let graph = &id.graph;
        let parts = match graph.tuple(id.root) {
            Some(&[key, location, class]) => {
                graph.int(key).zip(graph.text(location)).zip(graph.global(class))
            }
            _ => None,
        };
        let ((key, location), class) = parts.ok_or_else(|| {
            Error::malformed("invalid description of a storage").expected("(key, location, class)")
        })?;
        let dtype = match &*class.module {
            "torch" | "torch.cuda" => TorchDtype::of_storage_class(&class.name),
            _ => None,
        };
        let dtype = dtype.ok_or_else(|| {
            Error::unsupported("a storage has an unknown class and therefore an unknown length")
                .found(class.path())
        })?;
        let elements = self.numbers(rest, 1)?[0];
        let rest = rest.after(8);
        let bytes = elements.checked_mul(dtype.element_bytes.into());
        let bytes =
            bytes.ok_or_else(|| Error::malformed("the length of a storage does not fit in 64 bits"))?;
        let extent = rest.part(self.source, rest.offset, bytes)?;
        let root = Root { name: key.to_string(), dtype, location: location.to_owned(), elements, extent };
        Ok((key, root, rest.after(bytes)))
    }

    fn tensors(&mut self, member: Extent) -> Result<HashMap<i64, Tensor>> {
        let (count, mut rest) = self.count(member)?;
        let mut tensors = HashMap::new();
        for _ in 0..count {
            let at = rest.offset;
            let (id, behind) = self.pickle(rest)?;
            let (key, tensor, behind) = self.tensor(&id, behind).map_err(|error| error.offset(at))?;
            if tensors.insert(key, tensor).is_some() {
                return Err(duplicate_key(key).offset(at));
            }
            rest = behind;
        }
        Ok(tensors)
    }

    fn tensor(&self, id: &EvaluatedPickle, rest: Extent) -> Result<(i64, Tensor, Extent)> {
        let graph = &id.graph;
        let keys = match graph.tuple(id.root) {
            Some(&[key, storage, _class]) => graph.int(key).zip(graph.int(storage)),
            _ => None,
        };
        let (key, storage) = keys.ok_or_else(|| {
            Error::malformed("invalid description of a tensor").expected("(key, storage's key, class)")
        })?;
        let mut rank = [0; 4];
        rest.part(self.source, rest.offset, 8)?.read_start(self.source, &mut rank)?;
        let rank = u64::try_from(i32::from_le_bytes(rank))
            .map_err(|_| Error::malformed("the rank of a tensor is negative"))?;
        let rest = rest.after(8);
        let mut numbers = self.numbers(rest, 2 * rank + 1)?;
        let offset = numbers.pop().unwrap_or(0);
        let stride = numbers.split_off(numbers.len() / 2);
        let behind = rest.after(8 * (2 * rank + 1));
        Ok((key, Tensor { storage, size: numbers, stride, offset }, behind))
    }

    /// Reads `count` non-negative 64-bit numbers.
    fn numbers(&self, rest: Extent, count: u64) -> Result<Vec<u64>> {
        let bytes = rest.part(self.source, rest.offset, 8 * count)?.read(self.source, self.limits)?;
        let number = |bytes: &[u8; 8]| {
            let number = i64::from_le_bytes(*bytes);
            u64::try_from(number).map_err(|_| {
                Error::malformed("a length or stride is negative").offset(rest.offset).found(number)
            })
        };
        bytes.as_chunks().0.iter().map(number).collect()
    }
}

/// Returns the storages whose bytes are parts of other storages.
fn parts(graph: &Graph, list: ValueId, roots: &HashMap<i64, Root>) -> Result<HashMap<i64, StorageView>> {
    let malformed = || {
        Error::malformed("invalid list of storage views").expected("[(key, root's key, offset, elements)]")
    };
    let mut parts = HashMap::new();
    for &item in graph.sequence(list).ok_or_else(malformed)? {
        let Some(&[key, root, offset, len]) = graph.tuple(item) else { return Err(malformed()) };
        let (Some(key), Some(root), Some(offset), Some(len)) =
            (graph.int(key), graph.int(root), graph.count(offset), graph.count(len))
        else {
            return Err(malformed());
        };
        if !roots.contains_key(&root) {
            return Err(Error::malformed(format!("a view refers to missing storage {root}")));
        }
        if roots.contains_key(&key) || parts.insert(key, StorageView { root, offset, len }).is_some() {
            return Err(duplicate_key(key));
        }
    }
    Ok(parts)
}

/// Replaces each persistent ID in the object with the tensor or storage to which it refers.
fn resolve_keys(graph: &mut Graph, storages: &StorageTable, tensors: &HashMap<i64, Tensor>) -> Result<()> {
    let places: Vec<(ValueId, ValueId)> = graph.persistent_places().collect();
    for (place, id) in places {
        let key = graph.text(id).and_then(|text| text.parse::<i64>().ok());
        let key = key.or_else(|| graph.int(id)).ok_or_else(|| {
            Error::malformed("a persistent ID is not the key of a tensor or a storage").expected("a number")
        })?;
        let made = match tensors.get(&key) {
            Some(tensor) => DescribedTensor {
                storage: storages.describe(tensor.storage)?,
                offset: tensor.offset,
                size: &tensor.size,
                stride: &tensor.stride,
                requires_grad: false,
            }
            .push(graph)?,
            None => storages.describe(key)?.push(graph)?,
        };
        graph.replace(place, made);
    }
    Ok(())
}

fn duplicate_key(key: i64) -> Error {
    Error::malformed(format!("key {key} is duplicated"))
}
