//! Builds catalogs. A reader fills a [`CatalogSink`]. The only implementation that creates a
//! [`Catalog`] is [`CatalogBuilder`], which checks each extent as it is added.

use crate::catalog_checker::CatalogChecker;
use crate::source::check_range;
use crate::{
    Block, Catalog, Data, DigestAlgorithm, Dtype, DtypeInfo, Error, Grid, JoinedRanges, Limits, Loss,
    LossKind, LossSink, Node, NodeId, Result, Severity, Source, Storage, StorageId, StorageLocation, Tensor,
    TensorId, Value,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Receives the content that a reader finds in an input. Use a [loss](LossSink::loss) to report
/// content of the input that the catalog cannot represent. Each call is checked before it returns.
pub trait CatalogSink: LossSink {
    /// Adds a storage, which is a location that contains bytes.
    ///
    /// # Errors
    /// Returns a malformed-data error if the storage extends past the end of its file. Returns a
    /// malformed-data error if a range of a joined storage extends past the end of the underlying
    /// storage. Returns a plugin error if a joined storage refers to a storage that does not exist
    /// or is itself joined. Returns an unsupported error if a joined storage mixes byte orders.
    /// Returns a limit error if there are too many storages or bytes.
    fn storage(&mut self, storage: Storage) -> Result<StorageId>;

    /// Declares a dtype that is not built in. Declaring the same dtype again returns the same id.
    ///
    /// # Errors
    /// Returns a plugin error if a dtype with this name but different properties is already
    /// declared.
    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype>;

    /// Adds a tensor whose elements are contiguous and row-major, starting `offset` bytes into
    /// `storage`. A tensor of strings ([`Dtype::STR`]) uses all bytes from that offset to the end
    /// of the storage.
    ///
    /// # Errors
    /// Returns a malformed-data error if the name is already used or the bytes are not inside the
    /// storage. Returns a limit error if there are too many tensors or the name is too long.
    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId>;

    /// Adds a tensor that consists of blocks. The blocks must cover the tensor exactly once. A
    /// tensor without elements needs no blocks.
    ///
    /// # Errors
    /// Returns the errors of [`tensor`](Self::tensor), and a malformed-data error if the blocks
    /// leave a gap or overlap.
    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId>;

    /// Adds a tensor that consists of tiles of one shape, each with its own storage. Use this
    /// function for arrays of chunks, which may have millions of chunks.
    ///
    /// # Errors
    /// Returns the errors of [`tensor`](Self::tensor), and a malformed-data error if the number of
    /// tiles does not match the shape. Returns a plugin error if a tile is missing and there is no
    /// fill. Returns an unsupported error for dtypes whose elements are not whole bytes.
    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId>;

    /// Adds a metadata entry. If the format stores text, use [`Value::text`]. Other values keep
    /// their types.
    ///
    /// # Errors
    /// Returns a malformed-data error if the key is already used, or a limit error if the metadata
    /// is too large.
    fn metadata(&mut self, key: &str, value: Value) -> Result<()>;

    /// Adds a metadata entry with a text value.
    fn metadata_text(&mut self, key: &str, text: &str) -> Result<()> {
        self.metadata(key, Value::text(text))
    }

    /// Adds a node of the tree. The children of the node must already have been added.
    fn node(&mut self, node: Node) -> Result<NodeId>;

    /// Sets the root of the tree.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such node.
    fn root(&mut self, root: NodeId) -> Result<()>;

    /// Sets the format that the tensors were converted from, if the file records it.
    fn origin(&mut self, format: &str) -> Result<()>;

    /// Adds a function or class that the input asks a program that reads it to call. The host never
    /// calls it, but lists it for the user.
    fn global(&mut self, name: &str) -> Result<()>;

    /// Adds an attribute of a tensor, such as its unit or the spacing along its axes. Writers of
    /// formats with [`Capabilities::ATTRIBUTES`](crate::Capabilities::ATTRIBUTES) receive the
    /// attribute. For other formats, the attribute is a loss.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist, or a malformed-data error if the tensor
    /// already has this key. Returns a limit error if the attributes are too large.
    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()>;

    /// Adds a step, in the syntax of `--step`. When the catalog is converted, the step is applied
    /// before the user's own steps. For example, a step can rename tensors or reorder rows,
    /// depending on a reader option. Steps are not applied when the input is only shown.
    ///
    /// # Errors
    /// Returns an unsupported error if the host does not support steps, or a limit error if the
    /// steps are too large.
    fn step(&mut self, step: &str) -> Result<()> {
        let _ = step;
        Err(Error::unsupported("this host does not accept steps from a reader"))
    }

    /// Adds a file to the output folder, next to the tensors. An example is a configuration file
    /// made from the metadata. The host treats the file like a file in the folder of the input's
    /// weights. If the output is a single file, the host reports the added file as a loss.
    ///
    /// # Errors
    /// Returns a plugin error if the name is already used or is not a plain file name. Returns an
    /// unsupported error if the host does not support such files. Returns a limit error if the
    /// files are too large.
    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let _ = bytes;
        Err(Error::unsupported("this host does not accept files from a reader").file(name))
    }
}

