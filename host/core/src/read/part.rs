//! A part is the content that is selected from an input: the whole input, one branch of its tree,
//! or the model. If the target is a flat list, the default is the model. The model is the only
//! mapping of names to tensors that is not optimizer, scheduler or random state.

use crate::read::key_words::{names_a_model, names_random_state, names_training_state};
use serde::{Deserialize, Serialize};
use std::fmt;
use tensorferry_sdk::{
    Catalog, Dtype, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Tensor, TensorId, Tree,
};

/// The part of the input that the user requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Part {
    /// The model if the target is a flat list; otherwise the whole input.
    #[default]
    Auto,
    Whole,
    /// The branch of the tree at this path.
    Path(String),
}

impl Part {
    /// Parses `auto`, `.`, or a path.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "auto" => Self::Auto,
            "." => Self::Whole,
            path => Self::Path(path.to_owned()),
        }
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl From<Part> for String {
    fn from(part: Part) -> Self {
        part.to_string()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Whole => ".",
            Self::Path(path) => path,
        })
    }
}

/// Selects a part of a catalog. `flat` means that the target is a flat list of tensors. Also
/// returns the content that `auto` left out, as losses. Fails if the path does not exist, or if
/// `auto` finds several mappings. In the second case, the error lists a command for each mapping.
pub fn take(catalog: Catalog, part: &Part, flat: bool) -> Result<(Catalog, Vec<Loss>)> {
    // A tree without tensors only describes the model. In that case, the tensors are a flat list
    // next to the tree.
    let holds_tensors = |root: &NodeId| TreeWalk::new(&catalog).tensors_below(*root) > 0;
    let branch = match (part, catalog.tree().root().filter(holds_tensors)) {
        (Part::Whole, _) | (Part::Auto, None) => return Ok((catalog, Vec::new())),
        (Part::Auto, Some(_)) if !flat => return Ok((catalog, Vec::new())),
        (Part::Auto, Some(root)) => TreeWalk::new(&catalog).choose(root)?,
        (Part::Path(path), Some(root)) => TreeWalk::new(&catalog).find(root, path)?,
        (Part::Path(path), None) => return Ok((by_prefix(&catalog, path)?, Vec::new())),
    };
    let walk = TreeWalk::new(&catalog);
    let mut ids = walk.tensors(branch.node, &branch.without);
    ids.sort_unstable();
    let prefix = if branch.path.is_empty() { String::new() } else { format!("{}.", branch.path) };
    let kept: Vec<(TensorId, String)> = ids
        .into_iter()
        .filter_map(|id| {
            let name = &catalog.tensor(id)?.name;
            let short = name.strip_prefix(&prefix).or_else(|| (*name == branch.path).then_some(""));
            Some((id, short.unwrap_or(name).to_owned()))
        })
        .collect();
    let (catalog, root) = pruned(catalog, &branch)?;
    Ok((catalog.select(&kept, Some(root))?, branch.left_out))
}

/// Returns whether a catalog has a branch at this path.
#[must_use]
pub fn has(catalog: &Catalog, path: &str) -> bool {
    let walk = TreeWalk::new(catalog);
    match catalog.tree().root().filter(|root| walk.tensors_below(*root) > 0) {
        Some(root) => walk.find(root, path).is_ok(),
        None => by_prefix(catalog, path).is_ok(),
    }
}

/// Removes the branch's unselected children. Other values in the branch remain, so that users can
/// still see them.
fn pruned(catalog: Catalog, branch: &Branch) -> Result<(Catalog, NodeId)> {
    if branch.without.is_empty() {
        return Ok((catalog, branch.node));
    }
    let mut tree = catalog.tree().clone();
    // Removing the tree from the catalog makes it uniquely owned, so that it can be extended
    // without a copy.
    let catalog = catalog.with_tree(Tree::default())?;
    // The nodes from the branch to the container itself, including the nodes that set attributes on
    // the container.
    let mut way = vec![branch.node];
    let mut node = node_of(&tree, branch.node)?;
    while let (NodeKind::ATTRIBUTED, Some(&inner)) = (node.kind, node.children.first()) {
        way.push(inner);
        node = node_of(&tree, inner)?;
    }
    let is_kept = |child: &NodeId| !branch.without.contains(child);
    let children: Vec<NodeId> = match node.kind {
        NodeKind::MAP => {
            node.entries().filter(|(_, value)| is_kept(value)).flat_map(|(key, value)| [key, value]).collect()
        }
        _ => node.children.iter().copied().filter(is_kept).collect(),
    };
    let limits = catalog.limits().clone();
    let mut made = tree.push(Node { children: children.into(), ..node }, &limits)?;
    for outer in way.into_iter().rev().skip(1) {
        let mut outer = node_of(&tree, outer)?;
        let attributes = outer.children.iter().skip(1).copied();
        outer.children = std::iter::once(made).chain(attributes).collect();
        made = tree.push(outer, &limits)?;
    }
    tree.set_root(made)?;
    Ok((catalog.with_tree(tree)?, made))
}

