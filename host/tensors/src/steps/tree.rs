//! Updates the tree of non-tensor state after a step, so that the tree matches the changed tensors.
//!
//! A tensor's name is its path in the tree, with keys joined by dots. A format that writes the tree
//! must write the tensors with their new names. The update therefore follows these rules:
//!
//! - A removed tensor is also removed from its mapping. In a list or a tuple, `None` replaces it,
//!   so that the other values keep their positions.
//! - A renamed tensor moves to the deepest mapping whose path is a prefix of the new name. If this
//!   mapping is the old mapping, the tensor keeps its position with a new key.
//! - A tensor that a step adds is placed in the same way.
//! - If a mapping contained only tensors, and all of them move to other mappings, the mapping is
//!   removed from its parent.
//! - Marks on a single tensor (the parameter mark, or attributes set on the tensor) move with the
//!   tensor.
//! - An object that consists of several tensors (such as a sparse tensor) is removed if one of
//!   these tensors is removed or renamed. The object's other tensors move to the mappings that
//!   their names determine.
//!
//! State that an update removes is reported as lost. A tree without tensors does not change.

mod mappings;

use mappings::{MappingIndex, key_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tensorferry_core::read::part::join;
use tensorferry_sdk::{
    Error, Limits, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity, TensorId, Tree,
};

/// The change that a step makes to a tensor of the old catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    Removed,
    /// The tensor is kept with its name, and has this new ID.
    Kept(TensorId),
    /// The tensor is renamed, and has this new ID and name.
    Renamed(TensorId, &'a str),
}

/// Returns the tree after a step. `changes` and `names` contain the changes and names of the old
/// tensors, in the order of the tensors. `added` contains the new tensors. Returns an error if a
/// tensor would need a key that other state already uses.
pub fn follow(
    tree: &Tree,
    changes: &[Change<'_>],
    names: &[&str],
    added: &[(TensorId, &str)],
    limits: &Limits,
) -> Result<(Tree, Vec<Loss>)> {
    let Some(root) = tree.root() else { return Ok((Tree::default(), Vec::new())) };
    let Some(mappings) = MappingIndex::of(tree, root) else {
        let why = "its root is not a mapping and cannot contain new names: the tensors become a flat list";
        let loss = Loss::new(LossKind::State, "the tree of non-tensor state", why);
        return Ok((Tree::default(), vec![loss]));
    };
    let mut old = OldTree::of(tree, root, changes, names, mappings);
    old.leave_empty(root, added);
    old.keep(root);
    let losses = old.losses();
    Ok((old.build(root, added, limits)?, losses))
}

/// The old tree, with information on the parts that are kept.
struct OldTree<'a> {
    tree: &'a Tree,
    changes: &'a [Change<'a>],
    names: &'a [&'a str],
    mappings: MappingIndex,
    /// The first path to each container that can be reached from the root.
    paths: HashMap<NodeId, String>,
    /// For each node, the number of tensors in its subtree.
    below: Vec<u64>,
    /// For each node, whether a tensor in its subtree was removed or renamed, so that the node has
    /// changed.
    broken: Vec<bool>,
    /// For each node, whether it is a mapping from which all tensors have moved to other mappings.
    empty: Vec<bool>,
    kept: Vec<bool>,
    /// For each kept node, whether it is a mark on a tensor, or a part of such a mark that contains
    /// the tensor.
    marks: Vec<bool>,
}

