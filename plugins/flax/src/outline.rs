//! An outline is the tree of a file that is to be written: that of the catalog, where it has one that leads to all tensors by
//! their names, or else one that is made of the names, cut at their dots.

use rmp::encode as msgpack;
use std::collections::{HashMap, HashSet};
use tensorferry_flax_file::array::encoded;
use tensorferry_flax_file::document::Key;
use tensorferry_flax_file::{COMPLEX, MOST_NESTING, SCALAR_CLASS};
use tensorferry_sdk::{
    CatalogView, Context, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity, TensorId,
};

/// How many parts of a name become maps; the rest of it stays one key.
const MOST_PARTS: usize = MOST_NESTING / 2;

/// A value that is to be written.
#[derive(Debug)]
pub(crate) enum Planned {
    Map(Vec<(Key, u32)>),
    List(Vec<u32>),
    /// Already encoded.
    Leaf(Vec<u8>),
    Tensor {
        id: TensorId,
        is_scalar: bool,
    },
}

/// All values, and which of them is the whole.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) items: Vec<Planned>,
    pub(crate) root: u32,
}

/// What becomes of a catalog's tree.
pub(crate) enum FromTree {
    /// It is written, with these losses.
    Kept(Outline, Vec<Loss>),
    /// It does not lead to each tensor once and by its name; whether it holds anything else.
    GivenUp { has_state: bool },
}

/// The keys that a name is cut into. A name of which a part is another name stays whole, as it could not be told apart.
pub(crate) fn parts(name: &str, is_name: impl Fn(&str) -> bool) -> Vec<&str> {
    if name.match_indices('.').any(|(at, _)| is_name(&name[..at])) {
        vec![name]
    } else {
        name.splitn(MOST_PARTS, '.').collect()
    }
}

impl Outline {
    /// The tree that the names of tensors make.
    pub(crate) fn of_names(
        catalog: &dyn CatalogView,
        tensors: &[TensorId],
        all: &HashSet<&str>,
    ) -> Result<Self> {
        let mut nest = Nest::default();
        if let &[id] = tensors
            && catalog.tensor(id).name.is_empty()
        {
            let root = nest.push(Planned::Tensor { id, is_scalar: false })?;
            return Ok(nest.finish(root));
        }
        let root = nest.push(Planned::Map(Vec::new()))?;
        for &id in tensors {
            let leaf = nest.push(Planned::Tensor { id, is_scalar: false })?;
            nest.put(root, &parts(catalog.tensor(id).name, |name| all.contains(name)), leaf)?;
        }
        Ok(nest.finish(root))
    }

    /// The catalog's own tree, if it leads to all these tensors.
    pub(crate) fn of_tree(
        catalog: &dyn CatalogView,
        root: NodeId,
        tensors: &[TensorId],
        context: &dyn Context,
    ) -> Result<FromTree> {
        let mut walk = TreeWalk {
            catalog,
            context,
            // Keys with dots are the names of modules, but where a tree of the same kind has them as they are.
            cuts: !matches!(&*catalog.origin(), "flax" | "orbax"),
            wanted: tensors.iter().copied().collect(),
            written: HashSet::new(),
            nest: Nest::default(),
            losses: Vec::new(),
            has_state: false,
            visits: 0,
        };
        match walk.run(root)? {
            Some(root) if walk.wanted.is_empty() => Ok(FromTree::Kept(walk.nest.finish(root), walk.losses)),
            _ => Ok(FromTree::GivenUp { has_state: walk.has_state }),
        }
    }
}

/// An outline that grows.
#[derive(Default)]
struct Nest {
    items: Vec<Planned>,
    /// The maps that names were cut into, by what holds them and their key.
    made: HashMap<(u32, String), u32>,
}

impl Nest {
    fn push(&mut self, item: Planned) -> Result<u32> {
        let id = u32::try_from(self.items.len()).map_err(|_| Error::limit("too many values"))?;
        self.items.push(item);
        Ok(id)
    }

    fn enter(&mut self, map: u32, key: Key, part: u32) {
        if let Some(Planned::Map(entries)) = self.items.get_mut(map as usize) {
            entries.push((key, part));
        }
    }

