//! Building a catalog: a reader fills a [`CatalogSink`], and the only way to a [`Catalog`] is
//! [`CatalogBuilder`], which checks every extent as it is given.

use crate::proof::Proof;
use crate::source::check_range;
use crate::{
    Block, Catalog, Data, DigestAlgorithm, Dtype, DtypeInfo, Error, Grid, JoinedRanges, Limits, Loss,
    LossKind, LossSink, Node, NodeId, Place, Result, Severity, Source, Storage, StorageId, Tensor, TensorId,
    Value,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Takes what a reader finds; a [loss](LossSink::loss) is something of the input that the catalog cannot
/// hold. Each call is checked before it returns.
pub trait CatalogSink: LossSink {
    /// A place where bytes live.
    ///
    /// # Errors
    /// Malformed, if it reaches past the end of its file, or of a storage that it is joined of; a plugin error, if
    /// it is joined of what is not there or of joined ones; unsupported, if it is joined of two byte orders; a limit.
    fn storage(&mut self, storage: Storage) -> Result<StorageId>;

    /// A dtype that the SDK has not built in; the same declaration gives the same dtype.
    ///
    /// # Errors
    /// A plugin error, if the name is declared otherwise already.
    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype>;

    /// A tensor whose bytes lie row-major, side by side, `offset` bytes into `storage`. A tensor
    /// of strings ([`Dtype::STR`]) takes all the bytes from there to the storage's end.
    ///
    /// # Errors
    /// Malformed, if the name is there already or the bytes are not in the storage; a limit.
    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId>;

    /// A tensor made of blocks, which must tile it. A tensor without elements needs none.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); malformed, if the blocks leave a gap or overlap.
    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId>;

    /// A tensor made of tiles of one shape with a storage each: an array of chunks, of which there may be millions.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); malformed, if there are more tiles or fewer than the shape has; a plugin error, if
    /// a tile is absent and there is no fill; unsupported, for dtypes whose elements are not whole bytes.
    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId>;

    /// A metadata entry. What a format says as text is [`Value::text`]; what has a type keeps it.
    ///
    /// # Errors
    /// Malformed, if the key is there already; a limit.
    fn metadata(&mut self, key: &str, value: Value) -> Result<()>;

    /// A metadata entry that is text.
    fn metadata_text(&mut self, key: &str, text: &str) -> Result<()> {
        self.metadata(key, Value::text(text))
    }

    /// A node of the tree, after its children.
    fn node(&mut self, node: Node) -> Result<NodeId>;

    /// The tree's root.
    ///
    /// # Errors
    /// A plugin error, if there is no such node.
    fn root(&mut self, root: NodeId) -> Result<()>;

    /// The format that the tensors were converted from into this file, where the file records it.
    fn origin(&mut self, format: &str) -> Result<()>;

    /// A function or class that the input asks its reader to call. None is ever called; the list is
    /// shown to the user.
    fn global(&mut self, name: &str) -> Result<()>;

    /// Something else that the input says of a tensor: its unit, the spacing along its axes. Writers of formats with
    /// [`Capabilities::ATTRIBUTES`](crate::Capabilities::ATTRIBUTES) see it; for others it is a loss.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor; malformed, if it has such a key already; a limit.
    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()>;

    /// A step, as users write it, that the catalog goes through where it is converted, before the user's own: it gives
    /// tensors the names and the order of rows that an option of the reader asks for, say. Shown, the input stays as it
    /// lies.
    ///
    /// # Errors
    /// Unsupported, of a host that takes none; a limit.
    fn step(&mut self, step: &str) -> Result<()> {
        let _ = step;
        Err(Error::unsupported("this host takes no steps from a reader"))
    }

    /// A file that goes into the folder that the tensors are written to, as those do that lie beside an input's weights:
    /// a configuration that is made of the metadata, say. Written to a file alone, it is a loss.
    ///
    /// # Errors
    /// A plugin error, for a name that is no file's in the folder, or is there already; unsupported, of a host that takes
    /// none; a limit.
    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let _ = bytes;
        Err(Error::unsupported("this host takes no files from a reader").file(name))
    }
}