/// Builds a [`Catalog`], and checks each part as it is added.
pub struct CatalogBuilder<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    proof: CatalogChecker<'a>,
    inline_bytes: u64,
    value_nodes: u64,
    /// Number of ranges in all joined storages together.
    joined_ranges: u64,
}

impl<'a> CatalogBuilder<'a> {
    /// Creates an empty catalog for an input of this format.
    #[must_use]
    pub fn new(format: &str, source: &'a dyn Source, limits: &'a Limits) -> Self {
        Self {
            source,
            limits,
            proof: CatalogChecker::new(
                Catalog { origin: format.to_owned(), limits: limits.clone(), ..Catalog::default() },
                limits,
            ),
            inline_bytes: 0,
            value_nodes: 0,
            joined_ranges: 0,
        }
    }

    /// Returns the finished catalog.
    ///
    /// # Errors
    /// Returns a plugin error if the tree refers to a tensor that does not exist.
    pub fn finish(self) -> Result<Catalog> {
        self.proof.finish()
    }

    /// Adds a note that digests with an unknown algorithm are not checked. There is one note per
    /// algorithm.
    fn note_unknown_digest(&mut self, algorithm: DigestAlgorithm) -> Result<()> {
        let what = format!("digest algorithm {}", algorithm.0);
        if self.proof.catalog.losses.iter().any(|loss| loss.what == what) {
            return Ok(());
        }
        let why =
            "this version of ferry does not know the algorithm, so bytes with such a digest are not checked";
        self.loss(Loss::new(LossKind::Metadata, what, why).severity(Severity::Note))
    }

    /// Counts names, metadata, losses and inline bytes, which are kept in memory. The total size of
    /// this content is limited to the maximum size of a header.
    fn count_bytes(&mut self, bytes: usize) -> Result<()> {
        self.inline_bytes = self.inline_bytes.saturating_add(bytes as u64);
        if self.inline_bytes > self.limits.header_bytes {
            return Err(Error::limit("the catalog holds too many bytes")
                .expected(format!("at most {}", self.limits.header_bytes))
                .hint("if you trust the file, raise the limit with --limit header_bytes=N"));
        }
        Ok(())
    }
}

impl CatalogBuilder<'_> {
    /// Checks that the ranges refer only to existing storages that are not themselves joined. As a
    /// result, no storage can contain itself.
    fn check_joined(&mut self, joined: &JoinedRanges, storage: &Storage) -> Result<()> {
        self.joined_ranges = self.joined_ranges.saturating_add(joined.ranges().len() as u64);
        if self.joined_ranges > self.limits.entries {
            return Err(Error::limit("too many ranges of joined storages")
                .expected(format!("at most {}", self.limits.entries))
                .hint("if you trust the file, raise the limit with --limit entries=N"));
        }
        let mut total = 0_u64;
        for range in joined.ranges() {
            let part = self.proof.catalog.storage(range.storage);
            let part = part.ok_or_else(|| Error::plugin(format!("no storage {}", range.storage.0)))?;
            if matches!(part.location, StorageLocation::Joined(_)) {
                return Err(Error::plugin("a joined storage contains another joined storage"));
            }
            if part.byte_order != storage.byte_order {
                let error = Error::unsupported("a joined storage mixes byte orders");
                return Err(error
                    .expected(format!("{:?}", storage.byte_order))
                    .found(format!("{:?}", part.byte_order)));
            }
            check_range("", part.len, range.offset, range.len)
                .map_err(|error| error.context("a range of a joined storage is out of bounds"))?;
            self.proof.share(range.storage, range.offset..range.offset + range.len, range.len)?;
            total = total
                .checked_add(range.len)
                .ok_or_else(|| Error::malformed("the length of a joined storage exceeds 64 bits"))?;
        }
        if total == storage.len {
            return Ok(());
        }
        let error = Error::plugin("the length of a joined storage differs from the sum of its ranges");
        Err(error.expected(total).found(storage.len))
    }

    /// Counts an entry of the metadata or an attribute, which is kept in memory.
    fn count_entry(&mut self, key: &str, value: &Value) -> Result<()> {
        let limits = self.limits;
        if key.len() as u64 > limits.name_bytes {
            return Err(Error::limit("a metadata or attribute key is too long").found(key.len()));
        }
        self.value_nodes = self.value_nodes.saturating_add(value.nodes().iter().map(Node::weight).sum());
        if self.value_nodes > limits.nodes {
            return Err(Error::limit("too many nodes in metadata and attributes")
                .expected(format!("at most {}", limits.nodes))
                .hint("if you trust the file, raise the limit with --limit nodes=N"));
        }
        if value.depth() > limits.nesting {
            return Err(Error::limit("a value is nested too deeply")
                .expected(format!("at most {} levels", limits.nesting))
                .hint("if you trust the file, raise the limit with --limit nesting=N"));
        }
        self.count_bytes(key.len() + value.bytes())
    }
}

