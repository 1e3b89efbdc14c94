//! A tree contains the non-tensor state of a checkpoint. The tree is an arena of nodes that refer
//! to tensors by index.
//!
//! A node may refer only to nodes that already exist. A tree therefore has no cycles, and building
//! or dropping a tree does not require recursion. Several parents may share a node.
//!
//! No mapping contains the same string key or integer key twice.

use crate::{Dtype, DtypeInfo, Error, Limits, Result, TensorId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Estimated memory of a node in bytes, including the data that a reader stores for it.
const NODE_BYTES: u64 = 320;

/// The id of a node in a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// The kind of a node, as an open set of numbers. Treat an unknown kind as [`NodeKind::OBJECT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeKind(pub u32);

impl NodeKind {
    /// No value.
    pub const NONE: Self = Self(1);
    /// A boolean, as one byte that is 0 or 1.
    pub const BOOL: Self = Self(2);
    /// A signed integer of any length, in two's complement, little-endian, with at least one byte.
    /// The class of the node is the name of the integer's dtype in the file, if it has one.
    pub const INT: Self = Self(3);
    /// An f64, little-endian. The class has the same meaning as in [`INT`](Self::INT).
    pub const FLOAT: Self = Self(4);
    /// A complex number, as two little-endian f64.
    pub const COMPLEX: Self = Self(5);
    /// A UTF-8 string.
    pub const TEXT: Self = Self(6);
    /// Arbitrary bytes.
    pub const BYTES: Self = Self(7);
    /// A list. The children are the elements.
    pub const LIST: Self = Self(8);
    /// A tuple. The children are the elements.
    pub const TUPLE: Self = Self(9);
    /// A set. The children are the elements.
    pub const SET: Self = Self(10);
    /// A mapping. The children are alternating keys and values. The class is empty for the format's
    /// plain mapping type.
    pub const MAP: Self = Self(11);
    /// A tensor, given by its index in the catalog as a little-endian u32.
    pub const TENSOR: Self = Self(12);
    /// An object that only the format itself understands. The node contains the class and the parts
    /// of the object.
    pub const OBJECT: Self = Self(13);
    /// A value, followed by a mapping that contains the attributes of the value.
    pub const ATTRIBUTED: Self = Self(14);
    /// A sequence of numbers of one built-in dtype. The class of the node is the name of the dtype.
    /// The bytes are the contiguous elements, little-endian.
    pub const NUMBERS: Self = Self(15);
}

/// A node of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name of a class or function, such as `collections.OrderedDict`, or empty.
    pub class: Box<str>,
    /// Value of a scalar, in the encoding that [`NodeKind`] defines.
    pub bytes: Box<[u8]>,
    /// Child nodes, in order.
    pub children: Box<[NodeId]>,
}

impl Node {
    /// Creates a node of `kind` with these bytes and no children.
    #[must_use]
    pub fn scalar(kind: NodeKind, bytes: &[u8]) -> Self {
        Self { kind, class: "".into(), bytes: bytes.into(), children: [].into() }
    }

    /// Creates a node of `kind` with these children and no bytes.
    #[must_use]
    pub fn container(kind: NodeKind, class: &str, children: impl Into<Box<[NodeId]>>) -> Self {
        Self { kind, class: class.into(), bytes: [].into(), children: children.into() }
    }

    /// Creates a node of kind [`NONE`](NodeKind::NONE).
    #[must_use]
    pub fn none() -> Self {
        Self::scalar(NodeKind::NONE, &[])
    }

    /// Creates a boolean node.
    #[must_use]
    pub fn bool(value: bool) -> Self {
        Self::scalar(NodeKind::BOOL, &[value.into()])
    }

