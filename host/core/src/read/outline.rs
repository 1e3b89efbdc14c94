//! An outline shows a catalog's tree to users: the non-tensor state, and the number of tensors in
//! each part. The outline does not list the tensors themselves.

use crate::read::part::TreeWalk;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Number, Value};
use std::cell::Cell;
use std::collections::VecDeque;
use tensorferry_sdk::{Catalog, Node, NodeId, NodeKind};

/// Maximum number of lines of an outline.
const MAX_LINES: usize = 20;
/// Maximum number of children of a node to show. The remaining children are only counted.
const MAX_CHILDREN: usize = 10;
/// Maximum number of characters of a value to show.
const MAX_CHARACTERS: usize = 100;
/// Maximum number of items of a list to show in a line.
const MAX_ITEMS: usize = 4;
/// Maximum number of values to visit for one line. The limit is needed because a pickle can refer
/// many times to a single long list.
const MAX_EXAMINED: usize = 256;

/// Maximum depth of a tree that is written as JSON. JSON readers have a similar limit.
const MAX_DEPTH: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The depth of the node in the tree.
    pub level: usize,
    /// The key of the node, which may contain any character.
    pub key: String,
    /// The value of a leaf, or the class of an object.
    pub value: String,
    /// Number of tensors below the node.
    pub tensors: u64,
    /// Number of bytes of the tensors below the node.
    pub bytes: u64,
}

impl Line {
    fn new(level: usize, key: &str, value: &str) -> Self {
        Self { level, key: key.to_owned(), value: value.to_owned(), tensors: 0, bytes: 0 }
    }
}

/// Returns the lines of the outline of a catalog's tree, or no lines if the catalog has no tree.
/// Nodes near the root are expanded first. A node is expanded if enough lines are left for its
/// children.
#[must_use]
pub fn lines(catalog: &Catalog) -> Vec<Line> {
    let Some(root) = catalog.tree().root() else { return Vec::new() };
    let walk = TreeWalk::new(catalog);
    let mut shown: Vec<(Line, Vec<usize>)> = Vec::new();
    let mut top = Vec::new();
    let mut open = VecDeque::from([(None, root, 0)]);
    while let Some((parent, node, level)) = open.pop_front() {
        let children = || walk.children(node).filter(|(_, child)| !walk.is_leaf(*child));
        let count = children().count();
        let places = if level == 0 { MAX_LINES } else { MAX_CHILDREN };
        // A node is not expanded if its own line shows everything, or if it has many similar
        // children, which are only counted.
        let is_said = in_one_line(catalog, &walk, node).is_some();
        if level > 0 && (is_said || (count > MAX_CHILDREN && walk.tensors_below(node) > 0)) {
            continue;
        }
        if shown.len() + count.min(places) > MAX_LINES && level > 0 {
            continue;
        }
        let mut places_of: Vec<usize> = Vec::new();
        for (key, child) in children().take(places) {
            places_of.push(shown.len());
            open.push_back((Some(shown.len()), child, level + 1));
            shown.push((line(catalog, &walk, level, &key, child), Vec::new()));
        }
        if count > places {
            places_of.push(shown.len());
            shown.push((Line::new(level, "...", &format!("and {} more", count - places)), Vec::new()));
        }
        match parent {
            Some(parent) => shown[parent].1 = places_of,
            None => top = places_of,
        }
    }
    in_order(&shown, &top)
}

/// Sorts the lines so that parents come before their children.
fn in_order(shown: &[(Line, Vec<usize>)], top: &[usize]) -> Vec<Line> {
    let mut lines = Vec::with_capacity(shown.len());
    let mut open: Vec<usize> = top.iter().rev().copied().collect();
    while let Some(place) = open.pop() {
        let (line, children) = &shown[place];
        lines.push(line.clone());
        open.extend(children.iter().rev());
    }
    lines
}

fn line(catalog: &Catalog, walk: &TreeWalk<'_>, level: usize, key: &str, node: NodeId) -> Line {
    let below = walk.tensors(node, &[]).into_iter().filter_map(|id| catalog.tensor(id));
    Line {
        tensors: walk.tensors_below(node),
        bytes: below.map(|tensor| tensor.bytes).sum(),
        ..Line::new(level, key, &summary(catalog, walk, node))
    }
}

/// Formats a node in one line. The node is a list of scalars, or a mapping of values, which is
/// shown as `lr=0.001, betas=[0.9, 0.999]`. For a list of such mappings, the line shows the first
/// item. Returns `None` for any other node.
fn in_one_line(catalog: &Catalog, walk: &TreeWalk<'_>, id: NodeId) -> Option<String> {
    let node = catalog.tree().get(walk.value(id))?;
    if node.kind == NodeKind::MAP {
        let class = if node.class.is_empty() { String::new() } else { format!("{}: ", node.class) };
        return Some(shortened(&format!("{class}{}", pairs(catalog, walk, id, true)?)));
    }
    items(catalog, walk, id).or_else(|| {
        // The parameter groups of an optimizer are similar to each other.
        if node.kind != NodeKind::LIST || node.children.len() > MAX_CHILDREN {
            return None;
        }
        let mappings = node.children.iter();
        let lines: Vec<String> =
            mappings.map(|&child| pairs(catalog, walk, child, false)).collect::<Option<_>>()?;
        match &*lines {
            [] => None,
            [only] => Some(shortened(only)),
            [first, ..] => Some(shortened(&format!("[{} values], the first {first}", lines.len()))),
        }
    })
}

