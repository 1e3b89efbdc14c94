//! Verifying reads the staged output back and compares every tensor's content with the source's.

use crate::content::{Algorithm, digests};
use crate::errand::Errand;
use crate::input;
use crate::logical::Logical;
use crate::models::Model;
use crate::run::Run;
use crate::source::FileSource;
use crate::stage::Stage;
use crate::stored::{Stored, hex};
use crate::target::Resolved;
use std::collections::HashMap;
use tensorferry_sdk::{CatalogView, Content, Entry, Error, Layout, Purpose, Result, Role, Target, TensorId};

/// Compares; gives the number of tensors that were compared.
///
/// # Errors
/// Verification, naming the tensor; unsupported, if the target's format cannot be read.
pub fn verify(
    stage: &Stage,
    target: &Resolved<'_>,
    model: &Model<'_>,
    source: &Logical<'_>,
    layout: &Layout,
    run: &Run,
) -> Result<u64> {
    let entry = match &target.target {
        Target::Folder => Entry::Folder,
        Target::File(name) => Entry::File(entry_name(layout).unwrap_or(name).to_owned()),
    };
    let written = FileSource::at(stage.path(&model.folder), entry);
    let written = input::read(written, target.format, &[], &Errand::new(run, Purpose::SHOW))?;
    let stored = Stored::new(&written, &written.catalog, run, target.spill());
    let logical = Logical::new(&written.catalog, &stored);
    let expected = digests(source, Algorithm::Blake3)?;
    let found = digests(&logical, Algorithm::Blake3)?;
    let by_name: HashMap<&str, &[u8; 32]> =
        written.catalog.tensors().iter().map(|tensor| tensor.name.as_str()).zip(&found).collect();
    let expected_count = expected.len() - layout.omitted().len();
    let mut compared = 0;
    for (id, expected) in source.tensor_ids().zip(&expected) {
        if layout.omitted().contains(&id) {
            continue;
        }
        let name = source.tensor(TensorId(id.0)).name;
        // A format without names gives its one tensor another: its writer says so as a loss.
        let only = (found.len() == 1 && expected_count == 1).then(|| &found[0]);
        let own = [name.to_owned()];
        for written_as in layout.names(id).unwrap_or(&own) {
            match by_name.get(written_as.as_str()).copied().or(only) {
                Some(found) if found == expected => {}
                Some(found) => {
                    return Err(Error::verification("what was written is not what was read")
                        .tensor(name)
                        .expected(hex(expected))
                        .found(hex(found)));
                }
                None => return Err(Error::verification("a tensor is missing from the output").tensor(name)),
            }
        }
        compared += 1;
    }
    Ok(compared)
}

/// A set of files is opened by its index, if it has one.
fn entry_name(layout: &Layout) -> Option<&str> {
    let files = layout.files();
    let index = files.iter().find(|file| file.role == Role::Index || file.content == Content::Late);
    index.or(files.first()).map(|file| file.path.as_str())
}
