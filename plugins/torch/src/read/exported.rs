//! An exported archive (`.pt2`) contains programs that `torch.export.save` wrote.
//!
//! ```text
//! <root>/archive_format                                 pt2
//! <root>/models/<model>.json                            the program
//! <root>/data/weights/<model>_weights_config.json       {"config": {name: entry}}
//! <root>/data/weights/weight_0, ...                     the bytes of a storage, or a torch.save file
//! <root>/data/constants/<model>_constants_config.json   the same for tensors that are neither parameters nor buffers
//! <root>/data/constants/tensor_0, custom_obj_0, ...
//! <root>/data/sample_inputs/<model>.pt                  the sample inputs with which the program was exported
//! ```
//! An entry is `{"path_name", "is_param", "use_pickle", "tensor_meta": {"dtype", "sizes",
//! "strides", "storage_offset", "requires_grad", "layout"}}`. Tensors whose entries have the same
//! `path_name` are views of one storage. Instead of a config, an archive can contain a `torch.save`
//! file named `<model>.pt`.
//!
//! Sources: `torch/export/pt2_archive/_package.py`, `torch/_export/serde/schema.py`.

use super::{CatalogReader, STATE_DICT};
use serde_json::Value;
use std::collections::{HashMap, hash_map};
use std::sync::Arc;
use tensorferry_sdk::{Error, Loss, LossKind, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::archive::{Archive, Record};
use tensorferry_torch_file::{DescribedStorage, DescribedTensor, ObjectFile, TorchDtype, flatten};

/// The schema's number for `torch.strided`.
const STRIDED: u64 = 7;

/// The dtypes in the schema (`ScalarType`), with their numbers.
const DTYPES: [(u64, &str); 21] = [
    (1, "uint8"),
    (2, "int8"),
    (3, "int16"),
    (4, "int32"),
    (5, "int64"),
    (6, "float16"),
    (7, "float32"),
    (8, "float64"),
    (9, "complex32"),
    (10, "complex64"),
    (11, "complex128"),
    (12, "bool"),
    (13, "bfloat16"),
    (28, "uint16"),
    (29, "float8_e4m3fn"),
    (30, "float8_e5m2"),
    (31, "float8_e4m3fnuz"),
    (32, "float8_e5m2fnuz"),
    (33, "float8_e8m0fnu"),
    (34, "uint32"),
    (35, "uint64"),
];

/// Maximum number of values that are flattened again because several names refer to the same
/// pickled record. A pickled record normally contains one tensor.
const MAX_REREAD_VALUES: usize = 1 << 20;

/// The location of a model's weights or constants, and the naming scheme of their records.
#[derive(Debug, Clone, Copy)]
struct Payload {
    /// Folder of the records, with a slash at the end.
    folder: &'static str,
    /// Suffix that follows the model's name in the name of the config.
    config: &'static str,
    /// Prefix of the names of records that contain tensors.
    tensors: &'static str,
}

const WEIGHTS: Payload =
    Payload { folder: "data/weights/", config: "_weights_config.json", tensors: "weight_" };
const CONSTANTS: Payload =
    Payload { folder: "data/constants/", config: "_constants_config.json", tensors: "tensor_" };

pub(super) fn is_exported(archive: &Archive) -> bool {
    archive.contains("archive_format")
}

/// Reads the tensors of all programs and returns the root of the catalog's tree. If there is one
/// program, the tree is the program's state dict. If there are several programs, the tree maps each
/// program's name to its state dict.
pub(super) fn read(reading: &mut CatalogReader<'_, '_>, archive: &Arc<Archive>) -> Result<NodeId> {
    let programs = archive.entries().iter();
    let models: Vec<String> = programs
        .filter_map(|entry| Some(entry.name.strip_prefix("models/")?.strip_suffix(".json")?.to_owned()))
        .collect();
    let mut parts = Vec::with_capacity(2 * models.len());
    for model in &models {
        let under = if models.len() > 1 { model.as_str() } else { "" };
        parts.push(reading.to.catalog.node(Node::text(model))?);
        parts.push(read_model(reading, archive, model, under)?);
        let why = "the program and its sample inputs are not converted";
        reading.to.catalog.loss(Loss::new(LossKind::Graph, format!("models/{model}.json"), why))?;
    }
    match &*parts {
        [] => Err(Error::unsupported("the torch.export archive has no program")
            .file(archive.file_name())
            .expected("models/<name>.json")),
        &[_, only] => Ok(only),
        _ => reading.to.catalog.node(Node::container(NodeKind::MAP, "", parts)),
    }
}

fn read_model(
    reading: &mut CatalogReader<'_, '_>,
    archive: &Arc<Archive>,
    model: &str,
    under: &str,
) -> Result<NodeId> {
    let mut entries = Vec::new();
    for payload in [WEIGHTS, CONSTANTS] {
        let whole = format!("{}{model}.pt", payload.folder);
        if let Some(record) = archive.record(&whole)? {
            let object = reading.open(record.extent)?;
            let flat = flatten(&object, object.root(), under, &mut reading.to)?;
            entries.extend(flat.entries.into_iter().flatten());
            continue;
        }
        if let Some(record) = archive.record(&[payload.folder, model, payload.config].concat())? {
            let config =
                Config::parse(&archive.bytes(reading.source, record, reading.to.context.limits())?)
                    .map_err(|error| archive.at(error, record.extent.offset))?;
            entries.extend(read_config(reading, archive, payload, &config, under)?);
        }
    }
    reading.to.catalog.node(Node::container(NodeKind::MAP, STATE_DICT, entries))
}

/// An entry of a config: the name of a tensor, the record that contains the tensor, and the kind of
/// that record.
struct ConfigEntry {
    name: String,
    record: String,
    kind: EntryKind,
}

enum EntryKind {
    /// The record is a `torch.save` file.
    Saved,
    Tensor(TensorMeta),
    /// A tensor that cannot be converted, and the reason.
    Lost(LossKind, String),
}

struct TensorMeta {
    dtype: &'static TorchDtype,
    size: Vec<u64>,
    stride: Vec<u64>,
    offset: u64,
    requires_grad: bool,
}

struct Config(Vec<ConfigEntry>);

impl Config {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let wrong =
            |what: &str| Error::malformed(format!("invalid config in a torch.export archive: {what}"));
        let json: Value = serde_json::from_slice(bytes).map_err(|error| wrong("not JSON").found(error))?;
        let config = json.get("config").and_then(Value::as_object).ok_or_else(|| wrong("no \"config\""))?;
        let entry = |(name, entry): (&String, &Value)| {
            let malformed = || wrong("an entry with missing or invalid fields").tensor(name);
            let record = entry.get("path_name").and_then(Value::as_str).ok_or_else(malformed)?;
            let pickled = entry.get("use_pickle").and_then(Value::as_bool).ok_or_else(malformed)?;
            let kind = match (pickled, entry.get("tensor_meta")) {
                (true, _) => EntryKind::Saved,
                (false, Some(meta)) => TensorMeta::parse(meta).ok_or_else(malformed)?,
                (false, None) => return Err(malformed()),
            };
            Ok(ConfigEntry { name: name.clone(), record: record.to_owned(), kind })
        };
        config.iter().map(entry).collect::<Result<_>>().map(Self)
    }
}

