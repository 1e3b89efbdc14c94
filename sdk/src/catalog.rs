//! A catalog is what an input holds: storages, tensors and their blocks, metadata, the tree of
//! non-tensor state, and the losses already known.
//!
//! A catalog cannot hold an extent that is out of bounds: see [`CatalogBuilder`](crate::CatalogBuilder).

use crate::{
    Data, Dtype, DtypeInfo, Error, Limits, Loss, Node, NodeId, Place, Result, Storage, StorageId, Tensor,
    TensorId, Tree, Value,
};
use std::collections::{BTreeMap, HashMap};

/// What an input holds; every extent in bounds, every tensor tiled.
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
    /// The tensors, in the reader's order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// What it was checked against, and what is made of it is.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The storages.
    #[must_use]
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// A tensor's facts by its place.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> Option<&Tensor> {
        self.tensors.get(id.0 as usize)
    }

    /// A storage by its place.
    #[must_use]
    pub fn storage(&self, id: StorageId) -> Option<&Storage> {
        self.storages.get(id.0 as usize)
    }

    /// The facts of a dtype, built in or interned here.
    #[must_use]
    pub fn dtype_info(&self, dtype: Dtype) -> Option<&DtypeInfo> {
        match dtype.extension_index() {
            Some(index) => self.extensions.get(index),
            None => dtype.info(),
        }
    }

    /// The key-value metadata.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }

    /// The tree of non-tensor state; empty where the format has none.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What the input has and the catalog cannot hold, as the reader reported it.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// The format that the tensors and the tree came from; empty if a step gave the tree other keys.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The same catalog, of which nothing says what format its tree is like: for a step that gives the
    /// tree other keys.
    #[must_use]
    pub fn without_origin(self) -> Self {
        Self { origin: String::new(), ..self }
    }

    /// The functions and classes that the input names for its reader to call.
    #[must_use]
    pub fn globals(&self) -> &[String] {
        &self.globals
    }

    /// The steps that its reader has it go through where it is converted.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The files that its reader has made for the folder that it is written to, by name.
    #[must_use]
    pub fn sidecars(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.sidecars
    }

    /// For each tensor, the first tensor that has the same dtype, shape and bytes by reference:
    /// tied tensors name one, all others themselves.
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

    /// A catalog of some of the tensors, renamed, and of the tree below `root`, if one is given:
    /// what `--part` leaves. Storages, dtypes, metadata, losses and globals stay.
    ///
    /// # Errors
    /// Usage, if two tensors get one name, or if the tree below `root` names one that is not kept.
    pub fn select(&self, kept: &[(TensorId, String)], root: Option<NodeId>) -> Result<Self> {
        let mut names = std::collections::HashSet::new();
        let mut tensors = Vec::with_capacity(kept.len());
        for (id, name) in kept {
            if !names.insert(name.as_str()) {
                return Err(Error::usage("two tensors would have one name").tensor(name));
            }
            let tensor = self.tensor(*id).ok_or_else(|| Error::usage(format!("no tensor {}", id.0)))?;
            tensors.push(Tensor { name: name.clone(), ..tensor.clone() });
        }
        let tree = match root {
            Some(root) => {
                let places: HashMap<TensorId, TensorId> =
                    kept.iter().zip(0_u32..).map(|((id, _), place)| (*id, TensorId(place))).collect();
                self.tree.below(root, &places)?
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

    /// The same catalog with these storages once more each, and the places of the second ones: tensors
    /// that lie in one and tensors that lie in the other are not tied, though the bytes are the same.
    ///
    /// # Errors
    /// A plugin error, for a storage that is not there; a limit, on storages or on what lies in memory.
    pub fn with_storages_again(
        mut self,
        ids: &[StorageId],
        limits: &Limits,
    ) -> Result<(Self, Vec<StorageId>)> {
        let held = |storage: &Storage| {
            if let Place::Inline(bytes) = &storage.place { bytes.len() as u64 } else { 0 }
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

    /// The same catalog with other metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, Value>) -> Self {
        Self { metadata, ..self }
    }

    /// The same catalog with another tree.
    ///
    /// # Errors
    /// A plugin error, if the tree names a tensor that is not there.
    pub fn with_tree(self, tree: Tree) -> Result<Self> {
        let catalog = Self { tree, ..self };
        catalog.check_tree()?;
        Ok(catalog)
    }

    pub(crate) fn check_tree(&self) -> Result<()> {
        match self.tree.nodes().iter().filter_map(Node::as_tensor).find(|&id| self.tensor(id).is_none()) {
            Some(id) => Err(Error::plugin(format!("the tree names tensor {}, which is not there", id.0))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{Block, CatalogBuilder, CatalogSink, FileId, MemorySource, Region};

    /// `a` and `b`, six F32 each, in one storage of a file; the tree names `b`.
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
            // Seven strings have seven lengths, of eight bytes each.
            |tensors| (tensors[0].dtype, tensors[0].shape) = (Dtype::STR, vec![7]),
            // The tree names it.
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
        let (again, ids) = tied.with_storages_again(&[StorageId(0)], &Limits::default()).unwrap();
        assert_eq!(again.storage(ids[0]), again.storage(StorageId(0)));
        let mut tensors = again.tensors().to_vec();
        tensors[1].data = Data::Whole { storage: ids[0], offset: 0 };
        let apart = again.with_tensors(tensors, None, &Limits::default()).unwrap();
        assert_eq!(apart.ties(), [TensorId(0), TensorId(1)]);
        assert!(apart.with_storages_again(&[StorageId(9)], &Limits::default()).is_err());
    }
}