    /// Creates an integer node, with as few bytes as possible.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Self::wide_int(value.into())
    }

    /// Creates an integer node like [`int`](Self::int), but supports all values of built-in dtypes.
    #[must_use]
    pub fn wide_int(value: i128) -> Self {
        let bytes = value.to_le_bytes();
        let mut len = bytes.len();
        // The last byte is redundant if it only repeats the sign of the previous byte.
        while len > 1 {
            let sign = if bytes[len - 2] & 0x80 == 0 { 0 } else { 0xff };
            if bytes[len - 1] != sign {
                break;
            }
            len -= 1;
        }
        Self::scalar(NodeKind::INT, &bytes[..len])
    }

    /// Creates a floating-point node.
    #[must_use]
    pub fn float(value: f64) -> Self {
        Self::scalar(NodeKind::FLOAT, &value.to_le_bytes())
    }

    /// Creates a string node.
    #[must_use]
    pub fn text(value: &str) -> Self {
        Self::scalar(NodeKind::TEXT, value.as_bytes())
    }

    /// Creates a node that refers to a tensor of the catalog.
    #[must_use]
    pub fn tensor(id: TensorId) -> Self {
        Self::scalar(NodeKind::TENSOR, &id.0.to_le_bytes())
    }

    /// Creates a mapping node from keys and values.
    #[must_use]
    pub fn map(class: &str, entries: &[(NodeId, NodeId)]) -> Self {
        let children: Vec<NodeId> = entries.iter().flat_map(|&(key, value)| [key, value]).collect();
        Self::container(NodeKind::MAP, class, children)
    }

    /// Returns the string, or `None` if the node is not a string.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        (self.kind == NodeKind::TEXT).then(|| std::str::from_utf8(&self.bytes).ok())?
    }

    /// Returns the integer, or `None` if the node is not an integer or is longer than 64 bits.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        self.as_wide_int().and_then(|value| i64::try_from(value).ok())
    }

    /// Returns the integer, or `None` if the node is not an integer or is longer than 128 bits.
    #[must_use]
    pub fn as_wide_int(&self) -> Option<i128> {
        if self.kind != NodeKind::INT || self.bytes.is_empty() || self.bytes.len() > 16 {
            return None;
        }
        let negative = self.bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        wide[..self.bytes.len()].copy_from_slice(&self.bytes);
        Some(i128::from_le_bytes(wide))
    }

    pub(crate) fn with_bytes(self, bytes: impl Into<Box<[u8]>>) -> Self {
        Self { bytes: bytes.into(), ..self }
    }

    /// Returns the number, or `None` if the node is not a floating-point number.
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        let bytes = (self.kind == NodeKind::FLOAT).then_some(&*self.bytes)?;
        Some(f64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns the boolean, or `None` if the node is not a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        (self.kind == NodeKind::BOOL).then(|| self.bytes.first() == Some(&1))
    }

    /// Returns the tensor, or `None` if the node is not a tensor.
    #[must_use]
    pub fn as_tensor(&self) -> Option<TensorId> {
        let bytes = (self.kind == NodeKind::TENSOR).then_some(&*self.bytes)?;
        Some(TensorId(u32::from_le_bytes(bytes.try_into().ok()?)))
    }

    /// Iterates over the entries of a mapping, in order. Nodes of other kinds have no entries.
    pub fn entries(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let children: &[NodeId] = if self.kind == NodeKind::MAP { &self.children } else { &[] };
        children.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// Returns the weight of the node, which is 1 for a small node and larger for a node with many
    /// bytes or children.
    pub(crate) fn weight(&self) -> u64 {
        let held = self.class.len() + self.bytes.len() + size_of_val(&*self.children);
        1 + held as u64 / NODE_BYTES
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.bytes.len();
        let children = self.children.len();
        let sane = match self.kind {
            NodeKind::NONE => bytes == 0 && children == 0,
            NodeKind::BOOL => bytes == 1 && self.bytes[0] <= 1 && children == 0,
            NodeKind::INT => bytes >= 1 && children == 0,
            NodeKind::FLOAT => bytes == 8 && children == 0,
            NodeKind::COMPLEX => bytes == 16 && children == 0,
            NodeKind::TENSOR => bytes == 4 && children == 0,
            NodeKind::TEXT => std::str::from_utf8(&self.bytes).is_ok() && children == 0,
            NodeKind::BYTES => children == 0,
            NodeKind::LIST | NodeKind::TUPLE | NodeKind::SET => bytes == 0,
            NodeKind::MAP => bytes == 0 && children.is_multiple_of(2),
            NodeKind::ATTRIBUTED => bytes == 0 && children == 2,
            NodeKind::NUMBERS => self.is_whole_numbers() && children == 0,
            _ => true,
        };
        if sane {
            return Ok(());
        }
        Err(Error::plugin(format!(
            "a tree node of kind {} has {bytes} bytes and {children} children",
            self.kind.0
        )))
    }
}

