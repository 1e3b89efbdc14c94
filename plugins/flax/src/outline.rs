//! Plans the tree of a file. If the catalog's tree contains all tensors under their names, the file
//! gets this tree. Otherwise, the tree is built from the tensor names, which are split at dots.

use rmp::encode as msgpack;
use std::collections::{HashMap, HashSet};
use tensorferry_flax_file::array::encoded;
use tensorferry_flax_file::document::Key;
use tensorferry_flax_file::{COMPLEX, MAX_NESTING, SCALAR_CLASS};
use tensorferry_sdk::{
    CatalogView, Context, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity, TensorId,
};

/// Maximum number of keys that a name is split into. The last key contains the remaining part of
/// the name.
const MAX_PARTS: usize = MAX_NESTING / 2;

/// A value to write.
#[derive(Debug)]
pub(crate) enum PlannedValue {
    Map(Vec<(Key, u32)>),
    List(Vec<u32>),
    /// A value without children, encoded as msgpack.
    Leaf(Vec<u8>),
    Tensor {
        id: TensorId,
        is_scalar: bool,
    },
}

/// All values of a file, and the index of the root.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) items: Vec<PlannedValue>,
    pub(crate) root: u32,
}

/// Result of an attempt to use the catalog's tree.
pub(crate) enum FromTree {
    /// The tree can be written, with these losses.
    Kept(Outline, Vec<Loss>),
    /// The tree does not contain each tensor exactly once under its name, so it cannot be used.
    /// `has_state` is set if the tree also contains other values.
    Unusable { has_state: bool },
}

/// Splits a name into keys. If a prefix of the name is also a name, the name is not split, because
/// the prefix would have to be both a map and a tensor.
pub(crate) fn parts(name: &str, is_name: impl Fn(&str) -> bool) -> Vec<&str> {
    if name.match_indices('.').any(|(at, _)| is_name(&name[..at])) {
        vec![name]
    } else {
        name.splitn(MAX_PARTS, '.').collect()
    }
}

impl Outline {
    /// Creates a tree from the names of the tensors.
    pub(crate) fn of_names(
        catalog: &dyn CatalogView,
        tensors: &[TensorId],
        all: &HashSet<&str>,
    ) -> Result<Self> {
        let mut nest = TreeBuilder::default();
        if let &[id] = tensors
            && catalog.tensor(id).name.is_empty()
        {
            let root = nest.push(PlannedValue::Tensor { id, is_scalar: false })?;
            return Ok(nest.finish(root));
        }
        let root = nest.push(PlannedValue::Map(Vec::new()))?;
        for &id in tensors {
            let leaf = nest.push(PlannedValue::Tensor { id, is_scalar: false })?;
            nest.put(root, &parts(catalog.tensor(id).name, |name| all.contains(name)), leaf)?;
        }
        Ok(nest.finish(root))
    }

    /// Uses the catalog's tree if the tree contains all of `tensors`.
    pub(crate) fn of_tree(
        catalog: &dyn CatalogView,
        root: NodeId,
        tensors: &[TensorId],
        context: &dyn Context,
    ) -> Result<FromTree> {
        let mut walk = TreeWalk {
            catalog,
            context,
            // A key with dots is a module path, which is split. In trees from Flax and Orbax, keys
            // with dots are kept.
            cuts: !matches!(&*catalog.origin(), "flax" | "orbax"),
            wanted: tensors.iter().copied().collect(),
            written: HashSet::new(),
            nest: TreeBuilder::default(),
            losses: Vec::new(),
            has_state: false,
            visits: 0,
        };
        match walk.run(root)? {
            Some(root) if walk.wanted.is_empty() => Ok(FromTree::Kept(walk.nest.finish(root), walk.losses)),
            _ => Ok(FromTree::Unusable { has_state: walk.has_state }),
        }
    }
}

/// An outline that is being built.
#[derive(Default)]
struct TreeBuilder {
    items: Vec<PlannedValue>,
    /// Maps that were created for the keys of split names, by parent and key.
    made: HashMap<(u32, String), u32>,
}

impl TreeBuilder {
    fn push(&mut self, item: PlannedValue) -> Result<u32> {
        let id = u32::try_from(self.items.len()).map_err(|_| Error::limit("too many values"))?;
        self.items.push(item);
        Ok(id)
    }

    fn enter(&mut self, map: u32, key: Key, part: u32) {
        if let Some(PlannedValue::Map(entries)) = self.items.get_mut(map as usize) {
            entries.push((key, part));
        }
    }

