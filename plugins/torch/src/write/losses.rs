//! Collects the losses of a tree. They are reported only after the tree has been pickled, because
//! the writer may drop the tree.

use super::tree::StateTree;
use tensorferry_sdk::{LayoutSink, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity};

/// Losses of kind `state`. Each loss contains the path of the lost value.
#[derive(Default)]
pub(super) struct Losses {
    first: Vec<Loss>,
    more: usize,
}

impl Losses {
    /// Maximum number of losses that are reported individually. A hostile tree can cause millions
    /// of losses.
    const MAX_REPORTED: usize = 1000;

    /// Records that the value of a node is lost, with the reason.
    pub(super) fn add(&mut self, tree: &StateTree<'_>, id: NodeId, why: impl Into<String>) {
        self.push(tree, id, |path| Loss::new(LossKind::State, path, why));
    }

    /// Records that the value of a node is written in a different form, with the reason.
    pub(super) fn change(&mut self, tree: &StateTree<'_>, id: NodeId, why: impl Into<String>) {
        self.push(tree, id, |path| Loss::new(LossKind::State, path, why).severity(Severity::Changed));
    }

    fn push(&mut self, tree: &StateTree<'_>, id: NodeId, loss: impl FnOnce(String) -> Loss) {
        if self.first.len() < Self::MAX_REPORTED {
            self.first.push(loss(tree.path(id)));
        } else {
            self.more += 1;
        }
    }

    /// Records that `None` is written in place of the value of a node.
    pub(super) fn refuse(&mut self, tree: &StateTree<'_>, id: NodeId, node: &Node) {
        let why = match node.kind {
            NodeKind::INT => "an integer longer than 255 bytes becomes None".to_owned(),
            NodeKind::OBJECT => {
                format!("{:?} becomes None: torch.load(weights_only=True) refuses it", node.class)
            }
            kind => format!("a value of kind {} becomes None: no pickle opcode can represent it", kind.0),
        };
        self.add(tree, id, why);
    }

    pub(super) fn report(self, layout: &mut dyn LayoutSink) -> Result<()> {
        for loss in self.first {
            layout.loss(loss)?;
        }
        if self.more > 0 {
            layout.loss(Loss::new(
                LossKind::State,
                ".",
                format!("{} more values are left out", self.more),
            ))?;
        }
        Ok(())
    }
}