/// Builds a [`Catalog`], checking each thing as it is given.
pub struct CatalogBuilder<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    proof: Proof<'a>,
    inline_bytes: u64,
    value_nodes: u64,
    /// The ranges of all joined storages.
    joined_ranges: u64,
}

impl<'a> CatalogBuilder<'a> {
    /// An empty catalog of a format's input.
    #[must_use]
    pub fn new(format: &str, source: &'a dyn Source, limits: &'a Limits) -> Self {
        Self {
            source,
            limits,
            proof: Proof::new(
                Catalog { origin: format.to_owned(), limits: limits.clone(), ..Catalog::default() },
                limits,
            ),
            inline_bytes: 0,
            value_nodes: 0,
            joined_ranges: 0,
        }
    }

    /// The catalog.
    ///
    /// # Errors
    /// A plugin error, if the tree names a tensor that is not there.
    pub fn finish(self) -> Result<Catalog> {
        self.proof.finish()
    }

    /// Bytes whose digest is of an algorithm that is not known here are as good as bytes without one: the user is told
    /// of it, once for each algorithm.
    fn leave_unchecked(&mut self, algorithm: DigestAlgorithm) -> Result<()> {
        let what = format!("digest algorithm {}", algorithm.0);
        if self.proof.catalog.losses.iter().any(|loss| loss.what == what) {
            return Ok(());
        }
        let why = "this ferry does not know it: what has such a digest was not checked";
        self.loss(Loss::new(LossKind::Metadata, what, why).severity(Severity::Note))
    }

    /// Names, metadata, losses and inline bytes are held in memory: together they are bounded like a
    /// header.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.inline_bytes = self.inline_bytes.saturating_add(bytes as u64);
        if self.inline_bytes > self.limits.header_bytes {
            return Err(Error::limit("the catalog holds too many bytes")
                .expected(format!("at most {}, or --bound header_bytes=N", self.limits.header_bytes)));
        }
        Ok(())
    }
}

impl CatalogBuilder<'_> {
    /// Only storages that are there already, so that none is joined of itself, and none that are joined.
    fn check_joined(&mut self, joined: &JoinedRanges, storage: &Storage) -> Result<()> {
        self.joined_ranges = self.joined_ranges.saturating_add(joined.ranges().len() as u64);
        if self.joined_ranges > self.limits.entries {
            return Err(Error::limit("too many ranges of joined storages")
                .expected(format!("at most {}, or --bound entries=N", self.limits.entries)));
        }
        let mut total = 0_u64;
        for range in joined.ranges() {
            let part = self.proof.catalog.storage(range.storage);
            let part = part.ok_or_else(|| Error::plugin(format!("no storage {}", range.storage.0)))?;
            if matches!(part.place, Place::Joined(_)) {
                return Err(Error::plugin("a storage is joined of one that is joined itself"));
            }
            if part.byte_order != storage.byte_order {
                let error = Error::unsupported("bytes of two byte orders in one storage");
                return Err(error
                    .expected(format!("{:?}", storage.byte_order))
                    .found(format!("{:?}", part.byte_order)));
            }
            check_range("", part.len, range.offset, range.len)
                .map_err(|error| error.context("a range lies outside the storage that it is of"))?;
            self.proof.share(range.storage, range.offset..range.offset + range.len, range.len)?;
            total = total
                .checked_add(range.len)
                .ok_or_else(|| Error::malformed("the length of a joined storage does not fit 64 bits"))?;
        }
        if total == storage.len {
            return Ok(());
        }
        let error = Error::plugin("a joined storage's length is not that of its ranges");
        Err(error.expected(total).found(storage.len))
    }

    /// An entry of the metadata or an attribute, which is held in memory.
    fn hold_entry(&mut self, key: &str, value: &Value) -> Result<()> {
        let limits = self.limits;
        if key.len() as u64 > limits.name_bytes {
            return Err(Error::limit("a key of metadata or of an attribute is too long").found(key.len()));
        }
        self.value_nodes = self.value_nodes.saturating_add(value.nodes().iter().map(Node::weight).sum());
        if self.value_nodes > limits.nodes {
            return Err(Error::limit("too many nodes in metadata and attributes")
                .expected(format!("at most {}, or --bound nodes=N", limits.nodes)));
        }
        if value.depth() > limits.nesting {
            return Err(Error::limit("a value is nested too deep")
                .expected(format!("at most {} levels, or --bound nesting=N", limits.nesting)));
        }
        self.hold(key.len() + value.bytes())
    }
}