    /// Inserts a value at the end of a path of keys.
    fn put(&mut self, mut map: u32, keys: &[&str], value: u32) -> Result<()> {
        let Some((last, before)) = keys.split_last() else { return Ok(()) };
        for key in before {
            map = match self.made.get(&(map, (*key).to_owned())) {
                Some(&made) => made,
                None => {
                    let made = self.push(PlannedValue::Map(Vec::new()))?;
                    self.enter(map, Key::Text((*key).to_owned()), made);
                    self.made.insert((map, (*key).to_owned()), made);
                    made
                }
            };
        }
        self.enter(map, Key::Text((*last).to_owned()), value);
        Ok(())
    }

    fn finish(self, root: u32) -> Outline {
        Outline { items: self.items, root }
    }
}

/// Walks a catalog's tree without recursion.
struct TreeWalk<'a> {
    catalog: &'a dyn CatalogView,
    context: &'a dyn Context,
    cuts: bool,
    wanted: HashSet<TensorId>,
    written: HashSet<TensorId>,
    nest: TreeBuilder,
    losses: Vec<Loss>,
    has_state: bool,
    visits: u64,
}

/// A container whose children are being visited.
struct OpenContainer {
    name: String,
    parts: Vec<(Key, NodeId)>,
    next: usize,
    item: u32,
    is_list: bool,
    /// The keys of a map that are strings, if keys are split at dots.
    texts: HashSet<String>,
}

impl TreeWalk<'_> {
    /// Walks the tree. Returns the index of the root, or `None` if the tree cannot be used.
    fn run(&mut self, root: NodeId) -> Result<Option<u32>> {
        let mut open: Vec<OpenContainer> = Vec::new();
        let Some(whole) = self.visit(root, String::new(), &mut open)? else { return Ok(None) };
        loop {
            let depth = open.len();
            let Some(top) = open.last_mut() else { break };
            let Some((key, node)) = top.parts.get(top.next).cloned() else {
                open.pop();
                continue;
            };
            top.next += 1;
            let (item, is_list) = (top.item, top.is_list);
            let name = if depth == 1 { key.to_string() } else { format!("{}.{key}", top.name) };
            let keys: Vec<String> = match &key {
                Key::Text(text) if self.cuts && !is_list => {
                    let is_taken = |name: &str| top.texts.contains(name);
                    parts(text, is_taken).into_iter().map(str::to_owned).collect()
                }
                _ => Vec::new(),
            };
            if open.len() + keys.len() > MAX_NESTING - 2 {
                return Ok(None);
            }
            let Some(part) = self.visit(node, name, &mut open)? else {
                return Ok(None);
            };
            if part == OMITTED {
                continue;
            }
            if let Some(PlannedValue::List(parts)) = self.nest.items.get_mut(item as usize) {
                parts.push(part);
            } else if keys.is_empty() {
                self.nest.enter(item, key, part);
            } else {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                self.nest.put(item, &keys, part)?;
            }
        }
        Ok(Some(whole))
    }

    /// Plans a node, and pushes the node to `open` if it has children. Returns `None` if the tree
    /// cannot be used.
    fn visit(&mut self, mut id: NodeId, name: String, open: &mut Vec<OpenContainer>) -> Result<Option<u32>> {
        self.visits += 1;
        let limits = self.context.limits();
        // Shared nodes are visited several times, so the number of visits must be limited.
        if self.visits > limits.nodes {
            return Ok(None);
        }
        if self.visits.is_multiple_of(1 << 16) {
            self.context.check_cancelled()?;
        }
        let mut node = self.catalog.node(id)?;
        while node.kind == NodeKind::ATTRIBUTED {
            self.report_loss(&name, "attributes of a value are dropped", false);
            let Some(&inner) = node.children.first() else { return Ok(None) };
            if inner >= id {
                return Err(Error::plugin("a tree node has a child that was declared after it"));
            }
            id = inner;
            node = self.catalog.node(id)?;
        }
        if node.children.iter().any(|child| *child >= id) {
            return Err(Error::plugin("a tree node has a child that was declared after it"));
        }
        let is_list = node.kind == NodeKind::LIST;
        let parts: Vec<(Key, NodeId)> = match node.kind {
            NodeKind::TENSOR => return self.tensor(&node, &name, open.last().is_some_and(|top| top.is_list)),
            NodeKind::MAP => {
                if !matches!(&*node.class, "" | "collections.OrderedDict" | "dict") {
                    self.report_loss(
                        &name,
                        &format!("a mapping of class {} becomes a plain map", node.class),
                        true,
                    );
                }
                let mut parts = Vec::new();
                for (key, value) in node.entries() {
                    let key = self.catalog.node(key)?;
                    match (key.as_text(), key.as_wide_int()) {
                        (Some(text), _) => parts.push((Key::Text(text.to_owned()), value)),
                        (_, Some(number)) if fits(number) => parts.push((Key::Int(number), value)),
                        _ => self.report_loss(
                            &name,
                            "an entry is dropped: its key is not a string or an integer",
                            false,
                        ),
                    }
                }
                parts
            }
            NodeKind::LIST | NodeKind::TUPLE => {
                if !is_list {
                    self.report_loss(
                        &name,
                        "a tuple becomes a map with item numbers as keys, as in Flax",
                        true,
                    );
                }
                let items = node.children.iter().enumerate();
                items.map(|(number, &child)| (Key::Text(number.to_string()), child)).collect()
            }
            _ => {
                self.has_state = true;
                let leaf = match leaf(&node)? {
                    Some(leaf) => leaf,
                    None => {
                        self.report_loss(
                            &name,
                            &format!("a value of class {:?} becomes nil", node.class),
                            false,
                        );
                        vec![0xc0]
                    }
                };
                return self.nest.push(PlannedValue::Leaf(leaf)).map(Some);
            }
        };
        let item = if is_list { PlannedValue::List(Vec::new()) } else { PlannedValue::Map(Vec::new()) };
        let item = self.nest.push(item)?;
        let texts = parts.iter().filter_map(|(key, _)| match key {
            Key::Text(text) => Some(text.clone()),
            Key::Int(_) => None,
        });
        let texts: HashSet<String> = if self.cuts && !is_list { texts.collect() } else { HashSet::new() };
        open.push(OpenContainer { name, parts, next: 0, item, is_list, texts });
        Ok(Some(item))
    }

    fn tensor(&mut self, node: &Node, name: &str, is_in_list: bool) -> Result<Option<u32>> {
        let id = node.as_tensor().ok_or_else(|| Error::plugin("a tensor node has no tensor"))?;
        if id.0 >= self.catalog.tensor_count() || self.catalog.tensor(id).name != name {
            return Ok(None);
        }
        if self.wanted.remove(&id) {
            self.written.insert(id);
            let is_scalar = &*node.class == SCALAR_CLASS && self.catalog.tensor(id).shape.is_empty();
            return self.nest.push(PlannedValue::Tensor { id, is_scalar }).map(Some);
        }
        // The tensor was omitted, which has already been reported, or it occurs twice in the tree.
        // A tree with duplicates cannot be written.
        match (self.written.contains(&id), is_in_list) {
            (true, _) => Ok(None),
            (false, true) => self.nest.push(PlannedValue::Leaf(vec![0xc0])).map(Some),
            (false, false) => Ok(Some(OMITTED)),
        }
    }

    fn report_loss(&mut self, name: &str, what: &str, is_changed: bool) {
        let what_of = if name.is_empty() { "." } else { name };
        let loss = Loss::new(LossKind::State, what_of, what);
        self.losses.push(if is_changed { loss.severity(Severity::Changed) } else { loss });
    }
}

