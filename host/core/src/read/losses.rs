//! Losses that the host detects: content that a target format cannot represent, regardless of its
//! writer.

use crate::context::human;
use crate::read::marks::TensorMark;
use crate::read::part::{TreeWalk, join};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use tensorferry_sdk::{
    Capabilities, Catalog, CatalogView, Content, Description, Error, ErrorKind, Layout, Loss, LossKind,
    NodeId, Result, Segment, Severity, Side, TensorId,
};

/// Maximum number of losses to list per kind. The remaining losses are only counted.
const MAX_LISTED: usize = 200;

/// Returns the losses that occur when a tree is written to a target without a tree: [the
/// values](of_values) in the tree, and the marks on its tensors.
#[must_use]
pub fn of_state(catalog: &Catalog, folded: bool) -> Vec<Loss> {
    let mut losses = of_values(catalog, folded);
    losses.extend(of_marks(catalog));
    losses
}

/// Returns a loss for each branch below the root that contains only non-tensor state, for a target
/// without a tree. `folded` means that the root's attributes were moved into the metadata.
#[must_use]
pub fn of_values(catalog: &Catalog, folded: bool) -> Vec<Loss> {
    let mut paths = Vec::new();
    walk_values(catalog, |walk, path, id| {
        let is_root = catalog.tree().root() == Some(id);
        if walk.value(id) != id && !walk.is_leaf(id) && !(folded && is_root) {
            paths.push(join(path, "(attributes)"));
        }
        if walk.tensors_below(id) == 0 && !(is_root && walk.is_container(id)) {
            paths.push(if path.is_empty() { "." } else { path }.to_owned());
        }
    });
    listed(LossKind::State, &paths, "values", "the target holds only tensors")
}

/// Reports the marks on tensors as losses, for a target without a tree. A mark is an attribute of a
/// tensor, or a wrapper around the tensor.
#[must_use]
pub fn of_marks(catalog: &Catalog) -> Vec<Loss> {
    let (mut attributes, mut composed, mut marked) = (Vec::new(), Vec::new(), 0_u64);
    walk_values(catalog, |walk, path, id| {
        if !walk.is_leaf(id) {
            return;
        }
        match TensorMark::of(walk, id) {
            TensorMark::None => {}
            TensorMark::Parameter => marked += 1,
            TensorMark::Parts => composed.push(path.to_owned()),
            TensorMark::Attributes(keys) => {
                attributes.extend(keys.iter().map(|key| format!("{path}: {key}")));
            }
        }
    });
    let why = "it was set on the tensor, and the target holds only tensors";
    let mut losses = listed(LossKind::State, &attributes, "values", why);
    let parts = "a sparse, nested or quantized tensor is written as its parts, without a record that they belong together";
    losses.extend(listed(LossKind::Sparse, &composed, "tensors", parts));
    if marked > 0 {
        let why = "the target cannot record that a tensor is a parameter or requires a gradient";
        let tensors = if marked == 1 { "a tensor".to_owned() } else { format!("{marked} tensors") };
        let marks = Loss::new(LossKind::State, format!("marks of {tensors}"), why);
        losses.push(marks.severity(Severity::Note));
    }
    losses
}

/// Calls `visit` for the nodes of the tree, from the root down to the tensors and to the branches
/// that contain no tensors.
fn walk_values(catalog: &Catalog, mut visit: impl FnMut(&TreeWalk<'_>, &str, NodeId)) {
    let Some(root) = catalog.tree().root() else { return };
    let walk = TreeWalk::new(catalog);
    let mut open: Vec<(String, NodeId)> = vec![(String::new(), root)];
    while let Some((path, id)) = open.pop() {
        visit(&walk, &path, id);
        let is_end =
            walk.is_leaf(id) || (walk.tensors_below(id) == 0 && !(id == root && walk.is_container(id)));
        if !is_end {
            let children = walk.children(id);
            open.extend(children.rev().map(|(key, child)| (join(&path, &key), child)));
        }
    }
}

fn listed(kind: LossKind, what: &[String], rest: &str, why: &str) -> Vec<Loss> {
    let mut losses: Vec<Loss> = what.iter().take(MAX_LISTED).map(|what| Loss::new(kind, what, why)).collect();
    if what.len() > MAX_LISTED {
        losses.push(Loss::new(kind, format!("{} more {rest}", what.len() - MAX_LISTED), why));
    }
    losses
}

/// Reports the metadata as lost, for a target without metadata.
#[must_use]
pub fn of_metadata(catalog: &Catalog) -> Vec<Loss> {
    let lose = |key: &String| Loss::new(LossKind::Metadata, key, "the target has no place for metadata");
    catalog.metadata().keys().take(MAX_LISTED).map(lose).collect()
}

/// Returns a note for each tied tensor that a layout writes more than once. No value is lost, but
/// the output is larger. If the format has the option `tied`, the note names it.
#[must_use]
pub fn of_ties(view: &dyn CatalogView, layout: &Layout, description: &Description) -> Vec<Loss> {
    if description.capabilities.has(Capabilities::TIES) {
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
    let mut options = description.options.iter();
    let dedupes = options.any(|option| option.side == Side::Writer && option.key == "tied");
    let advice = if dedupes { "; -o tied=dedupe writes it once" } else { "" };
    let mut losses = Vec::new();
    for mut members in written.into_values() {
        members.sort_unstable();
        members.dedup();
        // A layout must write one member of each tie. That member need not be the first member that
        // the reader returned.
        let Some((&first, again)) = members.split_first() else { continue };
        for &member in again {
            losses.push(of_tie(view, member, first, advice));
        }
    }
    losses
}

/// Returns the note for a tensor that is written again although it is tied to another tensor.
#[must_use]
pub fn of_tie(view: &dyn CatalogView, member: TensorId, first: TensorId, advice: &str) -> Loss {
    let (member, first) = (view.tensor(member), view.tensor(first).name);
    let bytes = human::bytes(member.bytes);
    let why = format!("tied to {first:?} and written again ({bytes}){advice}");
    Loss::new(LossKind::Alias, member.name, why).severity(Severity::Note)
}

/// The rules that decide which losses make a conversion fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossPolicy {
    /// `--strict`: refuse data loss and unrequested changes of representation, unless their kind is
    /// allowed.
    pub strict: bool,
    #[serde(serialize_with = "write_kinds", deserialize_with = "read_kinds")]
    pub allowed: Vec<LossKind>,
}

fn write_kinds<S: Serializer>(kinds: &[LossKind], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(kinds.iter().map(|kind| kind.word()))
}

fn read_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LossKind>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let kind = |word: &String| {
        LossKind::named(word).ok_or_else(|| D::Error::custom(format!("unknown kind of loss {word:?}")))
    };
    words.iter().map(kind).collect()
}

impl LossPolicy {
    /// Returns whether the policy allows this kind of loss.
    #[must_use]
    pub fn allows(&self, kind: LossKind) -> bool {
        self.allowed.contains(&kind)
    }

    /// Returns an error for the first loss that makes the conversion fail. The error names the
    /// option that allows the loss.
    pub fn check(&self, losses: &[Loss]) -> Result<()> {
        let ends = |loss: &&Loss| match loss.severity {
            Severity::Lost => true,
            Severity::Changed => !loss.requested,
            Severity::Note => false,
        };
        let mut refused = losses.iter().filter(ends).filter(|loss| self.strict && !self.allows(loss.kind));
        let Some(first) = refused.next() else { return Ok(()) };
        let more = refused.count();
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let kind = first.kind.word();
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("--strict: {first}{more}; pass --allow-loss {kind} to accept losses of this kind"),
        ))
    }
}