impl LossSink for CatalogBuilder<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.hold(loss.what.len() + loss.why.len())?;
        self.proof.catalog.losses.push(loss);
        Ok(())
    }
}

impl CatalogSink for CatalogBuilder<'_> {
    fn storage(&mut self, mut storage: Storage) -> Result<StorageId> {
        if let Some(digest) = storage.digest.take_if(|digest| digest.algorithm.start().is_err()) {
            self.leave_unchecked(digest.algorithm)?;
        }
        match &storage.place {
            Place::File { file, offset } => {
                let name = self.source.name(*file);
                if name.is_empty() {
                    return Err(Error::plugin("a storage in a file that was not opened").found(file.0));
                }
                let file_len = self.source.len(*file);
                check_range(name, file_len, *offset, storage.len)?;
                self.proof.sharing.storage(*file, file_len, storage.len)?;
            }
            Place::Encoded { .. } => {}
            Place::Cast(_) | Place::Computed(_) => {
                return Err(Error::plugin("a reader describes bytes as they lie, and casts none"));
            }
            Place::Joined(joined) => self.check_joined(joined, &storage)?,
            Place::Inline(bytes) => {
                if bytes.len() as u64 != storage.len {
                    return Err(Error::plugin("an inline storage's length is not that of its bytes"));
                }
                self.hold(bytes.len())?;
            }
        }
        let id = u32::try_from(self.proof.catalog.storages.len())
            .ok()
            .filter(|&id| u64::from(id) < self.limits.entries)
            .ok_or_else(|| {
                Error::limit("too many storages")
                    .expected(format!("at most {}, or --bound entries=N", self.limits.entries))
            })?;
        self.proof.catalog.storages.push(storage);
        Ok(StorageId(id))
    }

    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype> {
        if let Some(built_in) = Dtype::named(info.name()).filter(|dtype| dtype.info() == Some(info)) {
            return Ok(built_in);
        }
        let known = &mut self.proof.catalog.extensions;
        let index = known.iter().position(|k| k.name() == info.name()).unwrap_or(known.len());
        if index == known.len() {
            if index >= 4096 {
                return Err(Error::limit("too many extension dtypes"));
            }
            known.push(info.clone());
        }
        if &known[index] != info {
            return Err(Error::plugin(format!("dtype {} is declared in two ways", info.name())));
        }
        Dtype::extension(index).ok_or_else(|| Error::limit("too many extension dtypes"))
    }

    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId> {
        // A name may be long because many tensors share its beginning, which the file has but once.
        self.hold(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Whole { storage, offset }))
    }

    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId> {
        self.hold(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Blocks(blocks)))
    }

    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId> {
        self.hold(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Grid(Box::new(grid))))
    }

    fn metadata(&mut self, key: &str, value: Value) -> Result<()> {
        self.hold_entry(key, &value)?;
        match self.proof.catalog.metadata.entry(key.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(_) => {
                return Err(Error::malformed("two metadata entries have this key").found(format!("{key:?}")));
            }
        }
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<NodeId> {
        self.hold(node.bytes.len() + node.class.len())?;
        self.proof.catalog.tree.push(node, self.limits)
    }

    fn root(&mut self, root: NodeId) -> Result<()> {
        self.proof.catalog.tree.set_root(root)
    }

    fn origin(&mut self, format: &str) -> Result<()> {
        self.hold(format.len())?;
        format.clone_into(&mut self.proof.catalog.origin);
        Ok(())
    }

    fn global(&mut self, name: &str) -> Result<()> {
        self.hold(name.len())?;
        self.proof.catalog.globals.push(name.to_owned());
        Ok(())
    }

    fn step(&mut self, step: &str) -> Result<()> {
        self.hold(step.len())?;
        self.proof.catalog.steps.push(step.to_owned());
        Ok(())
    }

    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\\', '\0']) {
            return Err(Error::plugin("a sidecar whose name is no file's in the folder").file(name));
        }
        self.hold(name.len() + bytes.len())?;
        match self.proof.catalog.sidecars.insert(name.to_owned(), bytes.to_vec()) {
            Some(_) => Err(Error::plugin("two sidecars of one name").file(name)),
            None => Ok(()),
        }
    }

    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()> {
        self.hold_entry(key, &value)?;
        let tensor = self.proof.catalog.tensors.get_mut(tensor.0 as usize);
        let tensor = tensor.ok_or_else(|| Error::plugin("an attribute of a tensor that is not there"))?;
        match tensor.attributes.entry(key.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(_) => {
                return Err(Error::malformed("two attributes of a tensor have this key")
                    .tensor(&tensor.name)
                    .found(format!("{key:?}")));
            }
        }
        Ok(())
    }
}

