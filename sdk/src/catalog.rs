//! A catalog describes the contents of an input: storages, tensors and their blocks, metadata, the
//! tree of non-tensor state, and the losses that the reader reported.
//!
//! All extents in a catalog are in bounds: see [`CatalogBuilder`](crate::CatalogBuilder).
//!
//! Ties are detected rather than declared: tensors with the same dtype, shape and blocks are tied
//! ([`Catalog::ties`](crate::Catalog::ties)).

use crate::{
    Data, Dtype, DtypeInfo, Error, Limits, Loss, Node, NodeId, Result, Storage, StorageId, StorageLocation,
    Tensor, TensorId, Tree, Value,
};
use std::collections::{BTreeMap, HashMap};

/// The contents of an input. Every extent is in bounds, and the blocks of every tensor cover it
/// exactly once.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub(crate) storages: Vec<Storage>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) extensions: Vec<DtypeInfo>,
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) tree: Tree,
    pub(crate) losses: Vec<Loss>,
    pub(crate) origin: String,
    pub(crate) globals: Vec<String>,
    pub(crate) steps: Vec<String>,
    pub(crate) sidecars: BTreeMap<String, Vec<u8>>,
    pub(crate) limits: Limits,
}

impl Catalog {
    /// Returns the tensors, in the order in which the reader added them.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns the limits that apply to this catalog and to catalogs derived from it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the storages.
    #[must_use]
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// Returns a tensor by its id.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> Option<&Tensor> {
        self.tensors.get(id.0 as usize)
    }

    /// Returns a storage by its id.
    #[must_use]
    pub fn storage(&self, id: StorageId) -> Option<&Storage> {
        self.storages.get(id.0 as usize)
    }

    /// Returns the properties of a dtype that is built in or declared in this catalog.
    #[must_use]
    pub fn dtype_info(&self, dtype: Dtype) -> Option<&DtypeInfo> {
        match dtype.extension_index() {
            Some(index) => self.extensions.get(index),
            None => dtype.info(),
        }
    }

    /// Returns the key-value metadata.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }

    /// Returns the tree of non-tensor state, which is empty if the format has none.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the losses that the reader reported: input content that the catalog cannot
    /// represent.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns the id of the format from which the tensors and the tree were read. The id is empty
    /// if a step changed the keys of the tree.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns this catalog without an origin. Steps that change the keys of the tree use this
    /// function.
    #[must_use]
    pub fn without_origin(self) -> Self {
        Self { origin: String::new(), ..self }
    }

    /// Returns the functions and classes that the input asks a program that reads it to call.
    #[must_use]
    pub fn globals(&self) -> &[String] {
        &self.globals
    }

    /// Returns the steps that the reader requested for conversions of the input.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Returns the files that the reader asked to add to the output folder, by name.
    #[must_use]
    pub fn sidecars(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.sidecars
    }

    /// Returns, for each tensor, the first tensor that has the same dtype and shape and refers to
    /// the same bytes. For a tensor that is not tied, the result is the tensor itself.
    #[must_use]
    pub fn ties(&self) -> Vec<TensorId> {
        let mut first: HashMap<(Dtype, &[u64], &Data), u32> = HashMap::with_capacity(self.tensors.len());
        (0_u32..)
            .zip(&self.tensors)
            .map(|(index, tensor)| {
                if tensor.data == Data::Empty {
                    return TensorId(index);
                }
                TensorId(*first.entry((tensor.dtype, &tensor.shape, &tensor.data)).or_insert(index))
            })
            .collect()
    }

    /// Returns a catalog with only the tensors in `kept`, under their new names. If `root` is set,
    /// the catalog also contains the tree below that node. `--part` uses this function. Storages,
    /// dtypes, metadata, losses and globals are kept.
    ///
    /// # Errors
    /// Returns a usage error if two tensors would get the same name, or if the tree below `root`
    /// refers to a tensor that is not kept.
    pub fn select(&self, kept: &[(TensorId, String)], root: Option<NodeId>) -> Result<Self> {
        let mut names = std::collections::HashSet::new();
        let mut tensors = Vec::with_capacity(kept.len());
        for (id, name) in kept {
            if !names.insert(name.as_str()) {
                return Err(Error::usage("two tensors would have the same name").tensor(name));
            }
            let tensor = self.tensor(*id).ok_or_else(|| Error::usage(format!("no tensor {}", id.0)))?;
            tensors.push(Tensor { name: name.clone(), ..tensor.clone() });
        }
        let tree = match root {
            Some(root) => {
                let places: HashMap<TensorId, TensorId> =
                    kept.iter().zip(0_u32..).map(|((id, _), place)| (*id, TensorId(place))).collect();
                self.tree.subtree(root, &places)?
            }
            None => Tree::default(),
        };
        Ok(Self {
            tensors,
            tree,
            storages: self.storages.clone(),
            extensions: self.extensions.clone(),
            metadata: self.metadata.clone(),
            losses: self.losses.clone(),
            origin: self.origin.clone(),
            globals: self.globals.clone(),
            steps: self.steps.clone(),
            sidecars: self.sidecars.clone(),
            limits: self.limits.clone(),
        })
    }

    /// Returns this catalog with an additional copy of each listed storage, and the ids of the
    /// copies. A tensor in the original and a tensor in the copy are not tied, although their bytes
    /// are the same.
    ///
    /// # Errors
    /// Returns an error if a storage does not exist, or if there are too many storages or too many
    /// bytes in memory.
    pub fn with_copied_storages(
        mut self,
        ids: &[StorageId],
        limits: &Limits,
    ) -> Result<(Self, Vec<StorageId>)> {
        let held = |storage: &Storage| {
            if let StorageLocation::Inline(bytes) = &storage.location { bytes.len() as u64 } else { 0 }
        };
        let mut inline = self.storages.iter().map(held).sum::<u64>();
        let mut again = Vec::with_capacity(ids.len());
        for id in ids {
            let storage = self.storage(*id).ok_or_else(|| Error::plugin(format!("no storage {}", id.0)))?;
            inline = inline.saturating_add(held(storage));
            if inline > limits.header_bytes || self.storages.len() as u64 >= limits.entries {
                return Err(Error::limit("too many storages, or too many bytes in memory"));
            }
            let storage = storage.clone();
            again.push(StorageId(
                u32::try_from(self.storages.len()).map_err(|_| Error::limit("too many storages"))?,
            ));
            self.storages.push(storage);
        }
        Ok((self, again))
    }

    /// Returns this catalog with different metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, Value>) -> Self {
        Self { metadata, ..self }
    }

    /// Returns this catalog with a different tree.
    ///
    /// # Errors
    /// Returns a plugin error if the tree refers to a tensor that does not exist.
    pub fn with_tree(self, tree: Tree) -> Result<Self> {
        let catalog = Self { tree, ..self };
        catalog.check_tree()?;
        Ok(catalog)
    }

    pub(crate) fn check_tree(&self) -> Result<()> {
        match self.tree.nodes().iter().filter_map(Node::as_tensor).find(|&id| self.tensor(id).is_none()) {
            Some(id) => {
                Err(Error::plugin(format!("the tree refers to tensor {}, which does not exist", id.0)))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{Block, CatalogBuilder, CatalogSink, FileId, MemorySource, Region};

    /// Returns a catalog with two tensors, `a` and `b`. Each tensor has six F32 elements, and both
    /// tensors are in one storage of a file. The tree refers to `b`.
    fn catalog() -> Catalog {
        let source = MemorySource::file("x", vec![0_u8; 48]);
        let limits = Limits::default();
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let storage = builder.storage(Storage::file(FileId(0), 0, 48)).unwrap();
        builder.tensor("a", Dtype::F32, &[2, 3], storage, 0).unwrap();
        let b = builder.tensor("b", Dtype::F32, &[2, 3], storage, 24).unwrap();
        let root = builder.node(Node::tensor(b)).unwrap();
        builder.root(root).unwrap();
        builder.finish().unwrap()
    }

    fn with(change: impl FnOnce(&mut Vec<Tensor>)) -> Result<Catalog> {
        let catalog = catalog();
        let mut tensors = catalog.tensors().to_vec();
        change(&mut tensors);
        catalog.with_tensors(tensors, None, &Limits::default())
    }

    #[test]
    fn other_tensors_are_proved_as_a_readers_are() {
        assert_eq!(with(|_| ()).unwrap().tensors(), catalog().tensors());
        let turned = |offset| Block {
            region: Region::whole(&[3, 2]),
            storage: StorageId(0),
            offset,
            strides: vec![1, 3],
        };
        let changed = with(|tensors| {
            tensors[0].shape = vec![3, 2];
            tensors[0].data = Data::Blocks(vec![turned(0)]);
            tensors[0].bytes = 999;
        });
        assert_eq!(changed.unwrap().tensors()[0].bytes, 24);
        for change in [
            (|tensors| tensors[1].name = "a".to_owned()) as fn(&mut Vec<Tensor>),
            |tensors| tensors[0].shape = vec![7, 2],
            |tensors| tensors[0].shape = vec![u64::MAX, 2],
            |tensors| tensors[0].data = Data::Empty,
            |tensors| tensors[0].data = Data::Whole { storage: StorageId(1), offset: 0 },
            |tensors| tensors[1].data = Data::Whole { storage: StorageId(0), offset: 28 },
            |tensors| tensors[0].dtype = Dtype::from_id(0x8000_0000),
            // Seven strings need seven lengths of eight bytes each.
            |tensors| (tensors[0].dtype, tensors[0].shape) = (Dtype::STR, vec![7]),
            // The tree still refers to the removed tensor.
            |tensors| drop(tensors.pop()),
        ] {
            assert!(with(change).is_err());
        }
        for (shape, offset) in [([3, 2], 28), ([2, 2], 0), ([3, 3], 0)] {
            assert!(
                with(|tensors| {
                    tensors[0].data = Data::Blocks(vec![turned(offset)]);
                    tensors[0].shape = shape.to_vec();
                })
                .is_err()
            );
        }
        let none = catalog().with_tensors(Vec::new(), Some(Tree::default()), &Limits::default()).unwrap();
        assert!(none.tensors().is_empty() && none.storages().len() == 1);
    }

    #[test]
    fn what_lies_in_a_storage_again_is_not_tied() {
        let tie = |tensors: &mut Vec<Tensor>| tensors[1].data = tensors[0].data.clone();
        let tied = with(tie).unwrap();
        assert_eq!(tied.ties(), [TensorId(0), TensorId(0)]);
        let (again, ids) = tied.with_copied_storages(&[StorageId(0)], &Limits::default()).unwrap();
        assert_eq!(again.storage(ids[0]), again.storage(StorageId(0)));
        let mut tensors = again.tensors().to_vec();
        tensors[1].data = Data::Whole { storage: ids[0], offset: 0 };
        let apart = again.with_tensors(tensors, None, &Limits::default()).unwrap();
        assert_eq!(apart.ties(), [TensorId(0), TensorId(1)]);
        assert!(apart.with_copied_storages(&[StorageId(9)], &Limits::default()).is_err());
    }
}
