//! A state tree is a catalog's tree on its way into a pickle: what is reached from the root, what
//! of it torch's `weights_only` loading accepts, and by which path.
//!
//! A child's id is lower than its parent's, so that one pass in the order of ids sees children
//! first, and nothing here recurses.

use super::composed::Composed;
use super::object::Object;
use super::opened;
use super::storages::Storages;
use crate::pickle_write::{LONGEST_INTEGER, Memo, trim_sign};
use tensorferry_sdk::{CatalogView, Context, Error, Node, NodeId, NodeKind, Result};

/// The nodes that are reached from a root.
pub(super) struct StateTree<'a> {
    context: &'a dyn Context,
    nodes: Vec<Option<Reached>>,
}

/// A node, and what is known of it.
struct Reached {
    node: Node,
    /// The parent on the way that led here last, and the place among its children.
    parent: Option<Step>,
    /// How many parents it has.
    parents: usize,
    form: Form,
    /// Whether it is a tensor that is written, or there is one below it.
    holds_tensors: bool,
    memo: Option<Memo>,
}

/// A parent, and which of its children.
pub(super) type Step = (NodeId, usize);

/// What becomes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// It is written.
    Kept {
        /// Whether Python can hash it, so that it may be a key or a set's member.
        hashable: bool,
    },
    /// A tensor that is given up, or what is nothing without it.
    GivenUp,
    /// Torch would refuse it.
    Refused,
}

impl<'a> StateTree<'a> {
    /// Fetches what is reached from `root`, and judges it.
    pub(super) fn read(
        catalog: &dyn CatalogView,
        root: NodeId,
        storages: &Storages,
        context: &'a dyn Context,
    ) -> Result<Self> {
        let mut tree = Self { context, nodes: Vec::new() };
        tree.nodes.resize_with(root.0 as usize + 1, || None);
        let mut waiting = vec![(root, None)];
        while let Some((id, parent)) = waiting.pop() {
            if let Some(known) = tree.nodes.get_mut(id.0 as usize).and_then(Option::as_mut) {
                known.parents += 1;
                continue;
            }
            tree.check_cancelled(id)?;
            let node = catalog.node(id)?;
            // In reverse, so that the first child's path is found first.
            for (index, &child) in node.children.iter().enumerate().rev() {
                if child >= id {
                    return Err(Error::plugin(format!(
                        "node {} of the tree has a child that is not older",
                        id.0
                    )));
                }
                waiting.push((child, Some((id, index))));
            }
            tree.nodes[id.0 as usize] = Some(Reached {
                node,
                parent,
                parents: 1,
                form: Form::Refused,
                holds_tensors: false,
                memo: None,
            });
        }
        for index in 0..=root.0 {
            let id = NodeId(index);
            if tree.node(id).is_some() {
                tree.check_cancelled(id)?;
                let holds_tensors = tree.finds_tensors(id, storages);
                let form = tree.judge(id, storages, holds_tensors);
                if let Some(reached) = tree.reached_mut(id) {
                    (reached.form, reached.holds_tensors) = (form, holds_tensors);
                }
            }
        }
        Ok(tree)
    }