fn named(name: &str, dtype: Dtype, shape: &[u64], data: Data) -> Tensor {
    let (name, shape) = (name.to_owned(), shape.to_vec());
    Tensor { name, dtype, shape, bytes: 0, data, attributes: BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{ByteOrder, FileId, MemorySource, Region, StorageRange};

    fn build(check: impl FnOnce(&mut CatalogBuilder<'_>) -> Result<()>) -> Result<Catalog> {
        let source = MemorySource::file("x", vec![0_u8; 100]);
        let limits = Limits { expanded_bytes: 1000, ..Limits::default() };
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        check(&mut builder)?;
        builder.finish()
    }

    fn strided(shape: &[u64], offset: u64, strides: &[i64]) -> Vec<Block> {
        let region = Region::whole(shape);
        vec![Block { region, storage: StorageId(0), offset, strides: strides.to_vec() }]
    }

    #[test]
    fn storages_end_inside_their_file() {
        assert!(build(|b| b.storage(Storage::file(FileId(0), 0, 100)).map(drop)).is_ok());
        assert!(build(|b| b.storage(Storage::file(FileId(0), 1, 100)).map(drop)).is_err());
        assert!(build(|b| b.storage(Storage::file(FileId(0), u64::MAX, 2)).map(drop)).is_err());
        assert!(build(|b| b.storage(Storage::file(FileId(7), 0, 1)).map(drop)).is_err());
    }

    #[test]
    fn ranges_end_inside_the_storages_that_they_are_of() {
        let range = |storage, offset, len| StorageRange { storage: StorageId(storage), offset, len };
        let joined = |ranges: &'static [(u32, u64, u64)], order| {
            build(move |b| {
                b.storage(Storage::file(FileId(0), 0, 7).byte_order(ByteOrder::Big))?;
                b.storage(Storage::inline(*b"abcd").byte_order(ByteOrder::Big))?;
                let ranges: Vec<_> = ranges.iter().map(|&(s, o, l)| range(s, o, l)).collect();
                let joined = b.storage(Storage::joined(ranges).byte_order(order))?;
                b.tensor("t", Dtype::U32, &[2], joined, 0)?;
                b.storage(Storage::joined([range(2, 0, 1)]).byte_order(order)).map(drop).unwrap_err();
                Ok(())
            })
        };
        assert!(joined(&[(0, 2, 5), (1, 1, 3)], ByteOrder::Big).is_ok());
        assert!(joined(&[(0, 2, 5), (1, 0, 0), (1, 1, 3)], ByteOrder::Big).is_ok());
        for ranges in [&[(0, 2, 6), (1, 1, 3)][..], &[(0, 2, 5), (1, 2, 3)], &[(0, 0, 7), (9, 0, 1)]] {
            assert!(joined(ranges, ByteOrder::Big).is_err(), "{ranges:?}");
        }
        // Itself, one of another byte order, a length that overflows, one that is not the ranges'.
        assert!(joined(&[(0, 2, 5), (2, 0, 3)], ByteOrder::Big).is_err());
        assert!(joined(&[(0, 2, 5), (1, 1, 3)], ByteOrder::Little).is_err());
        assert!(joined(&[(0, 0, u64::MAX), (0, 0, u64::MAX)], ByteOrder::Big).is_err());
        let short = build(|b| {
            b.storage(Storage::inline(*b"abcd"))?;
            b.storage(Storage { len: 5, ..Storage::joined([range(0, 0, 4)]) }).map(drop)
        });
        assert!(short.is_err());
    }

    #[test]
    fn a_part_of_a_joined_storage_is_the_ranges_that_it_touches() {
        let range = |storage, offset, len| StorageRange { storage: StorageId(storage), offset, len };
        let Place::Joined(joined) = Storage::joined([range(0, 2, 5), range(1, 0, 0), range(2, 1, 3)]).place
        else {
            unreachable!()
        };
        let within = |offset, len| joined.within(offset, len).filter(|part| part.len > 0).collect::<Vec<_>>();
        assert_eq!(within(0, 8), [range(0, 2, 5), range(2, 1, 3)]);
        assert_eq!(within(4, 2), [range(0, 6, 1), range(2, 1, 1)]);
        assert_eq!(within(5, 1), [range(2, 1, 1)]);
        assert_eq!(within(7, 1), [range(2, 3, 1)]);
        assert_eq!(within(8, 0), []);
    }

    #[test]
    fn views_end_inside_their_storage() {
        let view = |shape: &[u64], offset, strides: &[i64]| {
            build(|b| {
                b.storage(Storage::file(FileId(0), 0, 96))?;
                b.tensor_of_blocks("t", Dtype::F32, shape, strided(shape, offset, strides)).map(drop)
            })
        };
        assert!(view(&[6, 4], 0, &[1, 6]).is_ok());
        assert!(view(&[6, 4], 4, &[1, 6]).is_err());
        assert!(view(&[24], 92, &[-1]).is_ok());
        assert!(view(&[24], 88, &[-1]).is_err());
        assert!(view(&[2, 2], 0, &[i64::MAX, i64::MAX]).is_err());
        // Broadcast: 400 bytes from 4 are within the limit of this test, 4000 are not.
        assert!(view(&[100], 0, &[0]).is_ok());
        assert!(view(&[1000], 0, &[0]).is_err());
    }

    #[test]
    fn one_plain_block_is_the_common_case() {
        let catalog = build(|b| {
            b.storage(Storage::file(FileId(0), 0, 96))?;
            b.tensor_of_blocks("t", Dtype::F32, &[3, 1, 2], strided(&[3, 1, 2], 8, &[2, 77, 1])).map(drop)
        })
        .unwrap();
        assert_eq!(catalog.tensors()[0].data, Data::Whole { storage: StorageId(0), offset: 8 });
    }

    #[test]
    fn names_are_unique_and_ties_are_found() {
        let same = |second: &'static str| {
            build(move |b| {
                let s = b.storage(Storage::file(FileId(0), 0, 96))?;
                b.tensor("a", Dtype::F32, &[4], s, 0)?;
                b.tensor(second, Dtype::F32, &[4], s, 0).map(drop)
            })
        };
        assert!(same("a").is_err());
        assert_eq!(same("b").unwrap().ties(), [TensorId(0), TensorId(0)]);
    }
}