fn node_of(tree: &Tree, id: NodeId) -> Result<Node> {
    tree.get(id).cloned().ok_or_else(|| Error::plugin(format!("the tree has no node {}", id.0)))
}

/// Selects the tensors whose names begin with the path, for formats without a tree.
fn by_prefix(catalog: &Catalog, path: &str) -> Result<Catalog> {
    let prefix = format!("{path}.");
    let kept: Vec<(TensorId, String)> = (0..)
        .map(TensorId)
        .zip(catalog.tensors())
        .filter_map(|(id, tensor)| Some((id, tensor.name.strip_prefix(&prefix)?.to_owned())))
        .collect();
    if kept.is_empty() {
        return Err(Error::usage(format!("--part {path}: no tensor's name begins with {prefix:?}")));
    }
    catalog.select(&kept, None)
}

/// The reason in losses for content outside the part that `auto` selected.
const LEFT_OUT: &str = "outside the part that --part auto took; --part . takes everything";
/// Maximum number of values without tensors to list. The remaining values are only counted.
const MAX_LISTED: usize = 200;

/// The branch of the tree that was selected.
struct Branch {
    node: NodeId,
    path: String,
    /// Nodes below the branch that are not selected.
    without: Vec<NodeId>,
    left_out: Vec<Loss>,
}

/// A catalog's tree, with summary data about each node's descendants.
pub(crate) struct TreeWalk<'a> {
    catalog: &'a Catalog,
    tree: &'a Tree,
    /// For each node, the number of tensors in the node and below it.
    below: Vec<u64>,
    /// For each node, whether it is or contains a mapping of names to tensors.
    mapping: Vec<bool>,
    /// For each node, whether it is or contains a state dict: a mapping whose names are module
    /// paths.
    state_dict: Vec<bool>,
}