impl<'a> OldTree<'a> {
    fn of(
        tree: &'a Tree,
        root: NodeId,
        changes: &'a [Change<'a>],
        names: &'a [&'a str],
        mappings: MappingIndex,
    ) -> Self {
        let (below, broken) = (Vec::with_capacity(tree.len()), Vec::with_capacity(tree.len()));
        let no_node = || vec![false; tree.len()];
        let (empty, kept, marks) = (no_node(), no_node(), no_node());
        let paths = HashMap::new();
        let mut old = Self { tree, changes, names, mappings, paths, below, broken, empty, kept, marks };
        for node in tree.nodes() {
            let own = u64::from(node.kind == NodeKind::TENSOR);
            let add = |sum: u64, child: &NodeId| sum.saturating_add(old.below[child.0 as usize]);
            let below = node.children.iter().fold(own, add);
            let broken = match node.kind {
                NodeKind::TENSOR => !matches!(old.change(node), Some(Change::Kept(_))),
                NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE => false,
                NodeKind::ATTRIBUTED => old.is_broken(node.children[0]),
                _ => node.children.iter().any(|child| old.is_broken(*child)),
            };
            old.below.push(below);
            old.broken.push(broken);
        }
        old.walk(root);
        for (tensor, value) in old.marked() {
            let change = changes.get(tensor.0 as usize);
            old.broken[value.0 as usize] |= !matches!(change, Some(Change::Kept(_)));
        }
        old
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.tree.nodes()[id.0 as usize]
    }

    fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.tree.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    fn is_broken(&self, id: NodeId) -> bool {
        self.broken[id.0 as usize]
    }

    fn is_container(&self, id: NodeId) -> bool {
        matches!(self.node(id).kind, NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE)
    }

    /// Returns whether a node contains exactly one tensor.
    fn holds_one(&self, id: NodeId) -> bool {
        self.below[id.0 as usize] == 1
    }

    fn change(&self, node: &Node) -> Option<Change<'a>> {
        self.changes.get(node.as_tensor()?.0 as usize).copied()
    }

    /// Finds the paths to all nodes that can be reached from the root.
    fn walk(&mut self, root: NodeId) {
        let mut open = vec![(root, String::new())];
        while let Some((id, path)) = open.pop() {
            let node = self.node(id);
            if node.children.is_empty() || self.paths.contains_key(&id) {
                continue;
            }
            let holds = |child: &NodeId| !self.node(*child).children.is_empty();
            match node.kind {
                NodeKind::MAP => open.extend(
                    node.entries()
                        .filter(|(_, value)| holds(value))
                        .map(|(key, value)| (value, join(&path, &self.key(key)))),
                ),
                NodeKind::LIST | NodeKind::TUPLE => {
                    let children = node.children.iter().enumerate().filter(|(_, child)| holds(child));
                    open.extend(children.map(|(index, child)| (*child, join(&path, &index.to_string()))));
                }
                _ => open.extend(node.children.iter().map(|child| (*child, path.clone()))),
            }
            self.paths.insert(id, path);
        }
    }

    fn key(&self, id: NodeId) -> String {
        key_of(self.node(id))
    }

    /// Returns the tensor of a value that contains a single tensor, with or without marks. If the
    /// tensor is an argument of an object, it counts only if its name is the object's path, which
    /// `place` returns.
    fn leaf(&self, value: NodeId, place: impl FnOnce() -> String) -> Option<&'a Node> {
        if !self.holds_one(value) || self.is_container(value) {
            return None;
        }
        let (mut id, mut is_argument) = (value, false);
        while self.node(id).kind != NodeKind::TENSOR {
            is_argument |= self.is_container(id);
            id = *self.node(id).children.iter().find(|child| self.holds_one(**child))?;
        }
        let node = self.node(id);
        let name = || self.names.get(node.as_tensor()?.0 as usize).copied();
        (!is_argument || name() == Some(place().as_str())).then_some(node)
    }

    /// Iterates over the values of a mapping, list or tuple, with their keys or indices.
    fn values(&self, node: &'a Node) -> impl Iterator<Item = (Slot, NodeId)> {
        let step = match node.kind {
            NodeKind::MAP => 2,
            NodeKind::LIST | NodeKind::TUPLE => 1,
            // This step size exceeds the number of children of any node, so that there are no
            // entries.
            _ => usize::MAX,
        };
        let entries = node.children.chunks_exact(step).enumerate();
        entries.map(|(index, entry)| match *entry {
            [key, value] => (Slot::Key(key), value),
            _ => (Slot::Index(index), entry[0]),
        })
    }

    fn place(&self, path: &str, slot: Slot) -> String {
        match slot {
            Slot::Key(key) => join(path, &self.key(key)),
            Slot::Index(index) => join(path, &index.to_string()),
        }
    }

    /// Returns the key of a mapping's value after the step, or `None` if the value is removed from
    /// the mapping.
    fn new_key(&self, mapping: NodeId, key: NodeId, value: NodeId) -> Option<NewKey<'a>> {
        match self.leaf_change(mapping, key, value) {
            _ if self.is_broken(key) || self.empty[value.0 as usize] => None,
            Some(Change::Renamed(_, name)) => {
                let (home, key) = self.mappings.of_name(name);
                (home == mapping).then_some(NewKey::New(key))
            }
            _ if self.is_broken(value) => None,
            _ => Some(NewKey::Old(key)),
        }
    }

    /// Returns the change of a tensor that is a value of a mapping, or `None` if the value is not a
    /// tensor.
    fn leaf_change(&self, mapping: NodeId, key: NodeId, value: NodeId) -> Option<Change<'a>> {
        self.leaf(value, || self.place(self.path(mapping), Slot::Key(key))).and_then(|leaf| self.change(leaf))
    }

    fn path(&self, id: NodeId) -> &str {
        self.paths.get(&id).map_or("", String::as_str)
    }

    /// Iterates over the tensors that move from a mapping to a different one, each with its new
    /// name.
    fn moved(&self, mapping: NodeId) -> impl Iterator<Item = (NodeId, &'a str)> {
        self.node(mapping).entries().filter_map(move |(key, value)| {
            match self.leaf_change(mapping, key, value) {
                Some(Change::Renamed(_, name)) if self.mappings.of_name(name).0 != mapping => {
                    Some((value, name))
                }
                _ => None,
            }
        })
    }

    /// Finds the mappings that become empty because all their tensors move to other mappings.
    fn leave_empty(&mut self, root: NodeId, added: &[(TensorId, &str)]) {
        let named = self.changes.iter().zip(self.names).filter_map(|(change, old)| match change {
            Change::Removed => None,
            Change::Kept(_) => Some(*old),
            Change::Renamed(_, name) => Some(*name),
        });
        let names = named.chain(added.iter().map(|(_, name)| *name));
        let mappings: HashSet<NodeId> = names.map(|name| self.mappings.of_name(name).0).collect();
        for id in self.ids().filter(|id| *id != root && self.mappings.contains(*id) && !mappings.contains(id))
        {
            let moved: HashSet<NodeId> = self.moved(id).map(|(value, _)| value).collect();
            let goes = |value: NodeId| moved.contains(&value) || self.empty[value.0 as usize];
            self.empty[id.0 as usize] =
                self.below[id.0 as usize] > 0 && self.node(id).entries().all(|(_, value)| goes(value));
        }
    }

    /// Determines which nodes below the root are kept. In the list of nodes, children come before
    /// their parents.
    fn keep(&mut self, root: NodeId) {
        self.kept[root.0 as usize] = true;
        for id in self.ids().rev().filter(|id| id.0 <= root.0) {
            if !self.kept[id.0 as usize] {
                continue;
            }
            let node = self.node(id);
            let is_mark = self.marks[id.0 as usize];
            let children: Vec<NodeId> = match node.kind {
                _ if is_mark => node.children.to_vec(),
                NodeKind::MAP => {
                    let keys = node.entries().map(|(key, value)| (self.new_key(id, key, value), value));
                    keys.flat_map(|(key, value)| match key {
                        Some(NewKey::Old(key)) => [Some(key), Some(value)],
                        Some(NewKey::New(_)) => [None, Some(value)],
                        None => [None, None],
                    })
                    .flatten()
                    .collect()
                }
                NodeKind::LIST | NodeKind::TUPLE => {
                    node.children.iter().copied().filter(|child| !self.is_broken(*child)).collect()
                }
                _ => node.children.to_vec(),
            };
            for child in children {
                self.kept[child.0 as usize] = true;
                // A value that is kept although its tensor was renamed is a mark; see `leaf`.
                let begins = self.is_container(id) && !self.is_container(child) && self.is_broken(child);
                self.marks[child.0 as usize] |= self.holds_one(child) && (is_mark || begins);
            }
        }
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for id in self.ids() {
            let (node, Some(path)) = (self.node(id), self.paths.get(&id)) else { continue };
            if self.mappings.contains(id) {
                losses.extend(self.moves(id));
            }
            let is_kept = self.kept[id.0 as usize] && !self.marks[id.0 as usize];
            let why = match node.kind {
                NodeKind::LIST | NodeKind::TUPLE
                    if is_kept && node.children.iter().any(|child| self.is_broken(*child)) =>
                {
                    let why = "a tensor in it was removed or renamed, and is replaced by None";
                    let hole = Loss::new(LossKind::State, path, why);
                    losses.push(hole.severity(Severity::Changed).requested_by_user());
                    continue;
                }
                NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE => continue,
                _ if self.is_broken(id) && self.below[id.0 as usize] > 1 => {
                    "it consists of several tensors, one of which was removed or renamed"
                }
                _ => continue,
            };
            losses.push(Loss::new(LossKind::State, path, why));
        }
        losses
    }

    /// Returns the losses for tensors that move out of a mapping, with one loss per target mapping.
    fn moves(&self, from: NodeId) -> impl Iterator<Item = Loss> {
        let mut by_mapping: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (value, name) in self.moved(from) {
            by_mapping.entry(self.mappings.of_name(name).0).or_default().push(value);
        }
        by_mapping.into_iter().map(move |(home, values)| {
            let name_of = |value: &NodeId| {
                let keys = self.node(from).entries();
                let key = keys.filter(|(_, other)| other == value).map(|(key, _)| self.key(key)).next();
                join(self.path(from), &key.unwrap_or_default())
            };
            let what = tensorferry_sdk::listed(values.iter().map(name_of), 1);
            let home = match self.path(home) {
                "" => "the outermost mapping".to_owned(),
                path => format!("{path:?}"),
            };
            let loss = Loss::new(LossKind::State, what, format!("its new name moves it to {home}"));
            loss.severity(Severity::Changed).requested_by_user()
        })
    }

    /// Builds the new tree.
    fn build(&self, root: NodeId, added: &[(TensorId, &'a str)], limits: &Limits) -> Result<Tree> {
        let mut coming = self.coming(added);
        let mut tree = Tree::default();
        let mut at = vec![NodeId(0); self.tree.len()];
        let mut marks = HashMap::new();
        for id in self.ids().filter(|id| self.kept[id.0 as usize]) {
            let node = self.node(id);
            let new = match (node.kind, self.change(node)) {
                (NodeKind::MAP, _) => {
                    let path = self.path(id);
                    let mut entries = Vec::with_capacity(node.children.len() / 2);
                    for (key, value) in node.entries() {
                        let key = match self.new_key(id, key, value) {
                            Some(NewKey::Old(key)) => at[key.0 as usize],
                            Some(NewKey::New(key)) => tree.push(Node::text(key), limits)?,
                            None => continue,
                        };
                        entries.push((key, at[value.0 as usize]));
                    }
                    let coming = coming.remove(&id).unwrap_or_default();
                    for (key, arrival) in coming {
                        let key = tree.push(Node::text(key), limits)?;
                        let value = match arrival {
                            Addition::Plain(tensor) => tree.push(Node::tensor(tensor), limits)?,
                            Addition::Marked(mark) => self.add_mark(mark, &mut marks, &mut tree, limits)?,
                        };
                        entries.push((key, value));
                    }
                    check_keys(&tree, &entries, path)?;
                    Node::map(&node.class, &entries)
                }
                (_, Some(Change::Kept(tensor) | Change::Renamed(tensor, _))) => Node::tensor(tensor),
                _ => {
                    let mut node = node.clone();
                    let leaves_holes =
                        matches!(node.kind, NodeKind::LIST | NodeKind::TUPLE) && !self.marks[id.0 as usize];
                    for child in &mut node.children {
                        let is_hole = leaves_holes && self.is_broken(*child);
                        *child =
                            if is_hole { tree.push(Node::none(), limits)? } else { at[child.0 as usize] };
                    }
                    node
                }
            };
            at[id.0 as usize] = tree.push(new, limits)?;
        }
        tree.set_root(at[root.0 as usize])?;
        Ok(tree)
    }

    /// Adds a tensor with its marks to the new tree. This function is used because a mapping may
    /// precede the marks in the list of nodes. `done` contains the nodes that this function has
    /// already added, so that parts shared by several marks are added only once.
    fn add_mark(
        &self,
        mark: NodeId,
        done: &mut HashMap<NodeId, NodeId>,
        tree: &mut Tree,
        limits: &Limits,
    ) -> Result<NodeId> {
        let (mut open, mut parts) = (vec![mark], BTreeSet::new());
        while let Some(id) = open.pop() {
            if !done.contains_key(&id) && parts.insert(id.0) {
                open.extend_from_slice(&self.node(id).children);
            }
        }
        // In the list of nodes, children come before their parents.
        for id in parts.into_iter().map(NodeId) {
            let mut node = match self.change(self.node(id)) {
                Some(Change::Kept(tensor) | Change::Renamed(tensor, _)) => Node::tensor(tensor),
                _ => self.node(id).clone(),
            };
            node.children.iter_mut().for_each(|child| *child = done[&*child]);
            done.insert(id, tree.push(node, limits)?);
        }
        Ok(done[&mark])
    }

    /// Returns the marked tensors, each with the value that contains it in a mapping or list.
    fn marked(&self) -> HashMap<TensorId, NodeId> {
        let mut values = HashMap::new();
        for id in self.ids() {
            let Some(path) = self.paths.get(&id) else { continue };
            for (place, value) in self.values(self.node(id)) {
                let is_marked = !self.node(value).children.is_empty();
                let leaf = is_marked.then(|| self.leaf(value, || self.place(path, place))).flatten();
                if let Some(tensor) = leaf.and_then(Node::as_tensor) {
                    values.entry(tensor).or_insert(value);
                }
            }
        }
        values
    }

    /// Returns the tensors that are added to each mapping. These are new tensors, and tensors of
    /// the old tree whose positions are not kept.
    fn coming(&self, added: &[(TensorId, &'a str)]) -> HashMap<NodeId, Vec<(&'a str, Addition)>> {
        let marked = self.marked();
        let mut has_place: HashSet<TensorId> = HashSet::new();
        let mut without_place: Vec<TensorId> = Vec::new();
        for id in self.ids() {
            let (node, is_kept) = (self.node(id), self.kept[id.0 as usize]);
            match node.as_tensor() {
                Some(tensor) if is_kept => drop(has_place.insert(tensor)),
                Some(tensor) => without_place.push(tensor),
                None => {}
            }
        }
        let mut coming: HashMap<NodeId, Vec<(&'a str, Addition)>> = HashMap::new();
        let mut put = |name: &'a str, arrival: Addition| {
            let (mapping, key) = self.mappings.of_name(name);
            coming.entry(mapping).or_default().push((key, arrival));
        };
        for tensor in without_place {
            if !has_place.insert(tensor) {
                continue;
            }
            let arrival =
                |place| marked.get(&tensor).map_or(Addition::Plain(place), |mark| Addition::Marked(*mark));
            match self.changes.get(tensor.0 as usize) {
                Some(&Change::Kept(place)) => put(self.names[tensor.0 as usize], arrival(place)),
                Some(&Change::Renamed(place, name)) => put(name, arrival(place)),
                _ => {}
            }
        }
        added.iter().for_each(|&(tensor, name)| put(name, Addition::Plain(tensor)));
        coming
    }
}

/// A value that is added to a mapping: the new ID of a tensor, or the old node that marks a tensor.
enum Addition {
    Plain(TensorId),
    Marked(NodeId),
}

/// The position of a value in a mapping or list.
#[derive(Clone, Copy)]
enum Slot {
    Key(NodeId),
    Index(usize),
}

/// The key of a mapping's value after a step.
enum NewKey<'a> {
    Old(NodeId),
    New(&'a str),
}

fn check_keys(tree: &Tree, entries: &[(NodeId, NodeId)], path: &str) -> Result<()> {
    let mut seen = HashSet::with_capacity(entries.len());
    for key in entries.iter().filter_map(|(key, _)| tree.get(*key)?.as_text()) {
        if !seen.insert(key) {
            return Err(
                Error::usage("other state of the checkpoint already has this name").tensor(join(path, key))
            );
        }
    }
    Ok(())
}