impl Node {
    /// Returns whether the bytes are whole elements of the built-in dtype that the class specifies.
    fn is_whole_numbers(&self) -> bool {
        let width = Dtype::named(&self.class).and_then(Dtype::info).and_then(DtypeInfo::element_bytes);
        width.is_some_and(|width| self.bytes.len().is_multiple_of(width as usize))
    }
}

/// An arena of nodes and its root. Clones share the arena until a node is added to one of the
/// clones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    arena: Arc<Arena>,
    root: Option<NodeId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Arena {
    nodes: Vec<Node>,
    depths: Vec<u32>,
    /// Total weight of all nodes.
    weight: u64,
}

impl Tree {
    /// Adds a node. The children of the node must already exist.
    ///
    /// # Errors
    /// Returns a limit error if there are too many nodes or levels. Returns a malformed-data error
    /// if a mapping contains the same string key or integer key twice. Returns a plugin error if a
    /// child does not exist, or if the bytes do not match the kind.
    pub fn push(&mut self, node: Node, limits: &Limits) -> Result<NodeId> {
        let weight = self.arena.weight.saturating_add(node.weight());
        if weight > limits.nodes {
            return Err(Error::limit("too many nodes of non-tensor state")
                .expected(format!("at most {}", limits.nodes))
                .hint("if you trust the file, raise the limit with --limit nodes=N"));
        }
        node.check()?;
        let mut depth = 0;
        for child in &node.children {
            let below = self.arena.depths.get(child.0 as usize).ok_or_else(|| no_node(*child))?;
            depth = depth.max(below + 1);
        }
        if u64::from(depth) > limits.nesting {
            return Err(Error::limit("non-tensor state is nested too deeply")
                .expected(format!("at most {} levels", limits.nesting))
                .hint("if you trust the file, raise the limit with --limit nesting=N"));
        }
        self.check_keys(&node)?;
        let id = NodeId(u32::try_from(self.len()).map_err(|_| Error::limit("too many nodes"))?);
        let arena = Arc::make_mut(&mut self.arena);
        arena.nodes.push(node);
        arena.depths.push(depth);
        arena.weight = weight;
        Ok(id)
    }

    /// Checks that the keys of a mapping are unique. Programs that load a mapping with a duplicate
    /// key keep only one of its values.
    fn check_keys(&self, mapping: &Node) -> Result<()> {
        if mapping.kind != NodeKind::MAP || mapping.children.len() < 4 {
            return Ok(());
        }
        let mut seen = HashSet::with_capacity(mapping.children.len() / 2);
        let keys = mapping.entries().filter_map(|(key, _)| self.get(key));
        // Keys of other kinds, such as NaN, may have the same bytes and still be distinct.
        let named = keys.filter(|key| matches!(key.kind, NodeKind::TEXT | NodeKind::INT));
        for key in named {
            if !seen.insert(key) {
                let text = key.as_text().map(|text| format!("{text:?}"));
                let number = || key.as_wide_int().map_or_else(String::new, |number| number.to_string());
                return Err(Error::malformed("duplicate key in a mapping").found(text.unwrap_or_else(number)));
            }
        }
        Ok(())
    }

    /// Sets the root of the tree.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such node.
    pub fn set_root(&mut self, root: NodeId) -> Result<()> {
        self.get(root).ok_or_else(|| no_node(root))?;
        self.root = Some(root);
        Ok(())
    }

    /// Returns the root, or `None` if the tree is empty.
    #[must_use]
    pub fn root(&self) -> Option<NodeId> {
        self.root
    }

