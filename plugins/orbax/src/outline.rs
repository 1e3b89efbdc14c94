//! The keys that lead to each array when Orbax restores the checkpoint. If the path to each array
//! in the catalog's tree matches the array's name, the keys come from this tree. Otherwise, the
//! names are split at dots. The indices of a list have no gaps.

use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{
    CatalogView, Context, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity, TensorId,
};

/// A dict key or a list index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) is_item: bool,
}

/// Keys of all arrays, and placeholders for list items that do not contain arrays.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) arrays: HashMap<TensorId, Vec<Key>>,
    /// Keys of each placeholder, and the Orbax name of the placeholder's type.
    pub(crate) places: Vec<(Vec<Key>, &'static str)>,
    pub(crate) losses: Vec<Loss>,
}

impl Outline {
    pub(crate) fn of(catalog: &dyn CatalogView, arrays: &[TensorId], context: &dyn Context) -> Result<Self> {
        let mut walk = TreeWalk {
            catalog,
            context,
            // A key with dots is the name of nested modules, so it is split. However, Flax and
            // Orbax trees keep such keys.
            cuts: !matches!(&*catalog.origin(), "flax" | "orbax"),
            wanted: arrays.iter().copied().collect(),
            outline: Self::default(),
            keys: Vec::new(),
            visits: 0,
            fits: true,
            has_lists: false,
        };
        if let Some(root) = catalog.root() {
            walk.run(root)?;
            if walk.fits && walk.wanted.is_empty() {
                return Ok(walk.outline);
            }
        }
        let mut outline = Self::of_names(catalog, arrays);
        if walk.has_lists {
            let why = "lists become dicts, because the tree does not lead to each array by its name";
            outline.losses.push(Loss::new(LossKind::State, ".", why).severity(Severity::Changed));
        }
        Ok(outline)
    }

    fn of_names(catalog: &dyn CatalogView, arrays: &[TensorId]) -> Self {
        let names: HashSet<&str> = arrays.iter().map(|&id| catalog.tensor(id).name).collect();
        let keys = |&id: &TensorId| (id, parts(catalog.tensor(id).name, |name| names.contains(name)));
        Self { arrays: arrays.iter().map(keys).collect(), ..Self::default() }
    }
}

/// Splits a name into keys at its dots. If a prefix of the name is also a name, the name is not
/// split, because a leaf cannot have children.
fn parts(name: &str, is_name: impl Fn(&str) -> bool) -> Vec<Key> {
    let is_taken = name.match_indices('.').any(|(at, _)| is_name(&name[..at]));
    let texts = if is_taken { vec![name] } else { name.split('.').collect() };
    texts.into_iter().map(|text| Key { text: text.to_owned(), is_item: false }).collect()
}

/// A non-recursive walk over a catalog's tree.
struct TreeWalk<'a> {
    catalog: &'a dyn CatalogView,
    context: &'a dyn Context,
    cuts: bool,
    wanted: HashSet<TensorId>,
    outline: Outline,
    /// Keys of the current position.
    keys: Vec<Key>,
    visits: u64,
    fits: bool,
    has_lists: bool,
}

/// A container whose children are being visited.
struct OpenContainer {
    parts: Vec<(Key, NodeId)>,
    next: usize,
    /// Number of keys on the path to the container.
    depth: usize,
    /// Whether the container is a list or is inside a list. Empty values in lists keep their
    /// positions.
    is_below_list: bool,
    /// Keys of this map. If one of these keys is a prefix of a key with dots, the longer key is not
    /// split.
    texts: HashSet<String>,
    /// The Orbax name of the container's type, which is used if the container is empty.
    empty: &'static str,
    has_any: bool,
}