/// Formats the values of a mapping. The mapping may contain one level of mappings, whose length is
/// limited like that of a list.
fn pairs(catalog: &Catalog, walk: &TreeWalk<'_>, id: NodeId, may_nest: bool) -> Option<String> {
    let value = |id: NodeId| {
        let node = catalog.tree().get(walk.value(id))?;
        match node.kind {
            NodeKind::OBJECT if walk.tensors_below(id) == 0 => Some(node.class.to_string()),
            NodeKind::MAP if may_nest && node.children.len() <= 2 * MAX_ITEMS => {
                pairs(catalog, walk, id, false).map(|pairs| format!("{{{pairs}}}"))
            }
            _ => scalar(node).map(|value| value.to_string()).or_else(|| items(catalog, walk, id)),
        }
    };
    let node = catalog.tree().get(walk.value(id))?;
    if node.kind != NodeKind::MAP || node.children.len() > 2 * MAX_EXAMINED {
        return None;
    }
    let children = walk.children(id);
    let pairs: Option<Vec<String>> =
        children.map(|(key, child)| Some(format!("{key}={}", value(child)?))).collect();
    pairs.filter(|pairs| !pairs.is_empty()).map(|pairs| pairs.join(", "))
}

/// Formats a short list of scalars. For a longer list, returns the number of items.
fn items(catalog: &Catalog, walk: &TreeWalk<'_>, id: NodeId) -> Option<String> {
    let node = catalog.tree().get(walk.value(id))?;
    if !matches!(node.kind, NodeKind::LIST | NodeKind::TUPLE | NodeKind::SET) || node.children.is_empty() {
        return None;
    }
    let item = |id: &NodeId| scalar(catalog.tree().get(*id)?).map(|value| value.to_string());
    let looked_at = node.children.iter().take(MAX_EXAMINED);
    let items: Vec<String> = looked_at.map(item).collect::<Option<_>>()?;
    let all = format!("[{}]", items.join(", "));
    let is_short = items.len() <= MAX_ITEMS && all.chars().count() <= MAX_CHARACTERS;
    let count = node.children.len();
    let is_known = count <= MAX_EXAMINED || walk.tensors_below(id) == 0;
    if is_short { Some(all) } else { is_known.then(|| format!("[{count} values]")) }
}

/// Returns a shortened form of a node's value, or a description of the node.
fn summary(catalog: &Catalog, walk: &TreeWalk<'_>, id: NodeId) -> String {
    if let Some(line) = in_one_line(catalog, walk, id) {
        return line;
    }
    let Some(node) = catalog.tree().get(walk.value(id)) else { return String::new() };
    match scalar(node) {
        Some(Value::String(text)) => shortened(&text),
        Some(value) => value.to_string(),
        None if node.kind == NodeKind::OBJECT => node.class.to_string(),
        None if walk.is_container(id) && walk.children(id).next().is_none() => "(empty)".to_owned(),
        None => String::new(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// Returns the tree as JSON. Mappings and lists become JSON objects and arrays, tensors are written
/// as their names, and objects as their classes. The tree is serialized node by node, so the
/// complete JSON is never in memory. Returns `None` if the catalog has no tree.
#[must_use]
pub fn json(catalog: &Catalog) -> Option<State<'_>> {
    let root = catalog.tree().root()?;
    // Many parents may share a node, so the number of written values is limited.
    Some(State { catalog, root, max: catalog.tree().len().saturating_mul(4) + 1000 })
}

/// A tree that serializes as JSON.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    catalog: &'a Catalog,
    root: NodeId,
    max: usize,
}

impl State<'_> {
    /// Limits the number of values that are written.
    #[must_use]
    pub fn within(self, max: usize) -> Self {
        Self { max: self.max.min(max), ..self }
    }
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let left = Cell::new(self.max);
        Below { catalog: self.catalog, id: self.root, depth: 0, left: &left }.serialize(serializer)
    }
}

/// A node and its descendants. `left` is the number of values that may still be written.
#[derive(Clone, Copy)]
struct Below<'a> {
    catalog: &'a Catalog,
    id: NodeId,
    depth: usize,
    left: &'a Cell<usize>,
}

impl<'a> Below<'a> {
    fn child(self, id: NodeId) -> Self {
        Self { id, depth: self.depth + 1, ..self }
    }

    /// Formats the node as the key of a mapping.
    fn key(self) -> String {
        match self.catalog.tree().get(self.id).and_then(Node::as_text) {
            Some(text) => text.to_owned(),
            None => serde_json::to_string(&self).unwrap_or_default(),
        }
    }

