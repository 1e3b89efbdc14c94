//! Collects what of a tree cannot be written, until it is known that the tree is written at all.

use super::tree::StateTree;
use tensorferry_sdk::{LayoutSink, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity};

/// Losses of kind `state`, by the path of what is lost.
#[derive(Default)]
pub(super) struct Losses {
    first: Vec<Loss>,
    more: usize,
}

impl Losses {
    /// How many are told one by one: a hostile tree has millions.
    const MOST: usize = 1000;

    /// Notes what is lost at a node, and why.
    pub(super) fn add(&mut self, tree: &StateTree<'_>, id: NodeId, why: impl Into<String>) {
        self.push(tree, id, |path| Loss::new(LossKind::State, path, why));
    }

    /// Notes a value that is written in another form.
    pub(super) fn change(&mut self, tree: &StateTree<'_>, id: NodeId, why: impl Into<String>) {
        self.push(tree, id, |path| Loss::new(LossKind::State, path, why).severity(Severity::Changed));
    }

    fn push(&mut self, tree: &StateTree<'_>, id: NodeId, loss: impl FnOnce(String) -> Loss) {
        if self.first.len() < Self::MOST {
            self.first.push(loss(tree.path(id)));
        } else {
            self.more += 1;
        }
    }

    /// Notes a value that becomes `None`.
    pub(super) fn refuse(&mut self, tree: &StateTree<'_>, id: NodeId, node: &Node) {
        let why = match node.kind {
            NodeKind::INT => "an integer that is longer than 255 bytes becomes None".to_owned(),
            NodeKind::OBJECT => {
                format!("{:?} becomes None: torch.load(weights_only=True) refuses it", node.class)
            }
            kind => format!("a value of kind {} becomes None: no pickle opcode holds it", kind.0),
        };
        self.add(tree, id, why);
    }

    /// Tells them.
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
