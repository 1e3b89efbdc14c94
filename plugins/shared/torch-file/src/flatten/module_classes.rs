//! Defines module classes whose state dicts contain more than parameters and buffers. Each row of
//! [`CLASSES`] lists the entries that the method `_save_to_state_dict` of some classes adds.
//!
//! Sources: `torch/ao/nn` in PyTorch 2.15; `bitsandbytes/nn/modules.py` and `functional.py` in
//! bitsandbytes 0.50.

use super::NamedEntry;
use crate::pickle::{Global, Graph, Value, ValueId};
use crate::rebuild;
use std::collections::HashSet;
use tensorferry_sdk::Dtype;

/// The entries that a module's class adds to the state dict.
#[derive(Default)]
pub(super) struct StateDictEntries {
    /// The names of the entries, relative to the module, with their values. The entries are in the
    /// order of the state dict.
    pub(super) entries: Vec<(String, NamedEntry)>,
    /// Attributes of the module whose values the entries contain.
    attributes: Vec<&'static str>,
    /// Parameters of the module whose attributes the entries contain.
    parameters: HashSet<ValueId>,
}

impl StateDictEntries {
    /// Returns whether the entries contain the value of this attribute of the module.
    pub(super) fn contains(&self, attribute: &str) -> bool {
        self.attributes.contains(&attribute)
    }

    /// Returns whether the entries contain the attributes of this parameter.
    pub(super) fn takes_state_of(&self, parameter: ValueId) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// Module classes that add the same entries to their state dicts.
struct ModuleClass {
    /// Prefixes of the Python modules that contain the classes, in all releases.
    packages: &'static [&'static str],
    /// Last part of the Python module's name. If it is empty, any name matches.
    file: &'static str,
    names: &'static [&'static str],
    adds: &'static [EntrySource],
}