    /// A node that is reached.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.reached(id).map(|reached| &reached.node)
    }

    /// What becomes of it.
    pub(super) fn form(&self, id: NodeId) -> Form {
        self.reached(id).map_or(Form::Refused, |reached| reached.form)
    }

    /// Whether it is written once, and remembered for its other parents.
    pub(super) fn is_shared(&self, id: NodeId) -> bool {
        let small = |kind| matches!(kind, NodeKind::NONE | NodeKind::BOOL | NodeKind::FLOAT | NodeKind::TEXT);
        self.reached(id).is_some_and(|reached| reached.parents > 1 && !small(reached.node.kind))
    }

    /// Where the pickle remembers it, once it is written.
    pub(super) fn memo(&self, id: NodeId) -> Option<Memo> {
        self.reached(id)?.memo
    }

    /// Says where the pickle remembers it.
    pub(super) fn set_memo(&mut self, id: NodeId, memo: Memo) {
        if let Some(reached) = self.reached_mut(id) {
            reached.memo = Some(memo);
        }
    }

    /// Says by which way the writer comes to a node, which may have several parents.
    pub(super) fn come_by(&mut self, id: NodeId, step: Option<Step>) {
        if let Some(reached) = self.reached_mut(id) {
            reached.parent = step;
        }
    }

    /// The keys and indices on the way from the root, with dots; `.` for the root.
    pub(super) fn path(&self, id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = self.reached(id);
        while let Some((parent, index)) = at.and_then(|reached| reached.parent) {
            at = self.reached(parent);
            if let Some(reached) = at {
                steps.extend(self.step(&reached.node, index));
            }
        }
        steps.reverse();
        if steps.is_empty() { ".".to_owned() } else { steps.join(".") }
    }

    fn step(&self, parent: &Node, index: usize) -> Option<String> {
        match parent.kind {
            NodeKind::MAP => {
                let key = self.node(*parent.children.get(index & !1)?)?;
                let text = key.as_text().map(str::to_owned);
                text.or_else(|| key.as_int().map(|number| number.to_string()))
                    .or_else(|| Some("?".to_owned()))
            }
            NodeKind::LIST | NodeKind::TUPLE | NodeKind::SET => Some(index.to_string()),
            _ => None,
        }
    }

    fn finds_tensors(&self, id: NodeId, storages: &Storages) -> bool {
        let Some(node) = self.node(id) else { return false };
        node.as_tensor().is_some_and(|tensor| storages.place(tensor).is_some())
            || node.children.iter().any(|&child| self.reached(child).is_some_and(|child| child.holds_tensors))
    }

    fn judge(&self, id: NodeId, storages: &Storages, holds_tensors: bool) -> Form {
        let Some(node) = self.node(id) else { return Form::Refused };
        let kept = |hashable| Form::Kept { hashable };
        match node.kind {
            NodeKind::NONE
            | NodeKind::BOOL
            | NodeKind::FLOAT
            | NodeKind::COMPLEX
            | NodeKind::TEXT
            | NodeKind::BYTES => kept(true),
            NodeKind::INT if trim_sign(&node.bytes).len() <= LONGEST_INTEGER => kept(true),
            NodeKind::LIST | NodeKind::SET | NodeKind::MAP => kept(false),
            NodeKind::TUPLE => kept(node.children.iter().all(|&child| self.is_hashable(child))),
            NodeKind::TENSOR => match node.as_tensor().and_then(|tensor| storages.place(tensor)) {
                Some(_) => kept(true),
                None => Form::GivenUp,
            },
            NodeKind::ATTRIBUTED => {
                let value = node.children.first().map_or(Form::Refused, |&value| self.form(value));
                let parts = Composed::of(self, node).map(|composed| composed.parts(self)).unwrap_or_default();
                let is_given_up = parts.iter().any(|&part| self.form(part) == Form::GivenUp);
                if is_given_up { Form::GivenUp } else { value }
            }
            NodeKind::OBJECT => match Object::of(self, id) {
                Some(Object::Parameter { tensor, .. }) => self.form(tensor),
                Some(Object::ByteArray(_) | Object::FrozenSet(_)) => kept(false),
                Some(_) => kept(true),
                None if holds_tensors && opened::entries(self, id).is_some() => kept(false),
                None => Form::Refused,
            },
            _ => Form::Refused,
        }
    }

    /// Whether it may be a key or a set's member.
    pub(super) fn is_hashable(&self, id: NodeId) -> bool {
        self.form(id) == Form::Kept { hashable: true }
    }

    /// Asks now and then whether the user has ended the run.
    pub(super) fn check_cancelled(&self, id: NodeId) -> Result<()> {
        if id.0.is_multiple_of(1 << 16) { self.context.check_cancelled() } else { Ok(()) }
    }

    fn reached(&self, id: NodeId) -> Option<&Reached> {
        self.nodes.get(id.0 as usize)?.as_ref()
    }

    fn reached_mut(&mut self, id: NodeId) -> Option<&mut Reached> {
        self.nodes.get_mut(id.0 as usize)?.as_mut()
    }
}
