//! A part is what is taken of an input: all of it, one branch of its tree, or (by default, where the
//! target holds a flat list) the one mapping of names to tensors that is not optimizer, scheduler or
//! random state.

use std::fmt;
use tensorferry_sdk::{
    Catalog, Dtype, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Tensor, TensorId, Tree,
};

/// What the user wants of the input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Part {
    /// Whatever a newcomer means.
    #[default]
    Auto,
    /// Everything.
    Whole,
    /// The branch at this path.
    Path(String),
}

impl Part {
    /// `auto`, `.`, or a path.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "auto" => Self::Auto,
            "." => Self::Whole,
            path => Self::Path(path.to_owned()),
        }
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

/// Takes a part of a catalog. `flat`: the target holds a flat list of tensors. Also gives what
/// `auto` left out.
///
/// # Errors
/// Usage: a path that is not there, or several mappings for `auto`, each with its command.
pub fn take(catalog: Catalog, part: &Part, flat: bool) -> Result<(Catalog, Vec<Loss>)> {
    // A tree that names no tensor only describes: the tensors are a flat list beside it.
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

/// The branch without the children that are not taken: what else is in it is still the user's to know.
fn pruned(catalog: Catalog, branch: &Branch) -> Result<(Catalog, NodeId)> {
    if branch.without.is_empty() {
        return Ok((catalog, branch.node));
    }
    let mut tree = catalog.tree().clone();
    // The tree's only owner adds to it without a copy.
    let catalog = catalog.with_tree(Tree::default())?;
    // The way from the branch to the container itself, through its attributes.
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

/// For formats without a tree: the tensors whose names begin with the path.
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

/// Why something is not in the part that was chosen.
const LEFT_OUT: &str = "outside the part that --part auto took; --part . takes everything";
/// Values without tensors that are listed one by one; the rest is counted.
const MOST_LISTED: usize = 200;

/// The part that was chosen.
struct Branch {
    node: NodeId,
    path: String,
    /// Nodes below it that are not taken.
    without: Vec<NodeId>,
    left_out: Vec<Loss>,
}

/// A catalog's tree, and what is below each node.
pub(crate) struct TreeWalk<'a> {
    catalog: &'a Catalog,
    tree: &'a Tree,
    /// How many tensors.
    below: Vec<u64>,
    /// Whether there is a mapping of names to tensors, or it is one.
    mapping: Vec<bool>,
}

impl<'a> TreeWalk<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        let tree = catalog.tree();
        let mut walk = Self { catalog, tree, below: Vec::with_capacity(tree.len()), mapping: Vec::new() };
        for node in tree.nodes() {
            let own = u64::from(node.kind == NodeKind::TENSOR);
            let count = node.children.iter().fold(own, |sum, c| sum.saturating_add(walk.below[c.0 as usize]));
            walk.below.push(count);
            let named =
                |(key, value): (NodeId, NodeId)| walk.node(key).as_text().is_some() && walk.is_leaf(value);
            let maps = node.entries().any(named) || node.children.iter().any(|c| walk.mapping[c.0 as usize]);
            // What an object of an unknown class holds is that class's own business.
            walk.mapping.push(maps && node.kind != NodeKind::OBJECT);
        }
        walk
    }

    pub(crate) fn tensors_below(&self, id: NodeId) -> u64 {
        self.below[id.0 as usize]
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.tree.nodes()[id.0 as usize]
    }

    /// Looks through attributes at what they are set on.
    pub(crate) fn value(&self, mut id: NodeId) -> NodeId {
        while self.node(id).kind == NodeKind::ATTRIBUTED {
            id = self.node(id).children[0];
        }
        id
    }

    /// The named children of a container. Their names are made as they are asked for: a list may have millions.
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

    /// Whether a node has named children, or could have.
    pub(crate) fn is_container(&self, id: NodeId) -> bool {
        matches!(self.node(self.value(id)).kind, NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE)
    }

    /// Whether a node is one tensor, with whatever is said of it.
    pub(crate) fn is_leaf(&self, id: NodeId) -> bool {
        let value = self.node(self.value(id));
        value.kind == NodeKind::TENSOR
            || (value.kind == NodeKind::OBJECT && self.tensors_below(id) == 1 && self.wraps_a_tensor(value))
    }

    /// Whether what surrounds a tensor says how it is sparse: its parts' layout, and the shape that they have together.
    pub(crate) fn is_sparse(&self, mut id: NodeId) -> bool {
        while self.node(id).kind == NodeKind::ATTRIBUTED {
            let [value, attributes] = [0, 1].map(|place| self.node(id).children[place]);
            if ["layout", "shape"].iter().all(|wanted| self.has_child(attributes, wanted)) {
                return true;
            }
            id = value;
        }
        false
    }

    /// Whether an object's first argument is a tensor, as that of a parameter is.
    fn wraps_a_tensor(&self, object: &Node) -> bool {
        let arguments = object.children.first().map(|&id| self.node(id));
        let first =
            arguments.filter(|node| node.kind == NodeKind::TUPLE).and_then(|node| node.children.first());
        first.is_some_and(|&first| self.node(self.value(first)).kind == NodeKind::TENSOR)
    }

    /// The tensors below a node.
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

    /// Descends while one branch alone holds a mapping of names to tensors that is a model's.
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
            // Beside a model, what holds no weights (a callback's best loss) is none.
            let (others, models): (Vec<_>, Vec<_>) =
                mappings.iter().copied().partition(|(_, child)| self.holds_no_weights(*child));
            let models = if models.is_empty() { others } else { models };
            if self.maps_names(branch.node, &children, !models.is_empty()) || models.is_empty() {
                // Where there is nothing but training state, that is what the user means.
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
                // There may be millions of numbers.
                if branch.left_out.len() < MOST_LISTED || self.tensors_below(child) > 0 {
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

    /// Whether a node maps names to tensors itself. Beside a model, what is no weight does not count.
    fn maps_names(&self, id: NodeId, children: &[(String, NodeId)], beside_a_model: bool) -> bool {
        self.node(self.value(id)).kind == NodeKind::MAP
            && children.iter().any(|(key, child)| {
                self.is_leaf(*child)
                    && !self.is_training_state(key, *child)
                    && !(beside_a_model && self.holds_no_weights(*child))
            })
    }

    /// Whether no tensor below a node is one that a model could have.
    fn holds_no_weights(&self, root: NodeId) -> bool {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if self.tensors_below(id) == 0 {
                continue;
            }
            let node = self.node(id);
            let tensor = node.as_tensor().and_then(|id| self.catalog.tensor(id));
            // A class of its own: an array of another library, a history of losses.
            if tensor.is_some_and(|tensor| node.class.is_empty() && may_be_a_weight(tensor)) {
                return false;
            }
            open.extend(&node.children);
        }
        true
    }

    /// Optimizers, schedulers, gradient scalers and random states go by these names everywhere; an
    /// optimizer's state also shows by its shape, whatever it is called.
    fn is_training_state(&self, key: &str, id: NodeId) -> bool {
        // The path of a parameter: `scaler.weight` of a flat list is a part of the model.
        if self.is_leaf(id) && key.contains(['.', '/']) {
            return false;
        }
        let key = key.to_lowercase();
        let named = ["optim", "opt_state", "sched", "rng", "random_state", "scaler"]
            .iter()
            .any(|word| key.contains(word));
        named || (self.has_child(id, "state") && self.has_child(id, "param_groups"))
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

    /// The node at a path. Keys may hold dots themselves, so every way to cut the path is tried.
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
        Err(Error::usage(format!("--part {path}: there is no such part")).expected(known.join(", ")))
    }
}