impl LossSink for CatalogBuilder<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.count_bytes(loss.what.len() + loss.why.len())?;
        self.proof.catalog.losses.push(loss);
        Ok(())
    }
}

impl CatalogSink for CatalogBuilder<'_> {
    fn storage(&mut self, mut storage: Storage) -> Result<StorageId> {
        if let Some(digest) = storage.digest.take_if(|digest| digest.algorithm.start().is_err()) {
            self.note_unknown_digest(digest.algorithm)?;
        }
        match &storage.location {
            StorageLocation::File { file, offset } => {
                let name = self.source.name(*file);
                if name.is_empty() {
                    return Err(
                        Error::plugin("a storage is in a file that has not been opened").found(file.0)
                    );
                }
                let file_len = self.source.len(*file);
                check_range(name, file_len, *offset, storage.len)?;
                self.proof.sharing.storage(*file, file_len, storage.len)?;
            }
            StorageLocation::Encoded { .. } => {}
            StorageLocation::Cast(_) | StorageLocation::Computed(_) => {
                return Err(Error::plugin("a reader cannot add cast or computed storages"));
            }
            StorageLocation::Joined(joined) => self.check_joined(joined, &storage)?,
            StorageLocation::Inline(bytes) => {
                if bytes.len() as u64 != storage.len {
                    return Err(Error::plugin(
                        "the declared length of an inline storage differs from the number of its bytes",
                    ));
                }
                self.count_bytes(bytes.len())?;
            }
        }
        let id = u32::try_from(self.proof.catalog.storages.len())
            .ok()
            .filter(|&id| u64::from(id) < self.limits.entries)
            .ok_or_else(|| {
                Error::limit("too many storages")
                    .expected(format!("at most {}", self.limits.entries))
                    .hint("if you trust the file, raise the limit with --limit entries=N")
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
            return Err(Error::plugin(format!("dtype {} has two different declarations", info.name())));
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
        // The total length of all names is limited, because many long names can share a prefix that
        // the file stores only once.
        self.count_bytes(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Whole { storage, offset }))
    }

    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId> {
        self.count_bytes(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Blocks(blocks)))
    }

    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId> {
        self.count_bytes(name.len())?;
        self.proof.add(named(name, dtype, shape, Data::Grid(Box::new(grid))))
    }

    fn metadata(&mut self, key: &str, value: Value) -> Result<()> {
        self.count_entry(key, &value)?;
        match self.proof.catalog.metadata.entry(key.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(_) => {
                return Err(Error::malformed("duplicate metadata key").found(format!("{key:?}")));
            }
        }
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<NodeId> {
        self.count_bytes(node.bytes.len() + node.class.len())?;
        self.proof.catalog.tree.push(node, self.limits)
    }

    fn root(&mut self, root: NodeId) -> Result<()> {
        self.proof.catalog.tree.set_root(root)
    }

    fn origin(&mut self, format: &str) -> Result<()> {
        self.count_bytes(format.len())?;
        format.clone_into(&mut self.proof.catalog.origin);
        Ok(())
    }

    fn global(&mut self, name: &str) -> Result<()> {
        self.count_bytes(name.len())?;
        self.proof.catalog.globals.push(name.to_owned());
        Ok(())
    }

    fn step(&mut self, step: &str) -> Result<()> {
        self.count_bytes(step.len())?;
        self.proof.catalog.steps.push(step.to_owned());
        Ok(())
    }

    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\\', '\0']) {
            return Err(Error::plugin("the name of a sidecar is not a plain file name").file(name));
        }
        self.count_bytes(name.len() + bytes.len())?;
        match self.proof.catalog.sidecars.insert(name.to_owned(), bytes.to_vec()) {
            Some(_) => Err(Error::plugin("two sidecars have the same name").file(name)),
            None => Ok(()),
        }
    }

    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()> {
        self.count_entry(key, &value)?;
        let tensor = self.proof.catalog.tensors.get_mut(tensor.0 as usize);
        let tensor =
            tensor.ok_or_else(|| Error::plugin("an attribute refers to a tensor that does not exist"))?;
        match tensor.attributes.entry(key.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(_) => {
                return Err(Error::malformed("a tensor has two attributes with the same key")
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
        // The builder rejects a storage that is joined from itself, mixed byte orders, an overflow,
        // and a length that differs from the total length of the ranges.
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
        let StorageLocation::Joined(joined) =
            Storage::joined([range(0, 2, 5), range(1, 0, 0), range(2, 1, 3)]).location
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
        // Expanding 4 bytes to 400 is within the limit that this test sets, but expanding them to
        // 4000 is not.
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
