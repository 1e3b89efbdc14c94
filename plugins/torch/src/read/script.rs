//! Reads TorchScript archives. A TorchScript archive contains a module that `torch.jit.save` wrote.
//!
//! ```text
//! <root>/data.pkl, data/              the module: an object whose attributes are tensors and modules
//! <root>/constants.pkl, constants/    a tuple of the code's constants
//! <root>/code/                        the program
//! <root>/extra/                       files that the user added
//! <root>/traced_inputs.pkl            the inputs with which a module was traced
//! ```
//! The name of a tensor is its attribute path in the module, as in `state_dict()`. The program
//! declares parameters and buffers in lines at the start of each class:
//!
//! ```text
//! class Linear(Module):
//!   __parameters__ = ["weight", "bias", ]
//!   __buffers__ = []
//! ```
//! A tensor that is a plain attribute is not part of the state dict and is reported as a loss.
//!
//! Source: `torch/csrc/jit/serialization/export_module.cpp`.

use super::{CatalogReader, STATE_DICT};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tensorferry_sdk::{Loss, LossKind, Node, NodeId, Result, UniqueNames};
use tensorferry_torch_file::archive::{Archive, Method};
use tensorferry_torch_file::{ObjectFile, flatten};

const CONSTANTS: &str = "constants";

/// Maximum length in bytes of an extra file that becomes metadata.
const MAX_EXTRA_FILE_BYTES: u64 = 1 << 20;

pub(super) fn is_script(archive: &Archive) -> bool {
    archive.contains("constants.pkl")
}

/// Reads the tensors of the module and the constants of its code. Returns the root of the tree,
/// which is the module's state dict.
pub(super) fn read(reading: &mut CatalogReader<'_, '_>, archive: &Arc<Archive>) -> Result<NodeId> {
    let mut entries = Vec::new();
    // Tensors at different paths may have the same name (`d["1"]` and `d[1]`, or an attribute
    // called `constants`), but a mapping can contain each key only once.
    let mut keys = UniqueNames::default();
    let module = open(reading, archive, "data.pkl", "data/")?.declaring(declared(reading, archive)?);
    for (name, tensor) in flatten(&module, module.root(), "", &mut reading.to)?.tensors {
        entries.push((reading.to.catalog.node(Node::text(&keys.take(&name)))?, tensor));
    }
    let constants = open(reading, archive, "constants.pkl", "constants/")?;
    let constants = flatten(&constants, constants.root(), CONSTANTS, &mut reading.to)?;
    if !constants.tensors.is_empty() {
        entries.push((reading.to.catalog.node(Node::text(&keys.take(CONSTANTS)))?, constants.node));
    }
    let why = "the program and the values in its modules other than tensors are not converted";
    reading.to.catalog.loss(Loss::new(LossKind::Graph, "code", why))?;
    if archive.contains("traced_inputs.pkl") {
        let why = "the inputs that the module was traced with are not converted";
        reading.to.catalog.loss(Loss::new(LossKind::State, "traced_inputs", why))?;
    }
    read_extra_files(reading, archive)?;
    reading.to.catalog.node(Node::map(STATE_DICT, &entries))
}

fn open(
    reading: &mut CatalogReader<'_, '_>,
    archive: &Arc<Archive>,
    pickle: &str,
    folder: &'static str,
) -> Result<ObjectFile> {
    let object =
        ObjectFile::of_archive(reading.source, archive, pickle, folder, reading.to.context.limits())?;
    reading.list_globals(&object);
    Ok(object)
}

/// Returns the names of the parameters and buffers that the program declares, by class.
fn declared(reading: &CatalogReader<'_, '_>, archive: &Archive) -> Result<HashMap<String, HashSet<String>>> {
    let mut classes = HashMap::new();
    for (index, entry) in archive.entries().iter().enumerate() {
        let path = entry.name.strip_prefix("code/").and_then(|path| path.strip_suffix(".py"));
        let Some(path) = path else { continue };
        let (member, limits) = (archive.member(index)?, reading.to.context.limits());
        let code = member.front(reading.source, member.len, limits)?;
        let module = path.replace('/', ".");
        let mut class: Option<HashSet<String>> = None;
        let mut name = String::new();
        for line in String::from_utf8_lossy(&code).lines() {
            if let Some(declared) = line.strip_prefix("class ") {
                classes.extend(class.take().map(|class| (std::mem::take(&mut name), class)));
                if let Some((declared, _)) = declared.split_once("(Module)") {
                    (name, class) = (format!("{module}.{declared}"), Some(HashSet::new()));
                }
            } else if let Some(class) = &mut class
                && let Some(list) = ["__parameters__", "__buffers__"]
                    .iter()
                    .find_map(|list| line.trim_start().strip_prefix(list)?.trim_start().strip_prefix('='))
            {
                // Each name is in double quotes and does not contain a double quote.
                class.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
        classes.extend(class.map(|class| (name, class)));
    }
    Ok(classes)
}

/// Reads the files that were passed to `torch.jit.save` as `_extra_files`. Each short text file
/// becomes metadata under its name in the archive. All other extra files are reported as losses.
fn read_extra_files(reading: &mut CatalogReader<'_, '_>, archive: &Archive) -> Result<()> {
    for entry in archive.entries().iter().filter(|entry| entry.name.starts_with("extra/")) {
        let record = if entry.method == Method::Stored { archive.record(&entry.name)? } else { None };
        let text = match record {
            Some(record) if record.extent.len <= MAX_EXTRA_FILE_BYTES => {
                String::from_utf8(archive.bytes(reading.source, record, reading.to.context.limits())?).ok()
            }
            _ => None,
        };
        match text {
            Some(text) => drop(reading.metadata.insert(entry.name.to_string(), text)),
            None => {
                let why = "only short text files are kept";
                reading.to.catalog.loss(Loss::new(LossKind::Metadata, &*entry.name, why))?;
            }
        }
    }
    Ok(())
}