impl<'a> TreeWalk<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        let tree = catalog.tree();
        let (below, mapping, state_dict) = (Vec::with_capacity(tree.len()), Vec::new(), Vec::new());
        let mut walk = Self { catalog, tree, below, mapping, state_dict };
        for node in tree.nodes() {
            let own = u64::from(node.kind == NodeKind::TENSOR);
            let count = node.children.iter().fold(own, |sum, c| sum.saturating_add(walk.below[c.0 as usize]));
            walk.below.push(count);
            // Objects of unknown classes are not searched for mappings.
            let is_open = node.kind != NodeKind::OBJECT;
            let any_below = |of: &[bool]| is_open && node.children.iter().any(|c| of[c.0 as usize]);
            let (mut maps, mut has_paths) = (any_below(&walk.mapping), any_below(&walk.state_dict));
            for (key, value) in node.entries() {
                let Some(name) = walk.node(key).as_text().filter(|_| walk.is_leaf(value)) else { continue };
                maps = true;
                has_paths = has_paths || is_path(name);
            }
            walk.mapping.push(maps);
            walk.state_dict.push(has_paths);
        }
        walk
    }

    pub(crate) fn tensors_below(&self, id: NodeId) -> u64 {
        self.below[id.0 as usize]
    }

    pub(crate) fn node(&self, id: NodeId) -> &'a Node {
        &self.tree.nodes()[id.0 as usize]
    }

    /// Returns the node that the attributes at `id` are set on. Returns `id` itself if the node has
    /// no attributes.
    pub(crate) fn value(&self, mut id: NodeId) -> NodeId {
        while self.node(id).kind == NodeKind::ATTRIBUTED {
            id = self.node(id).children[0];
        }
        id
    }

    /// Iterates over the named children of a container. Names are created one at a time, because a
    /// list may have millions of items.
    pub(crate) fn children(&self, id: NodeId) -> impl DoubleEndedIterator<Item = (String, NodeId)> {
        let node = self.node(self.value(id));
        let (is_map, count) = match node.kind {
            NodeKind::MAP => (true, node.children.len() / 2),
            NodeKind::LIST | NodeKind::TUPLE => (false, node.children.len()),
            _ => (false, 0),
        };
        (0..count).map(move |place| match is_map {
            true => (self.key(node.children[2 * place]), node.children[2 * place + 1]),
            false => (place.to_string(), node.children[place]),
        })
    }

    fn key(&self, id: NodeId) -> String {
        let node = self.node(id);
        let number = || node.as_int().map(|number| number.to_string());
        node.as_text().map(str::to_owned).or_else(number).unwrap_or_else(|| "?".to_owned())
    }

    /// Returns whether a node can have named children.
    pub(crate) fn is_container(&self, id: NodeId) -> bool {
        matches!(self.node(self.value(id)).kind, NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE)
    }

    /// Returns whether a node, including its attributes, represents a single tensor.
    pub(crate) fn is_leaf(&self, id: NodeId) -> bool {
        let value = self.node(self.value(id));
        value.kind == NodeKind::TENSOR
            || (value.kind == NodeKind::OBJECT && self.tensors_below(id) == 1 && self.wraps_a_tensor(value))
    }

    /// Returns whether an object's first argument is a tensor, as for a parameter.
    fn wraps_a_tensor(&self, object: &Node) -> bool {
        let first = self.wrapped(object);
        first.is_some_and(|first| self.node(self.value(first)).kind == NodeKind::TENSOR)
    }

    /// Returns the first argument of an object.
    pub(crate) fn wrapped(&self, object: &Node) -> Option<NodeId> {
        self.arguments(object).first().copied()
    }

    fn arguments(&self, object: &Node) -> &'a [NodeId] {
        let arguments = object.children.first().map(|&id| self.node(id));
        arguments.filter(|node| node.kind == NodeKind::TUPLE).map_or(&[], |node| &node.children)
    }

    /// Returns the keys of the mappings among an object's arguments.
    pub(crate) fn mark_keys(&self, object: &Node) -> impl Iterator<Item = String> {
        let mappings =
            self.arguments(object).iter().skip(1).filter(|id| self.node(**id).kind == NodeKind::MAP);
        mappings.flat_map(|id| self.children(*id)).map(|(key, _)| key)
    }

    /// Returns the tensors below a node, except for those below the nodes in `without`.
    pub(crate) fn tensors(&self, root: NodeId, without: &[NodeId]) -> Vec<TensorId> {
        let mut open = vec![root];
        let mut found = Vec::new();
        while let Some(id) = open.pop() {
            if without.contains(&id) || self.tensors_below(id) == 0 {
                continue;
            }
            found.extend(self.node(id).as_tensor());
            open.extend(&self.node(id).children);
        }
        found
    }

    /// Finds the model: descends into the tree while exactly one branch contains a model's mapping
    /// of names to tensors.
    fn choose(&self, root: NodeId) -> Result<Branch> {
        let mut branch =
            Branch { node: root, path: String::new(), without: Vec::new(), left_out: Vec::new() };
        loop {
            let children = self.children(branch.node).filter(|(_, child)| self.tensors_below(*child) > 0);
            let children: Vec<(String, NodeId)> = children.collect();
            let (training, rest): (Vec<_>, Vec<_>) =
                children.iter().partition(|(key, child)| self.is_training_state(key, *child));
            let mappings: Vec<&(String, NodeId)> =
                rest.iter().copied().filter(|(_, child)| self.mapping[child.0 as usize]).collect();
            // A mapping without weights next to a model is not a model. An example is a mapping
            // that contains a callback's best loss.
            let (others, models): (Vec<_>, Vec<_>) =
                mappings.iter().copied().partition(|(_, child)| self.holds_no_weights(*child));
            let models = if models.is_empty() { others } else { models };
            let is_model = self.is_model(branch.node, &rest, &models)
                || (branch.node != root && self.are_layers(&models));
            if models.is_empty() || is_model {
                // If the checkpoint contains only training state, the training state is selected.
                for (key, child) in training.into_iter().filter(|_| !rest.is_empty()) {
                    branch.left_out.push(self.left_out(&branch.path, key, *child));
                    branch.without.push(*child);
                }
                return Ok(branch);
            }
            let [(key, model)] = &*models else {
                return Err(several(&branch.path, &models));
            };
            let mut more = 0;
            for (other, child) in self.children(branch.node).filter(|(_, child)| child != model) {
                // A branch may have millions of values, so only some of them are listed.
                if branch.left_out.len() < MAX_LISTED || self.tensors_below(child) > 0 {
                    branch.left_out.push(self.left_out(&branch.path, &other, child));
                } else {
                    more += 1;
                }
            }
            if more > 0 {
                branch.left_out.push(Loss::new(LossKind::State, format!("{more} more values"), LEFT_OUT));
            }
            branch.path = join(&branch.path, key);
            branch.node = *model;
        }
    }

    /// Returns whether a mapping is itself a model that contains other mappings. The other mappings
    /// are a module's own state in a state dict, or the layers of a parameter tree. A checkpoint
    /// may contain a tensor next to its models, such as class weights or a loss history. Such a
    /// checkpoint is not itself a model: its models are state dicts, or their names are typical of
    /// models.
    fn is_model(&self, id: NodeId, children: &[&(String, NodeId)], models: &[&(String, NodeId)]) -> bool {
        let is_weight = |child: &&&(String, NodeId)| self.is_leaf(child.1) && !self.holds_no_weights(child.1);
        let mut weights = children.iter().filter(is_weight).map(|(key, _)| key.as_str()).peekable();
        if self.node(self.value(id)).kind != NodeKind::MAP || weights.peek().is_none() {
            return false;
        }
        let accompanies =
            models.iter().any(|(key, model)| self.state_dict[model.0 as usize] || names_a_model(key));
        !accompanies || weights.any(|key| is_path(key) || PARAMETER_NAMES.contains(&key))
    }

    /// Returns whether several mappings within the chosen part are layers of a parameter tree. A
    /// mapping is not a layer if it is a state dict or has a name that is typical of models.
    fn are_layers(&self, models: &[&(String, NodeId)]) -> bool {
        models.len() > 1
            && !models.iter().any(|(key, model)| self.state_dict[model.0 as usize] || names_a_model(key))
    }

    /// Returns whether none of the tensors below a node could belong to a model.
    fn holds_no_weights(&self, root: NodeId) -> bool {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if self.tensors_below(id) == 0 {
                continue;
            }
            let node = self.node(id);
            let tensor = node.as_tensor().and_then(|id| self.catalog.tensor(id));
            // A tensor with its own class is an array of a different library, or a loss history.
            if tensor.is_some_and(|tensor| node.class.is_empty() && may_be_a_weight(tensor)) {
                return false;
            }
            open.extend(&node.children);
        }
        true
    }

    /// Returns whether a branch is training state. Optimizers, schedulers, gradient scalers and
    /// random state have common names. The state of an optimizer can also be recognized by its
    /// structure. A single tensor with such a name may belong to a model. Such a tensor counts as
    /// training state only if it has the length of a random generator's state.
    fn is_training_state(&self, key: &str, id: NodeId) -> bool {
        if self.is_leaf(id) {
            return names_random_state(key)
                && !is_path(key)
                && self.tensors(id, &[]).iter().all(|id| self.catalog.tensor(*id).is_some_and(is_generator));
        }
        names_training_state(key) || (self.has_child(id, "state") && self.has_child(id, "param_groups"))
    }

    fn has_child(&self, id: NodeId, name: &str) -> bool {
        self.children(id).any(|(key, _)| key == name)
    }

    fn left_out(&self, path: &str, key: &str, id: NodeId) -> Loss {
        let why = match self.tensors_below(id) {
            0 => LEFT_OUT.to_owned(),
            1 => LEFT_OUT.replace(';', " (1 tensor);"),
            count => LEFT_OUT.replace(';', &format!(" ({count} tensors);")),
        };
        Loss::new(LossKind::State, join(path, key), why)
    }

    /// Finds the node at a path. Keys may themselves contain dots, so every way to split the path
    /// is tried.
    fn find(&self, root: NodeId, path: &str) -> Result<Branch> {
        let mut open = vec![(root, path)];
        while let Some((id, rest)) = open.pop() {
            for (key, child) in self.children(id) {
                if rest == key {
                    return Ok(Branch {
                        node: child,
                        path: path.to_owned(),
                        without: Vec::new(),
                        left_out: Vec::new(),
                    });
                }
                if let Some(rest) = rest.strip_prefix(&key).and_then(|rest| rest.strip_prefix('.')) {
                    open.push((child, rest));
                }
            }
        }
        let known: Vec<String> = self.children(root).map(|(key, _)| key).take(20).collect();
        Err(Error::usage(format!("--part {path}: no such part")).expected(known.join(", ")))
    }
}

