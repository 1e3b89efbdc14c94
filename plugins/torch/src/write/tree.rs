//! The part of a catalog's tree that is reached from its root, with the form that each node gets in the pickle
//! and the path to it. Nothing here recurses.

use tensorferry_sdk::{CatalogView, Context, Error, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::pickle_writer::Memo;

/// The nodes that are reached from a root.
pub(super) struct StateTree<'a> {
    context: &'a dyn Context,
    nodes: Vec<Option<TreeNode>>,
}

/// A node, and what is known of it.
struct TreeNode {
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
    /// Fetches what is reached from `root`; until [`set_form`](Self::set_form), all of it is refused.
    pub(super) fn fetch(catalog: &dyn CatalogView, root: NodeId, context: &'a dyn Context) -> Result<Self> {
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
            tree.nodes[id.0 as usize] = Some(TreeNode {
                node,
                parent,
                parents: 1,
                form: Form::Refused,
                holds_tensors: false,
                memo: None,
            });
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

    /// Says what becomes of it, and whether it is a tensor that is written or has one below it.
    pub(super) fn set_form(&mut self, id: NodeId, form: Form, holds_tensors: bool) {
        if let Some(reached) = self.reached_mut(id) {
            (reached.form, reached.holds_tensors) = (form, holds_tensors);
        }
    }

    /// Whether it is a tensor that is written or has one below it, as far as that was said.
    pub(super) fn holds_tensors(&self, id: NodeId) -> bool {
        self.reached(id).is_some_and(|reached| reached.holds_tensors)
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

    /// Whether it may be a key or a set's member.
    pub(super) fn is_hashable(&self, id: NodeId) -> bool {
        self.form(id) == Form::Kept { hashable: true }
    }

    /// Asks now and then whether the user has ended the run.
    pub(super) fn check_cancelled(&self, id: NodeId) -> Result<()> {
        if id.0.is_multiple_of(1 << 16) { self.context.check_cancelled() } else { Ok(()) }
    }

    fn reached(&self, id: NodeId) -> Option<&TreeNode> {
        self.nodes.get(id.0 as usize)?.as_ref()
    }

    fn reached_mut(&mut self, id: NodeId) -> Option<&mut TreeNode> {
        self.nodes.get_mut(id.0 as usize)?.as_mut()
    }
}