    /// Puts a value at the end of these keys.
    fn put(&mut self, mut map: u32, keys: &[&str], value: u32) -> Result<()> {
        let Some((last, before)) = keys.split_last() else { return Ok(()) };
        for key in before {
            map = match self.made.get(&(map, (*key).to_owned())) {
                Some(&made) => made,
                None => {
                    let made = self.push(Planned::Map(Vec::new()))?;
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

/// A walk over a catalog's tree, without recursion.
struct TreeWalk<'a> {
    catalog: &'a dyn CatalogView,
    context: &'a dyn Context,
    cuts: bool,
    wanted: HashSet<TensorId>,
    written: HashSet<TensorId>,
    nest: Nest,
    losses: Vec<Loss>,
    has_state: bool,
    visits: u64,
}

/// A container whose parts are being walked.
struct Open {
    name: String,
    parts: Vec<(Key, NodeId)>,
    next: usize,
    item: u32,
    is_list: bool,
    /// The texts among its keys, if any of them is to be cut.
    texts: HashSet<String>,
}

impl TreeWalk<'_> {
    /// The root, or none where the tree is given up.
    fn run(&mut self, root: NodeId) -> Result<Option<u32>> {
        let mut open: Vec<Open> = Vec::new();
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
            if open.len() + keys.len() > MOST_NESTING - 2 {
                return Ok(None);
            }
            let Some(part) = self.visit(node, name, &mut open)? else {
                return Ok(None);
            };
            if part == LEFT_OUT {
                continue;
            }
            if let Some(Planned::List(parts)) = self.nest.items.get_mut(item as usize) {
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

    /// Plans a node, and leaves its parts to walk; none where the tree is given up.
    fn visit(&mut self, mut id: NodeId, name: String, open: &mut Vec<Open>) -> Result<Option<u32>> {
        self.visits += 1;
        let limits = self.context.limits();
        // What is shared is walked again, and could grow without end.
        if self.visits > limits.nodes {
            return Ok(None);
        }
        if self.visits.is_multiple_of(1 << 16) {
            self.context.check_cancelled()?;
        }
        let mut node = self.catalog.node(id)?;
        while node.kind == NodeKind::ATTRIBUTED {
            self.lose(&name, "attributes that were set on a value", false);
            let Some(&inner) = node.children.first() else { return Ok(None) };
            if inner >= id {
                return Err(Error::plugin("a node of the tree has a child that is not older"));
            }
            id = inner;
            node = self.catalog.node(id)?;
        }
        if node.children.iter().any(|child| *child >= id) {
            return Err(Error::plugin("a node of the tree has a child that is not older"));
        }
        let is_list = node.kind == NodeKind::LIST;
        let parts: Vec<(Key, NodeId)> = match node.kind {
            NodeKind::TENSOR => return self.tensor(&node, &name, open.last().is_some_and(|top| top.is_list)),
            NodeKind::MAP => {
                if !matches!(&*node.class, "" | "collections.OrderedDict" | "dict") {
                    self.lose(&name, &format!("a mapping of class {}: a plain one", node.class), true);
                }
                let mut parts = Vec::new();
                for (key, value) in node.entries() {
                    let key = self.catalog.node(key)?;
                    match (key.as_text(), key.as_wide_int()) {
                        (Some(text), _) => parts.push((Key::Text(text.to_owned()), value)),
                        (_, Some(number)) if fits(number) => parts.push((Key::Int(number), value)),
                        _ => self.lose(&name, "an entry whose key is no text and no integer", false),
                    }
                }
                parts
            }
            NodeKind::LIST | NodeKind::TUPLE => {
                if !is_list {
                    self.lose(&name, "a tuple: a map of its items' numbers, as Flax writes one", true);
                }
                let items = node.children.iter().enumerate();
                items.map(|(number, &child)| (Key::Text(number.to_string()), child)).collect()
            }
            _ => {
                self.has_state = true;
                let leaf = match leaf(&node)? {
                    Some(leaf) => leaf,
                    None => {
                        self.lose(&name, &format!("a value of class {:?}: nil", node.class), false);
                        vec![0xc0]
                    }
                };
                return self.nest.push(Planned::Leaf(leaf)).map(Some);
            }
        };
        let item = if is_list { Planned::List(Vec::new()) } else { Planned::Map(Vec::new()) };
        let item = self.nest.push(item)?;
        let texts = parts.iter().filter_map(|(key, _)| match key {
            Key::Text(text) => Some(text.clone()),
            Key::Int(_) => None,
        });
        let texts: HashSet<String> = if self.cuts && !is_list { texts.collect() } else { HashSet::new() };
        open.push(Open { name, parts, next: 0, item, is_list, texts });
        Ok(Some(item))
    }

    fn tensor(&mut self, node: &Node, name: &str, is_in_list: bool) -> Result<Option<u32>> {
        let id = node.as_tensor().ok_or_else(|| Error::plugin("a node that names no tensor"))?;
        if id.0 >= self.catalog.tensor_count() || self.catalog.tensor(id).name != name {
            return Ok(None);
        }
        if self.wanted.remove(&id) {
            self.written.insert(id);
            let is_scalar = &*node.class == SCALAR_CLASS && self.catalog.tensor(id).shape.is_empty();
            return self.nest.push(Planned::Tensor { id, is_scalar }).map(Some);
        }
        // One that is left out has its loss already; one that was there already would be written twice.
        match (self.written.contains(&id), is_in_list) {
            (true, _) => Ok(None),
            (false, true) => self.nest.push(Planned::Leaf(vec![0xc0])).map(Some),
            (false, false) => Ok(Some(LEFT_OUT)),
        }
    }

    fn lose(&mut self, name: &str, what: &str, is_changed: bool) {
        let what_of = if name.is_empty() { "." } else { name };
        let loss = Loss::new(LossKind::State, what_of, what);
        self.losses.push(if is_changed { loss.severity(Severity::Changed) } else { loss });
    }
}

/// Stands for a value that is not there.
const LEFT_OUT: u32 = u32::MAX;

/// Whether msgpack has room for an integer.
fn fits(number: i128) -> bool {
    i64::try_from(number).is_ok() || u64::try_from(number).is_ok()
}

/// A value without parts, encoded; `None`, if msgpack or Flax has nothing for it.
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
            #[expect(clippy::cast_possible_truncation, reason = "it was widened from 32 bits")]
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

/// An integer in as few bytes as it needs.
pub(crate) fn integer(bytes: &mut Vec<u8>, number: i128) -> Result<()> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => encoded(msgpack::write_uint(bytes, number)),
        (_, Ok(number)) => encoded(msgpack::write_sint(bytes, number)),
        _ => Err(Error::plugin("an integer that msgpack has no room for")),
    }
}