/// Names of a module's own parameters. In the state dict of a single module, these names have no
/// module path.
const PARAMETER_NAMES: [&str; 4] = ["weight", "bias", "kernel", "embedding"];

/// Returns whether a key is the path of a parameter: `fc.weight`, `dense/kernel`.
fn is_path(key: &str) -> bool {
    key.contains(['.', '/'])
}

/// Returns whether a tensor could be a weight. Single numbers are usually step counts and losses.
fn may_be_a_weight(tensor: &Tensor) -> bool {
    tensor.shape.iter().product::<u64>() > 1 && !is_generator(tensor)
}

/// Returns whether a tensor is the state of a random generator in torch (`torch.get_rng_state()`,
/// `torch.cuda.get_rng_state()`), which has one of these lengths in bytes.
fn is_generator(tensor: &Tensor) -> bool {
    tensor.dtype == Dtype::U8 && matches!(*tensor.shape, [5056 | 16])
}

/// Joins the path of a mapping and the key of an entry.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn several(path: &str, models: &[&(String, NodeId)]) -> Error {
    let commands: Vec<String> = models.iter().map(|(key, _)| format!("--part {}", join(path, key))).collect();
    Error::usage(format!(
        "several parts hold tensors: choose one of {}, or --part . for all of them",
        commands.join(", ")
    ))
}

#[cfg(test)]
mod tests;