/// Single numbers are steps and losses; bytes of these lengths are the states of torch's random
/// generators (`torch.get_rng_state()`, `torch.cuda.get_rng_state()`), whatever they are called.
fn may_be_a_weight(tensor: &Tensor) -> bool {
    let is_generator = tensor.dtype == Dtype::U8 && matches!(*tensor.shape, [5056 | 16]);
    tensor.shape.iter().product::<u64>() > 1 && !is_generator
}

pub(crate) fn join(path: &str, key: &str) -> String {
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
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, Dtype, Limits, MemorySource, Storage};

    /// A catalog whose tree is written as JSON: a string is a tensor of as many elements as it has
    /// letters, other values are state.
    fn catalog(text: &str) -> Catalog {
        fn add(builder: &mut CatalogBuilder<'_>, value: &serde_json::Value, path: &str) -> NodeId {
            let node = match value {
                serde_json::Value::Object(entries) => {
                    let mut nodes = Vec::new();
                    for (key, value) in entries {
                        let key_node = builder.node(Node::text(key)).unwrap();
                        nodes.push((key_node, add(builder, value, &join(path, key))));
                    }
                    Node::map("", &nodes)
                }
                serde_json::Value::Array(values) => {
                    let places = values.iter().enumerate();
                    let nodes: Vec<NodeId> =
                        places.map(|(i, value)| add(builder, value, &join(path, &i.to_string()))).collect();
                    Node::container(NodeKind::LIST, "", nodes)
                }
                serde_json::Value::String(text) => {
                    let storage = builder.storage(Storage::inline(vec![0; text.len()])).unwrap();
                    Node::tensor(builder.tensor(path, Dtype::U8, &[text.len() as u64], storage, 0).unwrap())
                }
                other => Node::int(other.as_i64().unwrap_or(0)),
            };
            builder.node(node).unwrap()
        }
        let source = MemorySource::file("x", Vec::new());
        let limits = Limits::default();
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let root = add(&mut builder, &serde_json::from_str(text).unwrap(), "");
        builder.root(root).unwrap();
        builder.finish().unwrap()
    }

    fn names(catalog: &Catalog) -> Vec<&str> {
        catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect()
    }

    #[test]
    fn auto_takes_the_model_whatever_it_is_called() {
        let text = r#"{"net_g": {"params": {"a": "T", "b.c": "T"}}, "opt": {"state": {"0": "T"}, "param_groups": 1}, "epoch": 3}"#;
        let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["a", "b.c"]);
        let what: Vec<&str> = left_out.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(what, ["epoch", "opt"]);
        assert_eq!(part.tree().len(), 5);
    }

    #[test]
    fn several_models_are_listed_with_their_commands() {
        let text = r#"{"model": {"a": "T"}, "ema": {"a": "T"}, "optimizer": {"a": "T"}}"#;
        let error = take(catalog(text), &Part::Auto, true).err().unwrap().to_string();
        assert!(
            error.contains("--part ema") && error.contains("--part model") && !error.contains("optimizer"),
            "{error}"
        );
        let (part, _) = take(catalog(text), &Part::parse("ema"), true).unwrap();
        assert_eq!(names(&part), ["a"]);
        assert_eq!(names(&take(catalog(text), &Part::Whole, true).unwrap().0).len(), 3);
        assert_eq!(names(&take(catalog(text), &Part::Auto, false).unwrap().0).len(), 3);
    }

    #[test]
    fn a_mapping_has_names_and_more_than_numbers() {
        let text = r#"{"state": {"a": "TT", "b": "TT"}, "step": "T", "views": ["TT", "TT"]}"#;
        let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["a", "b"]);
        assert_eq!(left_out.len(), 2);
        assert_eq!(names(&take(catalog(r#"{"step": "T"}"#), &Part::Auto, true).unwrap().0), ["step"]);
    }

    #[test]
    fn many_numbers_beside_a_model_are_counted() {
        let numbers: Vec<String> = (0..1000).map(|n| format!(r#""n{n}": 1"#)).collect();
        let text = format!(r#"{{"model": {{"a": "TT"}}, "z": {{"t": "T"}}, {}}}"#, numbers.join(", "));
        let (part, left_out) = take(catalog(&text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["a"]);
        assert_eq!(left_out.len(), MOST_LISTED + 2);
        assert!(left_out.iter().any(|loss| loss.what == "800 more values"));
        assert!(left_out.iter().any(|loss| loss.what == "z" && loss.why.contains("took (1 tensor);")));
    }

    #[test]
    fn numbers_of_callbacks_are_no_model() {
        let text = r#"{"state_dict": {"a": "TT"}, "callbacks": {"early": {"best": "T"}}}"#;
        let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["a"]);
        assert_eq!(left_out[0].what, "callbacks");
    }

    #[test]
    fn training_state_beside_plain_tensors_is_left_out() {
        let text = r#"{"weight": "T", "scaler.mean": "T", "rng_state": "T", "epoch": 3}"#;
        let (part, left_out) = take(catalog(text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["scaler.mean", "weight"]);
        assert_eq!(left_out.len(), 1);
        // What is no tensor stays in the tree, where a target that cannot hold it says so.
        let walk = TreeWalk::new(&part);
        let keys: Vec<String> = walk.children(part.tree().root().unwrap()).map(|(key, _)| key).collect();
        assert_eq!(keys, ["epoch", "scaler.mean", "weight"]);
    }

    #[test]
    fn random_states_are_no_model_by_any_name() {
        let state = "T".repeat(5056);
        let text = format!(
            r#"{{"net": {{"a": "TT"}}, "cpu": "{state}", "generators": {{"a": "{state}", "b": "T"}}}}"#
        );
        let (part, left_out) = take(catalog(&text), &Part::Auto, true).unwrap();
        assert_eq!(names(&part), ["a"]);
        assert_eq!(left_out.len(), 2);
    }

    #[test]
    fn paths_go_through_keys_with_dots() {
        let text = r#"{"a.b": {"c": {"x": "T"}}, "a": {"d": {"y": "T"}}}"#;
        assert_eq!(names(&take(catalog(text), &Part::parse("a.b.c"), true).unwrap().0), ["x"]);
        assert!(take(catalog(text), &Part::parse("a.c"), true).is_err());
    }
}
