//! Compares two catalogs. Checks whether they are equal, or whether one contains all content of the
//! other.

use super::rules::Rules;
use crate::memory::MemoryView;
use crate::{Capabilities, Catalog, CatalogView, Loss, LossKind, Node, NodeId, TensorId};
use std::collections::HashSet;

pub(super) fn names(catalog: &Catalog) -> impl Iterator<Item = &String> {
    catalog.tensors().iter().map(|tensor| &tensor.name)
}

/// Returns whether two catalogs of the same input are equal.
pub(super) fn same_catalog(one: &Catalog, other: &Catalog) -> bool {
    one.tensors() == other.tensors()
        && one.storages() == other.storages()
        && one.metadata() == other.metadata()
        && one.tree() == other.tree()
        && one.losses() == other.losses()
        && one.origin() == other.origin()
        && one.globals() == other.globals()
}

/// A catalog that was written, and the catalog that was read back.
pub(super) struct CatalogRoundTrip<'a> {
    pub(super) input: &'a str,
    pub(super) before: &'a MemoryView<'a>,
    pub(super) after: &'a MemoryView<'a>,
    pub(super) losses: &'a [Loss],
}

impl CatalogRoundTrip<'_> {
    /// Checks that `after` contains all content of `before`, unless a loss reports the difference.
    pub(super) fn check(&self, rules: &Rules<'_>) {
        for name in names(self.before.catalog()) {
            self.check_tensor(rules, name);
        }
        if !self.lost_any(LossKind::Name) {
            let before: HashSet<&String> = names(self.before.catalog()).collect();
            let new = names(self.after.catalog()).find(|name| !before.contains(name));
            rules.require(new.is_none(), "no tensor is made up", || format!("{}: {new:?}", self.input));
        }
        self.check_ties(rules);
        self.check_metadata(rules);
        self.check_attributes(rules);
        self.check_tree(rules);
    }

    fn lost(&self, kind: LossKind, what: &str) -> bool {
        self.losses.iter().any(|loss| loss.kind == kind && loss.what == what)
    }

    fn lost_any(&self, kind: LossKind) -> bool {
        self.losses.iter().any(|loss| loss.kind == kind)
    }

    /// Returns whether the format promises to keep this kind of content and has not reported its
    /// loss. The host removes content that a format does not promise to keep, and reports the loss.
    fn keeps(&self, rules: &Rules<'_>, promise: Capabilities, loss: LossKind) -> bool {
        rules.description.capabilities.has(promise) && !self.lost_any(loss)
    }

    fn check_tensor(&self, rules: &Rules<'_>, name: &str) {
        if self.lost(LossKind::Tensor, name) {
            return;
        }
        let input = format!("{}, tensor {name:?}", self.input);
        let before = rules.holds(self.before.tensor_named(name), "a tensor to write can be read", &input);
        let renamed = self.lost(LossKind::Name, name);
        let after: Vec<_> = names(self.after.catalog())
            .filter(|other| renamed || *other == name)
            .map(|other| rules.holds(self.after.tensor_named(other), "a written tensor can be read", &input))
            .collect();
        rules.require(
            !after.is_empty(),
            "a tensor is written, or its loss or the loss of its name is reported",
            || {
                let there: Vec<_> = names(self.after.catalog()).collect();
                format!("{input}: the output has {there:?}; losses {:?}", self.losses)
            },
        );
        let is_reshaped = || {
            self.lost(LossKind::Attribute, name)
                && after.iter().any(|found| (&found.0, &found.2) == (&before.0, &before.2))
        };
        let kept = after.contains(&before) || self.lost(LossKind::Precision, name) || is_reshaped();
        rules.require(kept, "a tensor keeps its dtype, shape and bytes", || {
            let (dtype, shape, bytes) = &before;
            let found = &after[0];
            format!(
                "{input}: {dtype} {shape:?} {bytes:02x?} became {} {:?} {:02x?}",
                found.0, found.1, found.2
            )
        });
    }

    fn check_ties(&self, rules: &Rules<'_>) {
        if !self.keeps(rules, Capabilities::TIES, LossKind::Alias) {
            return;
        }
        let place = |name: &str| {
            let index = names(self.after.catalog()).position(|other| other == name)?;
            u32::try_from(index).ok().map(TensorId)
        };
        for id in self.before.tensor_ids() {
            let name = |id| self.before.tensor(id).name;
            let first = self.before.tied_to(id);
            if let (Some(one), Some(other)) = (place(name(first)), place(name(id))) {
                let tied = first == id || self.after.tied_to(one) == self.after.tied_to(other);
                rules.require(tied, "tied tensors stay tied, or their loss is reported", || {
                    format!("{}: {:?} and {:?}", self.input, name(first), name(id))
                });
            }
        }
    }

    fn check_metadata(&self, rules: &Rules<'_>) {
        if !self.keeps(rules, Capabilities::METADATA, LossKind::Metadata) {
            return;
        }
        let after = self.after.catalog().metadata();
        for (key, value) in self.before.catalog().metadata() {
            rules.require(after.get(key) == Some(value), "metadata is kept, or its loss is reported", || {
                format!("{}: {key:?} is {value:?}, became {:?}", self.input, after.get(key))
            });
        }
    }

    fn check_attributes(&self, rules: &Rules<'_>) {
        if !self.keeps(rules, Capabilities::ATTRIBUTES, LossKind::Attribute) {
            return;
        }
        let after = self.after.catalog().tensors();
        for tensor in self.before.catalog().tensors() {
            let renamed = self.lost(LossKind::Name, &tensor.name);
            let found: Vec<_> = after.iter().filter(|other| renamed || other.name == tensor.name).collect();
            let kept = found.is_empty() || found.iter().any(|other| other.attributes == tensor.attributes);
            rules.require(kept, "attributes are kept, or their loss is reported", || {
                let found: Vec<_> = found.iter().map(|other| &other.attributes).collect();
                format!("{}, tensor {:?}: {:?} became {found:?}", self.input, tensor.name, tensor.attributes)
            });
        }
    }

    /// Compares the trees, starting at their roots. Each pair of nodes is compared once, without
    /// recursion.
    fn check_tree(&self, rules: &Rules<'_>) {
        let kept = self.keeps(rules, Capabilities::TREE, LossKind::State);
        let Some(root) = self.before.root().filter(|_| kept) else { return };
        let rule = "the tree is kept, or its loss is reported";
        let Some(other) = self.after.root() else {
            rules.broken(rule, &format!("{}: the output has no tree and no loss of kind state", self.input));
        };
        let mut open = vec![(root, other)];
        let mut seen = HashSet::new();
        while let Some(pair) = open.pop() {
            if !seen.insert(pair) {
                continue;
            }
            let (one, other) = (node(self.before, pair.0), node(self.after, pair.1));
            let same = one.kind == other.kind
                && one.class == other.class
                && one.children.len() == other.children.len()
                && self.same_value(&one, &other);
            rules.require(same, rule, || format!("{}: {one:?} became {other:?}", self.input));
            open.extend(one.children.iter().copied().zip(other.children.iter().copied()));
        }
    }

    fn same_value(&self, one: &Node, other: &Node) -> bool {
        match (one.as_tensor(), other.as_tensor()) {
            (Some(one), Some(other)) => {
                let name = self.before.tensor(one).name;
                self.lost(LossKind::Name, name) || name == self.after.tensor(other).name
            }
            _ => one.bytes == other.bytes,
        }
    }
}

fn node(view: &MemoryView<'_>, id: NodeId) -> Node {
    view.node(id).unwrap_or_else(|_| Node::none())
}
