//! Reads the staged output back and compares every tensor's content with the source.

use crate::write::target::OutputTarget;
use std::collections::{HashMap, HashSet};
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{
    CatalogView, Content, Entry, Error, Layout, LossKind, Purpose, Result, Role, Target, TensorId, hex,
};
use tensorferry_tensors::content::{self, Algorithm, ContentDigest, digests};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::stored::Stored;

/// Compares `written` with `source` and returns the number of compared tensors. `known` contains
/// the source's content digests, if these are already computed. A tensor that the writer reports as
/// rounded must exist, but its content may differ. A tensor with an attribute loss may have a
/// different shape.
pub fn verify(
    written: &FileSource,
    target: &OutputTarget<'_>,
    source: &Logical<'_>,
    layout: &Layout,
    known: Option<&[ContentDigest]>,
) -> Result<u64> {
    let session = source.stored().session();
    let written = input::read(written, target.format, &[], &ReadContext::new(session, Purpose::SHOW))?;
    let logical = Logical::new(Stored::new(&written, &written.catalog, session, target.spill()));
    let expected = match known {
        Some(known) => known.to_vec(),
        None => digests(source, Algorithm::Blake3)?,
    };
    let found = digests(&logical, Algorithm::Blake3)?;
    let by_name: HashMap<&str, usize> =
        written.catalog.tensors().iter().map(|tensor| tensor.name.as_str()).zip(0..).collect();
    let losses_of = |kind| -> HashSet<&str> {
        let losses = layout.losses().iter().filter(|loss| loss.kind == kind);
        losses.map(|loss| &*loss.what).collect()
    };
    let (rounded, changed) = (losses_of(LossKind::Precision), losses_of(LossKind::Attribute));
    let expected_count = expected.len() - layout.omitted().len();
    let mut compared = 0;
    for (id, expected) in source.tensor_ids().zip(&expected) {
        if layout.omitted().contains(&id) {
            continue;
        }
        let name = source.tensor(TensorId(id.0)).name;
        // A format that does not store names returns its only tensor under a different name. The
        // writer reports this renaming as a loss.
        let only = (found.len() == 1 && expected_count == 1).then_some(0);
        let own = [name.to_owned()];
        for written_as in layout.names(id).unwrap_or(&own) {
            match by_name.get(written_as.as_str()).copied().or(only) {
                Some(at) if found[at] == *expected || rounded.contains(name) => {}
                Some(at)
                    if changed.contains(name)
                        && content::reshaped(source, id, &written.catalog.tensors()[at].shape)?
                            == found[at] => {}
                Some(at) => {
                    return Err(Error::verification("the output's content differs from the input's")
                        .tensor(name)
                        .expected(hex(expected))
                        .found(hex(&found[at])));
                }
                None => return Err(Error::verification("a tensor is missing from the output").tensor(name)),
            }
        }
        compared += 1;
    }
    Ok(compared)
}

/// Returns the entry with which an output is opened: the index of a set of files, if the set has an
/// index.
pub fn entry(target: &Target, layout: &Layout) -> Entry {
    let Target::File(name) = target else { return Entry::Folder };
    let files = layout.files();
    let index = files.iter().find(|file| file.role == Role::Index || file.content == Content::Late);
    Entry::File(index.or(files.first()).map_or(name, |file| &file.path).clone())
}
