//! Joins the objects in several files into one object. Mappings that have the same key in different
//! files are merged recursively.

use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{
    Block, CatalogSink, Dtype, DtypeInfo, Error, Grid, Loss, LossSink, Node, NodeId, NodeKind, Result,
    Storage, StorageId, TensorId, Value,
};

/// Maximum average number of joined entries per node. A node with several parents is joined again
/// each time it is reached.
const MAX_JOINS_PER_NODE: usize = 64;

/// A catalog that remembers the nodes added to it, so that they can be joined.
pub(super) struct CatalogJoiner<'c> {
    catalog: &'c mut dyn CatalogSink,
    nodes: HashMap<NodeId, JoinedNode>,
    /// Maps the content of a node to the first node with that content.
    first: HashMap<Node, NodeId>,
    steps: usize,
}

struct JoinedNode {
    node: Node,
    /// The first node that has the same content, including the content of all nodes below it.
    like: NodeId,
}

impl<'c> CatalogJoiner<'c> {
    pub(super) fn new(catalog: &'c mut dyn CatalogSink) -> Self {
        Self { catalog, nodes: HashMap::new(), first: HashMap::new(), steps: 0 }
    }

    /// Merges several mappings into one and returns its keys and values, in order.
    pub(super) fn entries(&mut self, mappings: &[&[NodeId]]) -> Result<Vec<NodeId>> {
        self.join_entries("", mappings)
    }

    /// Removes the mapping entries whose keys are in `keys`.
    pub(super) fn remove(&self, entries: &mut Vec<NodeId>, keys: &HashSet<String>) {
        if keys.is_empty() {
            return;
        }
        let is_kept = |entry: &&[NodeId]| {
            let key = entry.first().and_then(|key| self.nodes.get(key));
            !key.and_then(|known| known.node.as_text()).is_some_and(|key| keys.contains(key))
        };
        *entries = entries.chunks_exact(2).filter(is_kept).flatten().copied().collect();
    }

    fn join_entries(&mut self, path: &str, mappings: &[&[NodeId]]) -> Result<Vec<NodeId>> {
        let mut places: HashMap<NodeId, usize> = HashMap::new();
        let mut groups: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        for entry in mappings.iter().flat_map(|entries| entries.chunks_exact(2)) {
            let (key, value) = (entry[0], entry[1]);
            let place = *places.entry(self.first_equal(key)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, values)) => values.push(value),
                None => groups.push((key, vec![value])),
            }
        }
        self.count(places.len())?;
        let mut joined = Vec::with_capacity(2 * groups.len());
        for (key, values) in groups {
            let value = match *values {
                [only] => only,
                _ => self.join(&self.path(path, key), &values)?,
            };
            joined.extend([key, value]);
        }
        Ok(joined)
    }

    /// Joins the values that several files have under the same key.
    fn join(&mut self, path: &str, values: &[NodeId]) -> Result<NodeId> {
        let (mut nodes, first) = (Vec::with_capacity(values.len()), values[0]);
        if values.iter().all(|&value| self.first_equal(value) == self.first_equal(first)) {
            return Ok(first);
        }
        for value in values {
            nodes.extend(self.nodes.get(value).map(|known| known.node.clone()));
        }
        let differ = || Error::malformed(format!("files of one model differ in {path:?}"));
        let first = nodes.first().cloned().ok_or_else(differ)?;
        let is_like_first = |node: &Node| (node.kind, &node.class) == (first.kind, &first.class);
        if nodes.len() < values.len() || !nodes.iter().all(is_like_first) {
            return Err(differ());
        }
        let children: Vec<&[NodeId]> = nodes.iter().map(|node| &*node.children).collect();
        let children = match first.kind {
            NodeKind::MAP => self.join_entries(path, &children)?,
            // The attributes of a mapping may have an entry for each of its keys, as in `_metadata`
            // of a state dict. For this reason, the attributes are also joined.
            NodeKind::ATTRIBUTED => {
                let of_all = |place: usize| -> Vec<NodeId> {
                    children.iter().filter_map(|of_one| of_one.get(place).copied()).collect()
                };
                let [value, attributes] = [of_all(0), of_all(1)];
                vec![self.join(path, &value)?, self.join(path, &attributes)?]
            }
            _ => return Err(differ()),
        };
        self.node(Node { children: children.into(), ..first })
    }

    fn first_equal(&self, id: NodeId) -> NodeId {
        self.nodes.get(&id).map_or(id, |known| known.like)
    }

    fn path(&self, path: &str, key: NodeId) -> String {
        let key = self.nodes.get(&key).and_then(|known| known.node.as_text()).unwrap_or("?");
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    }

    fn count(&mut self, steps: usize) -> Result<()> {
        self.steps += steps;
        let max = MAX_JOINS_PER_NODE * (self.nodes.len() + 1024);
        if self.steps > max {
            return Err(Error::limit("too many entries in mappings that several files share")
                .expected(format!("at most {max} entries")));
        }
        Ok(())
    }
}

impl LossSink for CatalogJoiner<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.catalog.loss(loss)
    }
}

#[deny(clippy::missing_trait_methods)]
impl CatalogSink for CatalogJoiner<'_> {
    fn node(&mut self, node: Node) -> Result<NodeId> {
        let id = self.catalog.node(node.clone())?;
        let children = node.children.iter().map(|&child| self.first_equal(child)).collect();
        let form = Node { children, ..node.clone() };
        let like = *self.first.entry(form).or_insert(id);
        self.nodes.insert(id, JoinedNode { node, like });
        Ok(id)
    }

    fn storage(&mut self, storage: Storage) -> Result<StorageId> {
        self.catalog.storage(storage)
    }

    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype> {
        self.catalog.dtype(info)
    }

    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId> {
        self.catalog.tensor(name, dtype, shape, storage, offset)
    }

    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId> {
        self.catalog.tensor_of_blocks(name, dtype, shape, blocks)
    }

    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId> {
        self.catalog.tensor_of_tiles(name, dtype, shape, grid)
    }

    fn metadata(&mut self, key: &str, value: Value) -> Result<()> {
        self.catalog.metadata(key, value)
    }

    fn metadata_text(&mut self, key: &str, text: &str) -> Result<()> {
        self.catalog.metadata_text(key, text)
    }

    fn root(&mut self, root: NodeId) -> Result<()> {
        self.catalog.root(root)
    }

    fn origin(&mut self, format: &str) -> Result<()> {
        self.catalog.origin(format)
    }

    fn global(&mut self, name: &str) -> Result<()> {
        self.catalog.global(name)
    }

    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()> {
        self.catalog.attribute(tensor, key, value)
    }

    fn step(&mut self, step: &str) -> Result<()> {
        self.catalog.step(step)
    }

    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.catalog.sidecar(name, bytes)
    }
}
