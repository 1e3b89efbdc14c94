//! Marks are the information that a tree records about a tensor in addition to its elements. For
//! example, a mark shows that the tensor is a parameter, is sparse, or is quantized.

use crate::read::part::TreeWalk;
use tensorferry_sdk::{NodeId, NodeKind};

/// The most important mark of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TensorMark {
    None,
    /// The tensor is a parameter, or it requires a gradient.
    Parameter,
    /// The tensor is one of several tensors that together represent one tensor.
    Parts,
    /// The tensor has other attributes. The value contains the attribute keys that are strings.
    Attributes(Vec<String>),
}

/// An attribute that is needed only for training. The attribute does not affect the content of a
/// tensor.
const TRAINING_ATTRIBUTE: &str = "requires_grad";

impl TensorMark {
    pub(super) fn of(walk: &TreeWalk<'_>, mut id: NodeId) -> Self {
        let (mut is_marked, mut keys) = (false, Vec::new());
        loop {
            let node = walk.node(id);
            match (node.kind, &*node.children) {
                (NodeKind::ATTRIBUTED, &[value, attributes]) => {
                    // If the node has a layout but no tensors, the reader did not keep the parts.
                    let is_layout = |(key, _): (String, NodeId)| key == "layout";
                    if walk.tensors_below(attributes) > 0 || walk.children(attributes).any(is_layout) {
                        return Self::Parts;
                    }
                    keys.extend(
                        walk.children(attributes).map(|(key, _)| key).filter(|key| key != TRAINING_ATTRIBUTE),
                    );
                    id = value;
                }
                (NodeKind::OBJECT, _) => {
                    let Some(value) = walk.wrapped(node) else { break };
                    keys.extend(walk.mark_keys(node));
                    id = value;
                }
                _ => break,
            }
            is_marked = true;
        }
        match (is_marked, keys.is_empty()) {
            (false, _) => Self::None,
            (true, true) => Self::Parameter,
            (true, false) => Self::Attributes(keys),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use crate::read::losses::of_marks;
    use tensorferry_sdk::{
        CatalogBuilder, CatalogSink, Dtype, Limits, LossKind, MemorySource, Node, NodeId, NodeKind, Severity,
        Storage,
    };

    /// Returns the losses that a mapping `{"t": ...}` causes. `mark` receives the nodes of two
    /// tensors, and returns the node for the key `t`.
    fn losses(
        mark: impl FnOnce(&mut CatalogBuilder<'_>, NodeId, NodeId) -> NodeId,
    ) -> Vec<(LossKind, Severity, String)> {
        let (source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let storage = builder.storage(Storage::inline([0; 4])).unwrap();
        let tensors = ["t", "t.sizes"].map(|name| {
            let tensor = builder.tensor(name, Dtype::U8, &[4], storage, 0).unwrap();
            builder.node(Node::tensor(tensor)).unwrap()
        });
        let marked = mark(&mut builder, tensors[0], tensors[1]);
        let key = builder.node(Node::text("t")).unwrap();
        let root = builder.node(Node::map("", &[(key, marked)])).unwrap();
        builder.root(root).unwrap();
        let losses = of_marks(&builder.finish().unwrap());
        losses.into_iter().map(|loss| (loss.kind, loss.severity, loss.what)).collect()
    }

    fn attributed(builder: &mut CatalogBuilder<'_>, tensor: NodeId, key: &str, value: NodeId) -> NodeId {
        let key = builder.node(Node::text(key)).unwrap();
        let attributes = builder.node(Node::map("", &[(key, value)])).unwrap();
        builder.node(Node::container(NodeKind::ATTRIBUTED, "", [tensor, attributes])).unwrap()
    }

    #[test]
    fn what_is_said_of_a_tensor_is_told_apart() {
        assert_eq!(losses(|_, tensor, _| tensor), []);
        let note = (LossKind::State, Severity::Note, "marks of a tensor".to_owned());
        let gradient = losses(|builder, tensor, _| {
            let yes = builder.node(Node::bool(true)).unwrap();
            attributed(builder, tensor, "requires_grad", yes)
        });
        assert_eq!(gradient, std::slice::from_ref(&note));
        let foo = losses(|builder, tensor, _| {
            let text = builder.node(Node::text("bar")).unwrap();
            attributed(builder, tensor, "foo", text)
        });
        assert_eq!(foo, [(LossKind::State, Severity::Lost, "t: foo".to_owned())]);
        let nested = losses(|builder, tensor, sizes| attributed(builder, tensor, "sizes", sizes));
        assert_eq!(nested, [(LossKind::Sparse, Severity::Changed, "t".to_owned())]);
        for (state, expected) in [("", note), ("tag", (LossKind::State, Severity::Lost, "t: tag".to_owned()))]
        {
            let parameter = losses(|builder, tensor, _| {
                let [key, value] = [Node::text(state), Node::int(1)].map(|node| builder.node(node).unwrap());
                let entries = if state.is_empty() { Vec::new() } else { vec![(key, value)] };
                let state = builder.node(Node::map("", &entries)).unwrap();
                let arguments =
                    builder.node(Node::container(NodeKind::TUPLE, "", [tensor, value, state])).unwrap();
                builder.node(Node::container(NodeKind::OBJECT, "a.parameter", [arguments])).unwrap()
            });
            assert_eq!(parameter, [expected]);
        }
    }
}