/// The source of an entry that a class adds to its state dict.
#[derive(Clone, Copy)]
enum EntrySource {
    /// The unchanged value of one of the module's attributes.
    Value(&'static str),
    /// An attribute that is a number. The entry is a tensor with this number as its only element.
    Number(&'static str),
    /// An attribute that contains a weight and a bias in packed form. The entry is the tuple of the
    /// two.
    Unpacked(&'static str),
    /// An attribute that contains a weight in packed form. The entry is the weight.
    UnpackedWeight(&'static str),
    /// An item of the tuple that is the module's state.
    Item(usize, &'static str),
    /// A number in the tuple that is the module's state. The entry is a tensor with this number as
    /// its only element.
    NumberItem(usize, &'static str),
    /// The `quant_state` of a weight that is a 4-bit parameter.
    QuantState,
    /// The scales of a weight that is an 8-bit parameter.
    Scb,
}

const QUANTIZED: &[&str] = &[
    "torch.ao.nn.quantized.",
    "torch.nn.quantized.",
    "torch.ao.nn.intrinsic.quantized.",
    "torch.nn.intrinsic.quantized.",
];
const BITSANDBYTES: &[&str] = &["bitsandbytes.nn."];
const OUTPUT: &[EntrySource] = &[EntrySource::Number("scale"), EntrySource::Number("zero_point")];
const CONV: &[EntrySource] = &[
    EntrySource::Item(10, "weight"),
    EntrySource::Item(11, "bias"),
    EntrySource::NumberItem(12, "scale"),
    EntrySource::NumberItem(13, "zero_point"),
];

static CLASSES: [ModuleClass; 11] = [
    ModuleClass {
        packages: QUANTIZED,
        file: "linear",
        names: &["LinearPackedParams"],
        adds: &[EntrySource::Value("dtype"), EntrySource::Unpacked("_packed_params")],
    },
    ModuleClass { packages: QUANTIZED, file: "linear", names: &["Linear"], adds: OUTPUT },
    ModuleClass {
        packages: QUANTIZED,
        file: "linear_relu",
        names: &["LinearReLU", "LinearLeakyReLU", "LinearTanh"],
        adds: OUTPUT,
    },
    ModuleClass {
        packages: QUANTIZED,
        file: "conv",
        names: &["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"],
        adds: CONV,
    },
    ModuleClass {
        packages: QUANTIZED,
        file: "conv_relu",
        names: &["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"],
        adds: CONV,
    },
    ModuleClass { packages: QUANTIZED, file: "conv_add", names: &["ConvAdd2d", "ConvAddReLU2d"], adds: CONV },
    ModuleClass {
        packages: QUANTIZED,
        file: "embedding_ops",
        names: &["EmbeddingPackedParams"],
        adds: &[EntrySource::Value("dtype"), EntrySource::UnpackedWeight("_packed_weight")],
    },
    ModuleClass { packages: QUANTIZED, file: "functional_modules", names: &["QFunctional"], adds: OUTPUT },
    ModuleClass {
        packages: QUANTIZED,
        file: "rnn",
        names: &["PackedParameter"],
        adds: &[EntrySource::Value("param")],
    },
    ModuleClass {
        packages: QUANTIZED,
        file: "rnn",
        names: &["RNNCell", "LSTMCell", "GRUCell"],
        adds: &[EntrySource::Value("_packed_weight_ih"), EntrySource::Value("_packed_weight_hh")],
    },
    ModuleClass {
        packages: BITSANDBYTES,
        file: "",
        names: &["Linear4bit", "LinearFP4", "LinearNF4"],
        adds: &[EntrySource::QuantState],
    },
];

static EIGHT_BITS: ModuleClass =
    ModuleClass { packages: BITSANDBYTES, file: "", names: &["Linear8bitLt"], adds: &[EntrySource::Scb] };

/// Returns the entries that a module's class adds, given the module's state. Returns `None` if the
/// class is not listed, or if the state has an unexpected form.
pub(super) fn added(graph: &Graph, class: &Global, state: ValueId) -> Option<StateDictEntries> {
    let file = class.module.rsplit('.').next().unwrap_or_default();
    let row = CLASSES.iter().chain([&EIGHT_BITS]).find(|row| {
        row.packages.iter().any(|package| class.module.starts_with(package))
            && (row.file.is_empty() || row.file == file)
            && row.names.contains(&&*class.name)
    })?;
    let mut added = StateDictEntries::default();
    for &add in row.adds {
        add_entries(graph, state, add, &mut added)?;
    }
    Some(added)
}

fn add_entries(graph: &Graph, state: ValueId, add: EntrySource, added: &mut StateDictEntries) -> Option<()> {
    let attribute = |name: &str| graph.entry(state, name);
    let item = |index: usize| graph.tuple(state).and_then(|items| items.get(index).copied());
    let (name, entry) = match add {
        EntrySource::Value(name) => (name, NamedEntry::Value(attribute(name)?)),
        EntrySource::Number(name) => (name, number(graph, attribute(name)?)?),
        EntrySource::Unpacked(name) => {
            let packed = packed(graph, attribute(name)?)?;
            graph.tuple(packed).filter(|pair| pair.len() == 2)?;
            (name, NamedEntry::Value(packed))
        }
        EntrySource::UnpackedWeight(name) => {
            // The packed value is a tuple `(version, tensors, doubles, integers)`.
            let packed = graph.tuple(packed(graph, attribute(name)?)?)?;
            let &[weight] = graph.sequence(*packed.get(1)?)? else { return None };
            (name, NamedEntry::Value(weight))
        }
        EntrySource::Item(index, name) => {
            added.entries.push((name.to_owned(), NamedEntry::Value(item(index)?)));
            return Some(());
        }
        EntrySource::NumberItem(index, name) => {
            added.entries.push((name.to_owned(), number(graph, item(index)?)?));
            return Some(());
        }
        EntrySource::QuantState => return quant_state(graph, state, added),
        EntrySource::Scb => return scb(graph, state, added),
    };
    added.entries.push((name.to_owned(), entry));
    added.attributes.push(name);
    Some(())
}

/// Converts a number to a tensor in the same way as `torch.tensor`. A value that is already a
/// tensor remains unchanged.
fn number(graph: &Graph, value: ValueId) -> Option<NamedEntry> {
    #[expect(clippy::cast_possible_truncation, reason = "torch converts floats to F32")]
    Some(match *graph.value(value) {
        Value::Float(number) => NamedEntry::computed(Dtype::F32, &[], &(number as f32).to_le_bytes()),
        Value::Int(number) => NamedEntry::computed(Dtype::I64, &[], &number.to_le_bytes()),
        Value::Call(_) => NamedEntry::Value(value),
        _ => return None,
    })
}

/// Returns the content of a torch `ScriptObject`, whose state is `(content, name of its class)`.
fn packed(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let (class, call) = graph.called(value)?;
    let &[packed, _] = graph.tuple(call.state?)? else { return None };
    class.is("torch", "ScriptObject").then_some(packed)
}

/// Returns the weight of a module, and the attributes of the weight. The attributes are the last
/// argument of the call that rebuilds the parameter.
fn weight(graph: &Graph, state: ValueId) -> Option<(ValueId, ValueId)> {
    let weight = graph.entry(graph.entry(state, "_parameters")?, "weight")?;
    let (function, call) = graph.called(weight)?;
    let &[_, _, _, attributes] = graph.tuple(call.arguments)? else { return None };
    let attributes = graph.tuple(attributes).and_then(|pair| pair.first().copied()).unwrap_or(attributes);
    rebuild::is_parameter(function).then_some((weight, attributes))
}

/// Adds the entries of `QuantState.as_dict(packed=True)`.
fn quant_state(graph: &Graph, state: ValueId, added: &mut StateDictEntries) -> Option<()> {
    let (weight, attributes) = weight(graph, state)?;
    let of = graph.call(graph.entry(attributes, "quant_state")?)?.state?;
    let tensor = |of, name| graph.entry(of, name).filter(|&value| *graph.value(value) != Value::None);
    // A weight with this setting is packed for a specific processor, so its entries are unknown.
    if graph.entry(of, "packing_format_for_cpu").is_some_and(|flag| graph.bool(flag) != Some(false)) {
        return None;
    }
    let dtype = |of| Some(graph.global(graph.entry(of, "dtype")?)?.name.to_string());
    let count = |of, name| graph.count(graph.entry(of, name)?);
    let kind = graph.text(graph.entry(of, "quant_type")?)?;
    let shape = rebuild::counts(graph, graph.entry(of, "shape")?)?;
    let mut entries = vec![("absmax", tensor(of, "absmax")?), ("quant_map", tensor(of, "code")?)];
    let mut json = format!(
        "{{\"quant_type\": {}, \"blocksize\": {}, \"dtype\": {}, \"shape\": {shape:?}",
        quoted(kind)?,
        count(of, "blocksize")?,
        quoted(&dtype(of)?)?
    );
    let mut offset = None;
    if let Some(nested) = tensor(of, "state2") {
        let nested = graph.call(nested)?.state?;
        entries.extend([
            ("nested_absmax", tensor(nested, "absmax")?),
            ("nested_quant_map", tensor(nested, "code")?),
        ]);
        json.push_str(&format!(
            ", \"nested_blocksize\": {}, \"nested_dtype\": {}, \"nested_offset\": ",
            count(nested, "blocksize")?,
            quoted(&dtype(nested)?)?
        ));
        offset = Some(tensor(of, "offset")?);
    }
    for (name, value) in entries {
        added.entries.push((format!("weight.{name}"), NamedEntry::Value(value)));
    }
    let entry = match offset {
        Some(offset) => NamedEntry::JsonOfNumber { before: json, number: offset },
        None => {
            let json = json + "}";
            NamedEntry::computed(Dtype::U8, &[json.len() as u64], json.as_bytes())
        }
    };
    added.entries.push((format!("weight.quant_state.bitsandbytes__{kind}"), entry));
    added.attributes.push("quant_state");
    added.parameters.insert(weight);
    Some(())
}

/// Adds the scales in the same way as `Linear8bitLt._save_to_state_dict`. The scales are an
/// attribute of the weight or of the module.
fn scb(graph: &Graph, state: ValueId, added: &mut StateDictEntries) -> Option<()> {
    let (weight, attributes) = weight(graph, state)?;
    let matmul = graph.call(graph.entry(state, "state")?)?.state?;
    let scales = [attributes, matmul].into_iter().filter_map(|of| graph.entry(of, "SCB"));
    let scales = scales.into_iter().find(|&scales| *graph.value(scales) != Value::None);
    if graph.bool(graph.entry(matmul, "has_fp16_weights")?)? {
        return None;
    }
    added.entries.push(("SCB".to_owned(), NamedEntry::Value(scales?)));
    added.entries.push(("weight_format".to_owned(), NamedEntry::computed(Dtype::U8, &[], &[0])));
    added.attributes.push("state");
    added.parameters.insert(weight);
    Some(())
}

/// Formats a short word as a JSON string. Returns `None` if the word contains anything except
/// letters, digits and underscores.
fn quoted(word: &str) -> Option<String> {
    let plain = word.len() <= 64 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then(|| format!("\"{word}\""))
}
