//! Losses that the host sees: what a target's format has no place for, whatever its writer says.

use crate::read::part::{TreeWalk, join};
use std::collections::BTreeMap;
use tensorferry_sdk::{
    Capabilities, Catalog, CatalogView, Content, Error, ErrorKind, Layout, Loss, LossKind, NodeId, Result,
    Segment, Severity,
};

/// Losses of one kind that are listed one by one; the rest is counted.
const MOST_LISTED: usize = 200;

/// The non-tensor state below the root, for a target that has no tree: each branch without tensors
/// is one loss. `folded`: the root's attributes went into the metadata.
#[must_use]
pub fn of_state(catalog: &Catalog, folded: bool) -> Vec<Loss> {
    let tree = catalog.tree();
    let Some(root) = tree.root() else { return Vec::new() };
    let walk = TreeWalk::new(catalog);
    let (mut paths, mut sparse) = (Vec::new(), Vec::new());
    let mut marked = 0_u64;
    let mut open: Vec<(String, NodeId)> = vec![(String::new(), root)];
    while let Some((path, id)) = open.pop() {
        if walk.is_leaf(id) {
            // Attributes or a wrapper around a tensor: how it is sparse, that it is a parameter, that it wants a gradient.
            if walk.is_sparse(id) {
                sparse.push(path);
            } else {
                marked += u64::from(tree.get(id).is_some_and(|node| node.as_tensor().is_none()));
            }
            continue;
        }
        if walk.value(id) != id && !(folded && id == root) {
            paths.push(join(&path, "(attributes)"));
        }
        if walk.tensors_below(id) == 0 && !(id == root && walk.is_container(id)) {
            paths.push(path);
            continue;
        }
        let children = walk.children(id);
        open.extend(children.rev().map(|(key, child)| (join(&path, &key), child)));
    }
    let why = "the target holds tensors alone";
    let listed = paths.iter().take(MOST_LISTED).map(|path| Loss::new(LossKind::State, path, why));
    let mut losses: Vec<Loss> = listed.collect();
    if paths.len() > MOST_LISTED {
        let rest = paths.len() - MOST_LISTED;
        losses.push(Loss::new(LossKind::State, format!("{rest} more values"), why));
    }
    let parts = "a sparse tensor is written as its parts, and nothing says that they are one";
    losses.extend(sparse.iter().take(MOST_LISTED).map(|path| Loss::new(LossKind::Sparse, path, parts)));
    if sparse.len() > MOST_LISTED {
        let rest = format!("{} more tensors", sparse.len() - MOST_LISTED);
        losses.push(Loss::new(LossKind::Sparse, rest, parts));
    }
    if marked > 0 {
        let why = "the target cannot say that a tensor is a parameter or requires a gradient";
        let tensors = if marked == 1 { "a tensor".to_owned() } else { format!("{marked} tensors") };
        let marks = Loss::new(LossKind::State, format!("marks of {tensors}"), why);
        losses.push(marks.severity(Severity::Note));
    }
    losses
}

/// Metadata, for a target that has none.
#[must_use]
pub fn of_metadata(catalog: &Catalog) -> Vec<Loss> {
    let lose = |key: &String| Loss::new(LossKind::Metadata, key, "the target has no place for metadata");
    catalog.metadata().keys().take(MOST_LISTED).map(lose).collect()
}

/// Tied tensors that a layout writes more than once.
#[must_use]
pub fn of_ties(view: &dyn CatalogView, layout: &Layout, capabilities: Capabilities) -> Vec<Loss> {
    if capabilities.has(Capabilities::TIES) {
        return Vec::new();
    }
    let mut written: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in layout.files() {
        let Content::Copied(segments) = &file.content else { continue };
        for placed in segments {
            if let Segment::Tensor(part) = &placed.segment {
                written.entry(view.tied_to(part.tensor)).or_default().push(part.tensor);
            }
        }
    }
    for &tensor in layout.encoded().iter().flat_map(|placed| &placed.encoded.tensors) {
        written.entry(view.tied_to(tensor)).or_default().push(tensor);
    }
    let mut losses = Vec::new();
    for mut members in written.into_values() {
        members.sort_unstable();
        members.dedup();
        // One is written in any case, and the reader's first need not be it.
        let Some((&first, again)) = members.split_first() else { continue };
        for &member in again {
            let why = format!("tied to {:?} and written again", view.tensor(first).name);
            losses.push(Loss::new(LossKind::Alias, view.tensor(member).name, why));
        }
    }
    losses
}

/// Which losses end a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossPolicy {
    /// `--strict`: any that is lost, or changed without having been asked for, and that is not allowed.
    pub strict: bool,
    /// `--allow-loss`.
    pub allowed: Vec<LossKind>,
}

impl LossPolicy {
    /// Looks for a loss that ends the conversion.
    ///
    /// # Errors
    /// Unsupported: what would be lost, and the flag that allows it.
    pub fn check(&self, losses: &[Loss]) -> Result<()> {
        let ends = |loss: &&Loss| match loss.severity {
            Severity::Lost => true,
            Severity::Changed => !loss.asked,
            Severity::Note => false,
        };
        let mut refused =
            losses.iter().filter(ends).filter(|loss| self.strict && !self.allowed.contains(&loss.kind));
        let Some(first) = refused.next() else { return Ok(()) };
        let more = refused.count();
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let kind = first.kind.word();
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("--strict: {first}{more}; --allow-loss {kind} lets losses of this kind pass"),
        ))
    }
}
