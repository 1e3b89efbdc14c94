//! Fetches the part of a catalog's tree that is reachable from a root, and tracks the path and the
//! pickled form of each node. No function in this module is recursive.

use tensorferry_sdk::{CatalogView, Context, Error, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::pickle_writer::MemoId;

/// The nodes of a catalog's tree that are reachable from a root.
pub(super) struct StateTree<'a> {
    context: &'a dyn Context,
    nodes: Vec<Option<TreeNode>>,
}

struct TreeNode {
    node: Node,
    /// The step from the parent through which the node was last reached.
    parent: Option<Step>,
    /// Number of times that the node occurs as a child of other nodes.
    parents: usize,
    form: Form,
    /// Whether the node is or contains a tensor that will be written.
    holds_tensors: bool,
    memo: Option<MemoId>,
}

/// A parent, and the index of one of its children.
pub(super) type Step = (NodeId, usize);

/// The form in which a node is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Written {
        /// Whether Python can hash the value, which is required for keys and for members of sets.
        hashable: bool,
    },
    /// The node is an omitted tensor, or cannot be written without an omitted tensor.
    Omitted,
    /// torch would refuse to load the node with `weights_only`.
    Refused,
}

impl<'a> StateTree<'a> {
    /// Fetches the nodes reachable from `root`. The form of each node is [`Form::Refused`] until
    /// [`set_form`](Self::set_form) is called for it.
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
            // Children are pushed in reverse order, so that the path through the first child is
            // found first.
            for (index, &child) in node.children.iter().enumerate().rev() {
                if child >= id {
                    return Err(Error::plugin(format!(
                        "node {} of the tree has a child that was not added before it",
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

    /// Returns the node with this ID, or `None` if the node is not reachable.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.entry(id).map(|entry| &entry.node)
    }

    pub(super) fn form(&self, id: NodeId) -> Form {
        self.entry(id).map_or(Form::Refused, |entry| entry.form)
    }

    /// Sets the form of a node. `holds_tensors` specifies whether the node is or contains a tensor
    /// that will be written.
    pub(super) fn set_form(&mut self, id: NodeId, form: Form, holds_tensors: bool) {
        if let Some(entry) = self.entry_mut(id) {
            (entry.form, entry.holds_tensors) = (form, holds_tensors);
        }
    }

    /// Returns whether a node is or contains a tensor that will be written. The node's form must
    /// already be set.
    pub(super) fn holds_tensors(&self, id: NodeId) -> bool {
        self.entry(id).is_some_and(|entry| entry.holds_tensors)
    }

    /// Returns whether a node is written once and memoized, because it occurs more than once.
    pub(super) fn is_shared(&self, id: NodeId) -> bool {
        let small = |kind| matches!(kind, NodeKind::NONE | NodeKind::BOOL | NodeKind::FLOAT | NodeKind::TEXT);
        self.entry(id).is_some_and(|entry| entry.parents > 1 && !small(entry.node.kind))
    }

    /// Returns the memo ID of a node, or `None` if the node has not been memoized.
    pub(super) fn memo(&self, id: NodeId) -> Option<MemoId> {
        self.entry(id)?.memo
    }

    pub(super) fn set_memo(&mut self, id: NodeId, memo: MemoId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.memo = Some(memo);
        }
    }

    /// Sets the step from the parent through which the writer reached a node. A node may have
    /// several parents.
    pub(super) fn set_parent_step(&mut self, id: NodeId, step: Option<Step>) {
        if let Some(entry) = self.entry_mut(id) {
            entry.parent = step;
        }
    }

    /// Returns the path of a node: the keys and indices from the root to the node, joined with
    /// dots. Returns `.` for the root.
    pub(super) fn path(&self, id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = self.entry(id);
        while let Some((parent, index)) = at.and_then(|entry| entry.parent) {
            at = self.entry(parent);
            if let Some(entry) = at {
                steps.extend(self.step(&entry.node, index));
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

    /// Returns whether a node can be a key of a mapping or a member of a set.
    pub(super) fn is_hashable(&self, id: NodeId) -> bool {
        self.form(id) == Form::Written { hashable: true }
    }

    /// Checks for cancellation once every 65,536 nodes.
    pub(super) fn check_cancelled(&self, id: NodeId) -> Result<()> {
        if id.0.is_multiple_of(1 << 16) { self.context.check_cancelled() } else { Ok(()) }
    }

    fn entry(&self, id: NodeId) -> Option<&TreeNode> {
        self.nodes.get(id.0 as usize)?.as_ref()
    }

    fn entry_mut(&mut self, id: NodeId) -> Option<&mut TreeNode> {
        self.nodes.get_mut(id.0 as usize)?.as_mut()
    }
}