/// The index of an omitted value.
const OMITTED: u32 = u32::MAX;

/// Returns whether msgpack can represent an integer.
fn fits(number: i128) -> bool {
    i64::try_from(number).is_ok() || u64::try_from(number).is_ok()
}

/// Encodes a value without children. Returns `None` if msgpack or Flax cannot represent it.
fn leaf(node: &Node) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match node.kind {
        NodeKind::NONE => bytes.push(0xc0),
        NodeKind::BOOL => bytes.push(0xc2 + u8::from(node.as_bool() == Some(true))),
        NodeKind::INT => match node.as_wide_int().filter(|number| fits(*number)) {
            Some(number) => integer(&mut bytes, number)?,
            None => return Ok(None),
        },
        NodeKind::FLOAT => match (node.as_float(), &*node.class) {
            #[expect(clippy::cast_possible_truncation, reason = "the value was widened from 32 bits")]
            (Some(number), "F32") => encoded(msgpack::write_f32(&mut bytes, number as f32))?,
            (Some(number), _) => encoded(msgpack::write_f64(&mut bytes, number))?,
            _ => return Ok(None),
        },
        NodeKind::TEXT => encoded(msgpack::write_str(&mut bytes, node.as_text().unwrap_or_default()))?,
        NodeKind::BYTES => encoded(msgpack::write_bin(&mut bytes, &node.bytes))?,
        NodeKind::COMPLEX => {
            encoded(msgpack::write_ext_meta(&mut bytes, 19, COMPLEX))?;
            encoded(msgpack::write_array_len(&mut bytes, 2))?;
            for half in node.bytes.chunks_exact(8) {
                let half: [u8; 8] = half.try_into().unwrap_or_default();
                encoded(msgpack::write_f64(&mut bytes, f64::from_le_bytes(half)))?;
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(bytes))
}

/// Encodes an integer in the fewest bytes.
pub(crate) fn integer(bytes: &mut Vec<u8>, number: i128) -> Result<()> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => encoded(msgpack::write_uint(bytes, number)),
        (_, Ok(number)) => encoded(msgpack::write_sint(bytes, number)),
        _ => Err(Error::plugin("an integer does not fit msgpack")),
    }
}