    /// Returns a node by its id.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes().get(id.0 as usize)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arena.nodes.len()
    }

    /// Returns whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arena.nodes.is_empty()
    }

    /// Returns the tree below a node, with tensor ids replaced according to `places`.
    pub(crate) fn subtree(&self, root: NodeId, places: &HashMap<TensorId, TensorId>) -> Result<Self> {
        let (nodes, depths) = (&self.arena.nodes, &self.arena.depths);
        let mut wanted = vec![false; nodes.len()];
        *wanted.get_mut(root.0 as usize).ok_or_else(|| no_node(root))? = true;
        // Children precede their parents, so one backward pass finds all nodes below the root.
        for index in (0..=root.0 as usize).rev().filter(|&index| index < nodes.len()) {
            if wanted[index] {
                nodes[index].children.iter().for_each(|child| wanted[child.0 as usize] = true);
            }
        }
        let is_as_before = |(node, wanted): (&Node, &bool)| {
            *wanted && node.as_tensor().is_none_or(|id| places.get(&id) == Some(&id))
        };
        if nodes.iter().zip(&wanted).all(is_as_before) {
            return Ok(Self { arena: self.arena.clone(), root: Some(root) });
        }
        let mut below = Arena::default();
        let mut moved = vec![NodeId(0); nodes.len()];
        for index in (0..nodes.len()).filter(|&index| wanted[index]) {
            let mut node = nodes[index].clone();
            if let Some(id) = node.as_tensor() {
                let place = places.get(&id);
                let place =
                    place.ok_or_else(|| Error::usage("the tree refers to a tensor that is left out"))?;
                node.bytes = place.0.to_le_bytes().into();
            }
            node.children.iter_mut().for_each(|child| *child = moved[child.0 as usize]);
            moved[index] = NodeId(u32::try_from(below.nodes.len()).unwrap_or(u32::MAX));
            below.weight += node.weight();
            below.nodes.push(node);
            below.depths.push(depths[index]);
        }
        Ok(Self { arena: Arc::new(below), root: Some(moved[root.0 as usize]) })
    }

    /// Returns the nodes. Children precede their parents.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.arena.nodes
    }
}

fn no_node(id: NodeId) -> Error {
    Error::plugin(format!("the tree has no node {}", id.0))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn integers_keep_their_value() {
        for value in [0, 1, -1, 127, 128, -128, -129, 255, 65535, i64::MAX, i64::MIN] {
            assert_eq!(Node::int(value).as_int(), Some(value));
        }
        assert_eq!(Node::int(-1).bytes.len(), 1);
    }

    #[test]
    fn a_clone_is_no_copy_until_it_differs() {
        let limits = Limits::default();
        let mut tree = Tree::default();
        let tensor = Node { class: "c".into(), ..Node::tensor(TensorId(0)) };
        let id = tree.push(tensor, &limits).unwrap();
        let root = tree.push(Node::container(NodeKind::LIST, "", [id]), &limits).unwrap();
        tree.set_root(root).unwrap();
        let places = |place| HashMap::from([(TensorId(0), TensorId(place))]);
        let same = tree.subtree(root, &places(0)).unwrap();
        assert!(Arc::ptr_eq(&same.arena, &tree.arena) && same == tree);
        let moved = tree.subtree(root, &places(7)).unwrap();
        assert_eq!(moved.get(id).unwrap().as_tensor(), Some(TensorId(7)));
        assert_eq!(&*moved.get(id).unwrap().class, "c");
        let mut longer = tree.clone();
        longer.push(Node::none(), &limits).unwrap();
        assert_eq!((tree.len(), longer.len()), (2, 3));
    }

    #[test]
    fn a_mapping_has_each_key_once() {
        let limits = Limits::default();
        let mut tree = Tree::default();
        let mut mapping = |keys: [Node; 2]| {
            let [a, b] = keys.map(|key| tree.push(key, &limits).unwrap());
            tree.push(Node::map("", &[(a, a), (b, b)]), &limits).map_err(|error| error.to_string())
        };
        let number = Node { class: "numpy.int64".into(), ..Node::int(1) };
        for keys in
            [[Node::text("a"), Node::text("b")], [Node::int(1), Node::text("1")], [Node::int(1), number]]
        {
            mapping(keys).unwrap();
        }
        for (key, declared) in [(Node::text("a"), "\"a\""), (Node::int(1), "1")] {
            let error = mapping([key.clone(), key]).unwrap_err();
            assert!(error.contains("duplicate key") && error.contains(declared), "{error}");
        }
        mapping([Node::float(f64::NAN), Node::float(f64::NAN)]).unwrap();
    }

    #[test]
    fn a_tree_has_no_cycles_and_bounded_depth() {
        let limits = Limits { nesting: 3, ..Limits::default() };
        let mut tree = Tree::default();
        assert!(tree.push(Node::container(NodeKind::LIST, "", [NodeId(0)]), &limits).is_err());
        let mut id = tree.push(Node::none(), &limits).unwrap();
        for _ in 0..3 {
            id = tree.push(Node::container(NodeKind::LIST, "", [id]), &limits).unwrap();
        }
        assert!(tree.push(Node::container(NodeKind::LIST, "", [id]), &limits).is_err());
    }
}