impl TensorMeta {
    /// Parses the field `tensor_meta` of a config entry. Returns `None` if a required value is
    /// missing or has the wrong type.
    fn parse(meta: &Value) -> Option<EntryKind> {
        let lost = |why: String| Some(EntryKind::Lost(LossKind::Tensor, why));
        let number = |value: &Value| value.get("as_int")?.as_u64();
        let numbers = |key: &str| meta.get(key)?.as_array()?.iter().map(number).collect::<Option<Vec<u64>>>();
        let layout = meta.get("layout")?.as_u64()?;
        if layout != STRIDED {
            return lost(format!("its layout (number {layout} in torch's schema) is not strided"));
        }
        let dtype = meta.get("dtype")?.as_u64()?;
        let row = DTYPES.iter().find(|(number, _)| *number == dtype);
        let Some(dtype) = row.and_then(|(_, name)| TorchDtype::named(name)) else {
            return lost(format!("its dtype (number {dtype} in torch's schema) is unknown"));
        };
        Some(EntryKind::Tensor(Self {
            dtype,
            size: numbers("sizes")?,
            stride: numbers("strides")?,
            offset: number(meta.get("storage_offset")?)?,
            requires_grad: meta.get("requires_grad")?.as_bool()?,
        }))
    }
}

/// Reads the tensors that a config lists. Returns alternating nodes of their keys and values.
fn read_config(
    reading: &mut CatalogReader<'_, '_>,
    archive: &Arc<Archive>,
    payload: Payload,
    config: &Config,
    under: &str,
) -> Result<Vec<NodeId>> {
    let mut described = Vec::new();
    for ConfigEntry { name, record, kind } in &config.0 {
        if let EntryKind::Tensor(meta) = kind {
            let found = archive
                .required_record(&[payload.folder, record].concat())
                .map_err(|error| error.tensor(name))?;
            let storage = storage(archive, record, found, meta.dtype).map_err(|error| error.tensor(name))?;
            let TensorMeta { size, stride, requires_grad, .. } = meta;
            let tensor =
                DescribedTensor { storage, offset: meta.offset, size, stride, requires_grad: *requires_grad };
            described.push((name.as_str(), tensor));
        }
    }
    let object = ObjectFile::described(reading.source, archive, payload.folder, &described)?;
    let flat = flatten(&object, object.root(), under, &mut reading.to)?;
    let mut nodes = flat.entries.unwrap_or_default();
    // Several names may refer to one record, and opening a record parses its pickle. Therefore,
    // each record is opened only once.
    let mut opened: HashMap<&str, ObjectFile> = HashMap::new();
    let mut repeated = 0;
    for ConfigEntry { name, record, kind } in &config.0 {
        let place = if under.is_empty() { name.clone() } else { format!("{under}.{name}") };
        match kind {
            EntryKind::Tensor(_) => {}
            EntryKind::Lost(kind, why) => reading.to.catalog.loss(Loss::new(*kind, place, why))?,
            EntryKind::Saved if record.starts_with(payload.tensors) => {
                let found = archive.required_record(&[payload.folder, record].concat())?;
                let object = match opened.entry(record) {
                    hash_map::Entry::Occupied(known) => {
                        repeated += known.get().graph().len();
                        if repeated > MAX_REREAD_VALUES {
                            return Err(Error::limit("too many names share pickled records")
                                .tensor(&place)
                                .expected(format!("at most {MAX_REREAD_VALUES} values in total")));
                        }
                        known.into_mut()
                    }
                    hash_map::Entry::Vacant(place_of) => {
                        let object = reading.open(found.extent).map_err(|error| error.tensor(&place))?;
                        place_of.insert(object)
                    }
                };
                let flat = flatten(object, object.root(), &place, &mut reading.to)?;
                nodes.extend([reading.to.catalog.node(Node::text(name))?, flat.node]);
            }
            EntryKind::Saved => {
                let why = "objects of custom classes are not converted";
                reading.to.catalog.loss(Loss::new(LossKind::State, place, why))?;
            }
        }
    }
    Ok(nodes)
}

/// Returns the description of the storage in a record. The number of elements is computed from the
/// record's length.
fn storage<'a>(
    archive: &Archive,
    key: &'a str,
    record: Record,
    dtype: &'static TorchDtype,
) -> Result<DescribedStorage<'a>> {
    let width = u64::from(dtype.element_bytes);
    if !record.extent.len.is_multiple_of(width) {
        let error = Error::malformed("the length of a record is not a whole number of elements");
        return Err(archive
            .at(error, record.extent.offset)
            .expected(format!("a multiple of {width} bytes"))
            .found(record.extent.len));
    }
    Ok(DescribedStorage { dtype, key, location: "cpu", len: record.extent.len / width, view: None })
}
