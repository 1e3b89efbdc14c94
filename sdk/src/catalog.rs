//! A catalog is what an input holds: storages, tensors and their blocks, metadata, the tree of
//! non-tensor state, and the losses already known.
//!
//! A catalog cannot hold an extent that is out of bounds: see [`CatalogBuilder`](crate::CatalogBuilder).

use crate::{
    Block, Dtype, DtypeInfo, Error, Loss, Node, NodeId, Region, Result, Storage, StorageId, Tree,
    row_major_strides,
};
use std::collections::{BTreeMap, HashMap};

/// A tensor of a catalog, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Where a tensor's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Data {
    /// It has no bytes.
    Empty,
    /// Row-major, side by side: the common case.
    Whole {
        /// The storage that holds it.
        storage: StorageId,
        /// Bytes from the storage's start.
        offset: u64,
    },
    /// Anything else: blocks that tile it.
    Blocks(Vec<Block>),
}

/// A tensor of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in its catalog; any UTF-8, also empty.
    pub name: String,
    /// What an element is.
    pub dtype: Dtype,
    /// Its dimensions, in elements; a scalar has none.
    pub shape: Vec<u64>,
    /// Its logical length: row-major, little-endian, contiguous.
    pub bytes: u64,
    /// Where its bytes are.
    pub data: Data,
    /// What else is known of it, for the user to see.
    pub labels: BTreeMap<String, String>,
}

/// What an input holds; every extent in bounds, every tensor tiled.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub(crate) storages: Vec<Storage>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) extensions: Vec<DtypeInfo>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tree: Tree,
    pub(crate) losses: Vec<Loss>,
    pub(crate) origin: String,
    pub(crate) globals: Vec<String>,
}

impl Catalog {
    /// The tensors, in the reader's order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
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
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tree of non-tensor state; empty where the format has none.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What the reader said that the catalog cannot carry.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// The format that the tensors came from.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What the input asked its reader to call.
    #[must_use]
    pub fn globals(&self) -> &[String] {
        &self.globals
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

    /// The blocks of a tensor, the common case spelled out; none if it is empty.
    #[must_use]
    pub fn blocks(&self, tensor: &Tensor) -> Vec<Block> {
        match &tensor.data {
            Data::Empty => Vec::new(),
            Data::Whole { storage, offset } => vec![Block {
                region: Region::whole(&tensor.shape),
                storage: *storage,
                offset: *offset,
                strides: row_major_strides(&tensor.shape),
            }],
            Data::Blocks(blocks) => blocks.clone(),
        }
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
        })
    }

    /// The same catalog with other metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, String>) -> Self {
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
