//! Selecting leaves of an input's catalog what the conversion is about, in the shape that the
//! target's format can take, and says what that leaves out.

use crate::read::part::{self, Part};
use crate::read::{attributes, losses};
use crate::steps::{self, Step, Stepped};
use tensorferry_sdk::{Capabilities, Catalog, Description, Loss, Result};

/// What goes to the writer.
pub struct Selected {
    /// The tensors, metadata and tree.
    pub catalog: Catalog,
    /// What the reader, `--part auto`, steps, or the target's format leave out.
    pub losses: Vec<Loss>,
    /// What the steps say beside that.
    pub notes: Vec<String>,
}

/// Takes a part of a catalog, and has steps change it, for a target.
///
/// # Errors
/// Usage, if the part is not there, or if several could be meant; whatever a step says.
pub fn select(catalog: &Catalog, part: &Part, steps: &[Step], target: &Description) -> Result<Selected> {
    let keeps = |capability| target.capabilities.has(capability);
    let mut lost = catalog.losses().to_vec();
    let (catalog, left_out) = part::take(catalog.clone(), part, !keeps(Capabilities::TREE))?;
    lost.extend(left_out);
    let Stepped { mut catalog, said } = steps::apply(catalog, steps)?;
    lost.extend(said.losses);
    if keeps(Capabilities::TREE) {
        catalog = attributes::unfold(catalog)?;
    } else {
        let folded = if keeps(Capabilities::METADATA) { attributes::fold(&mut catalog) } else { false };
        lost.extend(losses::of_state(&catalog, folded));
    }
    if !keeps(Capabilities::METADATA) {
        lost.extend(losses::of_metadata(&catalog));
    }
    Ok(Selected { catalog, losses: lost, notes: said.notes })
}
