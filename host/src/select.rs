//! Selecting leaves of an input's catalog what the conversion is about, in the shape that the
//! target's format can take, and says what that leaves out.

use crate::part::{self, Part};
use crate::{attributes, losses};
use tensorferry_sdk::{Capabilities, Catalog, Description, Loss, Result};

/// What goes to the writer.
pub struct Selected {
    /// The tensors, metadata and tree.
    pub catalog: Catalog,
    /// What the reader, `--part auto`, or the target's format leave out.
    pub losses: Vec<Loss>,
}

/// Takes a part of a catalog for a target.
///
/// # Errors
/// Usage, if the part is not there, or if several could be meant.
pub fn select(catalog: &Catalog, part: &Part, target: &Description) -> Result<Selected> {
    let keeps = |capability| target.capabilities.has(capability);
    let mut lost = catalog.losses().to_vec();
    let (mut catalog, left_out) = part::take(catalog.clone(), part, !keeps(Capabilities::TREE))?;
    lost.extend(left_out);
    if keeps(Capabilities::TREE) {
        catalog = attributes::unfold(catalog)?;
    } else {
        let folded = if keeps(Capabilities::METADATA) { attributes::fold(&mut catalog) } else { false };
        lost.extend(losses::of_state(&catalog, folded));
    }
    if !keeps(Capabilities::METADATA) {
        lost.extend(losses::of_metadata(&catalog));
    }
    Ok(Selected { catalog, losses: lost })
}