    fn list<S: Serializer>(self, children: &[NodeId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(children.iter().map(|&id| self.child(id)))
    }
}

impl Serialize for Below<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(node) = self.catalog.tree().get(self.id) else { return serializer.serialize_unit() };
        let Some(left) = self.left.get().checked_sub(1).filter(|_| self.depth < MAX_DEPTH) else {
            return serializer.serialize_str("(too large to show)");
        };
        self.left.set(left);
        match node.kind {
            NodeKind::TENSOR => {
                let tensor = node.as_tensor().and_then(|id| self.catalog.tensor(id));
                serializer.collect_map([("tensor", tensor.map(|tensor| &tensor.name))])
            }
            NodeKind::LIST | NodeKind::TUPLE | NodeKind::SET => self.list(&node.children, serializer),
            NodeKind::MAP => {
                serializer.collect_map(node.entries().map(|(k, v)| (self.child(k).key(), self.child(v))))
            }
            NodeKind::ATTRIBUTED => self.child(node.children[0]).serialize(serializer),
            NodeKind::OBJECT => {
                let mut object = serializer.serialize_map(Some(2))?;
                object.serialize_entry("class", &node.class)?;
                object.serialize_entry("parts", &Parts(*self, &node.children))?;
                object.end()
            }
            _ => scalar(node).serialize(serializer),
        }
    }
}

/// The child nodes of an object.
struct Parts<'a>(Below<'a>, &'a [NodeId]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.list(self.1, serializer)
    }
}

/// Returns the value of a node that is not a container.
fn scalar(node: &Node) -> Option<Value> {
    match node.kind {
        NodeKind::NONE => Some(Value::Null),
        NodeKind::BOOL => node.as_bool().map(Value::Bool),
        NodeKind::INT => Some(match node.as_int() {
            Some(number) => Value::Number(number.into()),
            None => Value::String(format!("(an integer of {} bytes)", node.bytes.len())),
        }),
        NodeKind::FLOAT => {
            let number = node.as_float()?;
            Some(Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number))
        }
        NodeKind::TEXT => node.as_text().map(|text| Value::String(text.to_owned())),
        NodeKind::BYTES | NodeKind::COMPLEX | NodeKind::NUMBERS => {
            Some(Value::String(format!("({} bytes)", node.bytes.len())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{Limits, Tree};

    fn catalog(build: impl FnOnce(&mut dyn FnMut(Node) -> NodeId) -> NodeId) -> Catalog {
        let limits = Limits::default();
        let mut tree = Tree::default();
        let root = build(&mut |node| tree.push(node, &limits).unwrap());
        tree.set_root(root).unwrap();
        Catalog::default().with_tree(tree).unwrap()
    }

    #[test]
    fn state_is_shown_by_key() {
        let catalog = catalog(|push| {
            let (step, three) = (push(Node::text("step")), push(Node::int(3)));
            let (rates, list) = (push(Node::text("rates")), push(Node::float(0.5)));
            let list = push(Node::container(NodeKind::LIST, "", [list]));
            push(Node::map("", &[(step, three), (rates, list)]))
        });
        let shown: Vec<String> = lines(&catalog)
            .iter()
            .map(|line| format!("{} {} {}", line.level, line.key, line.value))
            .collect();
        assert_eq!(shown, ["0 step 3", "0 rates [0.5]"]);
        let written = serde_json::to_value(json(&catalog).unwrap()).unwrap();
        assert_eq!(written, serde_json::json!({"step": 3, "rates": [0.5]}));
    }

    #[test]
    fn settings_are_shown_in_a_line() {
        let catalog = catalog(|push| {
            let (rate, half) = (push(Node::text("lr")), push(Node::float(0.5)));
            let group = push(Node::map("", &[(rate, half)]));
            let groups = push(Node::container(NodeKind::LIST, "", [group, group]));
            let (nested, name) = (push(Node::text("nested")), push(Node::text("n")));
            let settings = push(Node::map("C", &[(name, half), (nested, group)]));
            let (groups_key, settings_key) = (push(Node::text("groups")), push(Node::text("settings")));
            push(Node::map("", &[(groups_key, groups), (settings_key, settings)]))
        });
        let shown: Vec<String> = lines(&catalog).iter().map(|line| line.value.clone()).collect();
        assert_eq!(shown, ["[2 values], the first lr=0.5", "C: n=0.5, nested={lr=0.5}"]);
    }

    #[test]
    fn what_is_shared_many_times_is_bounded() {
        let catalog = catalog(|push| {
            let mut id = push(Node::int(1));
            for _ in 0..100 {
                id = push(Node::container(NodeKind::LIST, "", [id, id]));
            }
            id
        });
        assert!(serde_json::to_string(&json(&catalog).unwrap()).unwrap().len() < 100_000);
        assert!(lines(&catalog).len() <= MAX_LINES + 1);
    }
}