impl TreeWalk<'_> {
    fn run(&mut self, root: NodeId) -> Result<()> {
        let mut open: Vec<OpenContainer> = Vec::new();
        self.visit(root, &mut open)?;
        while let Some(top) = open.last_mut() {
            self.keys.truncate(top.depth);
            let Some((key, node)) = top.parts.get(top.next).cloned() else {
                let (has_any, word) = (top.has_any, top.empty);
                open.pop();
                self.place(has_any, word, &mut open);
                continue;
            };
            top.next += 1;
            let keys = if self.cuts && !key.is_item {
                parts(&key.text, |name| top.texts.contains(name))
            } else {
                vec![key]
            };
            self.keys.extend(keys);
            self.visit(node, &mut open)?;
        }
        Ok(())
    }

    /// Visits a node. An array is recorded, and a container is opened.
    fn visit(&mut self, mut id: NodeId, open: &mut Vec<OpenContainer>) -> Result<()> {
        self.visits += 1;
        // A shared node is visited several times, so the number of visits is limited.
        if self.visits > self.context.limits().nodes {
            self.fits = false;
            open.clear();
            return Ok(());
        }
        if self.visits.is_multiple_of(1 << 16) {
            self.context.check_cancelled()?;
        }
        let mut node = self.child_node(id, None)?;
        while let (NodeKind::ATTRIBUTED, Some(&inner)) = (node.kind, node.children.first()) {
            node = self.child_node(inner, Some(id))?;
            id = inner;
        }
        if node.children.iter().any(|child| *child >= id) {
            return Err(Error::plugin("a tree node has a child that was declared after it"));
        }
        let (parts, empty) = match node.kind {
            NodeKind::MAP => (self.entries(&node)?, "Dict"),
            NodeKind::LIST => (items(&node), "List"),
            NodeKind::TUPLE => (items(&node), "Tuple"),
            _ => {
                let is_there = node.as_tensor().is_some_and(|tensor| self.enter(tensor));
                self.place(is_there, "None", open);
                return Ok(());
            }
        };
        let is_list = node.kind != NodeKind::MAP;
        self.has_lists |= is_list && !parts.is_empty();
        let texts = if self.cuts && !is_list {
            parts.iter().map(|(key, _)| key.text.clone()).collect()
        } else {
            HashSet::new()
        };
        let is_below_list = is_list || open.last().is_some_and(|outer| outer.is_below_list);
        let depth = self.keys.len();
        open.push(OpenContainer { parts, next: 0, depth, is_below_list, texts, empty, has_any: false });
        Ok(())
    }

    /// Updates the enclosing container after an array or a container has been visited. If the
    /// visited value is in a list and contains no written arrays, this function records a
    /// placeholder for its position.
    fn place(&mut self, has_any: bool, word: &'static str, open: &mut [OpenContainer]) {
        let Some(outer) = open.last_mut() else { return };
        if !has_any && outer.is_below_list {
            self.outline.places.push((self.keys.clone(), word));
        }
        outer.has_any |= has_any || outer.is_below_list;
    }

    /// Records the keys of an array. Returns whether the writer writes the array at this position.
    fn enter(&mut self, id: TensorId) -> bool {
        let is_left_out = !self.wanted.remove(&id);
        if is_left_out || id.0 >= self.catalog.tensor_count() {
            // The writer cannot write an array at two positions.
            self.fits &= !self.outline.arrays.contains_key(&id);
            return false;
        }
        let name = self.catalog.tensor(id).name;
        let mut rest = Some(name);
        for (number, key) in self.keys.iter().enumerate() {
            let left = rest.and_then(|rest| if number == 0 { Some(rest) } else { rest.strip_prefix('.') });
            rest = left.and_then(|rest| rest.strip_prefix(&*key.text));
        }
        self.fits &= rest == Some("") && !self.keys.is_empty();
        self.outline.arrays.insert(id, self.keys.clone());
        true
    }

    fn child_node(&self, id: NodeId, than: Option<NodeId>) -> Result<Node> {
        if than.is_some_and(|than| id >= than) {
            return Err(Error::plugin("a tree node has a child that was declared after it"));
        }
        self.catalog.node(id)
    }

    /// Returns the entries of a map whose keys are strings or integers. Integer keys become
    /// strings, as in Orbax.
    fn entries(&self, node: &Node) -> Result<Vec<(Key, NodeId)>> {
        let mut parts = Vec::new();
        for (key, value) in node.entries() {
            let key = self.catalog.node(key)?;
            let number = || key.as_wide_int().map(|number| number.to_string());
            if let Some(text) = key.as_text().map(str::to_owned).or_else(number) {
                parts.push((Key { text, is_item: false }, value));
            }
        }
        Ok(parts)
    }
}

fn items(node: &Node) -> Vec<(Key, NodeId)> {
    let numbered = node.children.iter().enumerate();
    numbered.map(|(number, &child)| (Key { text: number.to_string(), is_item: true }, child)).collect()
}
