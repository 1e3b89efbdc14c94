//! A TorchScript archive holds a module as `torch.jit.save` writes it.
//!
//! ```text
//! <root>/data.pkl, data/              the module: an object whose attributes are tensors and modules
//! <root>/constants.pkl, constants/    a tuple of what the code has as constants
//! <root>/code/                        the program
//! <root>/extra/                       files that the user put beside it
//! <root>/traced_inputs.pkl            the inputs that a module was traced with
//! ```
//! A tensor is named by its attributes, as `state_dict()` names it. What is a parameter or a buffer,
//! and what a plain attribute, stands in the program alone, so all of them are tensors here.
//!
//! Source of the facts: `torch/csrc/jit/serialization/export_module.cpp`.

use super::{Reading, STATE_DICT};
use std::sync::Arc;
use tensorferry_sdk::{Loss, LossKind, Node, NodeId, Result};
use tensorferry_torch_file::archive::{Archive, Method};
use tensorferry_torch_file::{Names, ObjectFile, flatten};

const CONSTANTS: &str = "constants";

/// Files of users that are short texts become metadata.
const MOST_EXTRA_BYTES: u64 = 1 << 20;

/// Whether an archive is one of TorchScript's.
pub(super) fn is_script(archive: &Archive) -> bool {
    archive.contains("constants.pkl")
}

/// Reads the tensors of the module and its constants. The tree is the module's state dict.
pub(super) fn read(reading: &mut Reading<'_, '_>, archive: &Arc<Archive>) -> Result<NodeId> {
    let mut entries = Vec::new();
    // Places may look alike (`d["1"]` and `d[1]`, or an attribute `constants`), and a mapping has a key once.
    let mut keys = Names::default();
    let module = open(reading, archive, "data.pkl", "data/")?;
    for (name, tensor) in flatten(&module, module.root(), "", &mut reading.to)?.tensors {
        entries.push((reading.to.catalog.node(Node::text(&keys.take(&name)))?, tensor));
    }
    let constants = open(reading, archive, "constants.pkl", "constants/")?;
    let constants = flatten(&constants, constants.root(), CONSTANTS, &mut reading.to)?;
    if !constants.tensors.is_empty() {
        entries.push((reading.to.catalog.node(Node::text(&keys.take(CONSTANTS)))?, constants.node));
    }
    let why = "the program is not carried, nor what its modules hold that is not a tensor";
    reading.to.catalog.loss(Loss::new(LossKind::Graph, "code", why))?;
    if archive.contains("traced_inputs.pkl") {
        let why = "the inputs that the module was traced with are not carried";
        reading.to.catalog.loss(Loss::new(LossKind::State, "traced_inputs", why))?;
    }
    read_extra_files(reading, archive)?;
    reading.to.catalog.node(Node::map(STATE_DICT, &entries))
}

fn open(
    reading: &mut Reading<'_, '_>,
    archive: &Arc<Archive>,
    pickle: &str,
    folder: &'static str,
) -> Result<ObjectFile> {
    let object =
        ObjectFile::of_archive(reading.source, archive, pickle, folder, reading.to.context.limits())?;
    reading.list_globals(&object);
    Ok(object)
}

/// `torch.jit.save(..., _extra_files)`: texts are metadata, under their names in the archive.
fn read_extra_files(reading: &mut Reading<'_, '_>, archive: &Archive) -> Result<()> {
    for entry in archive.entries().iter().filter(|entry| entry.name.starts_with("extra/")) {
        let record = if entry.method == Method::Stored { archive.record(&entry.name)? } else { None };
        let text = match record {
            Some(record) if record.extent.len <= MOST_EXTRA_BYTES => {
                String::from_utf8(archive.bytes(reading.source, record, reading.to.context.limits())?).ok()
            }
            _ => None,
        };
        match text {
            Some(text) => drop(reading.metadata.insert(entry.name.to_string(), text)),
            None => {
                let why = "a file that is no short text is not carried";
                reading.to.catalog.loss(Loss::new(LossKind::Metadata, &*entry.name, why))?;
            }
        }
    }
    Ok(())
}
