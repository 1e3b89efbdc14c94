//! The writer: what GGUF can hold of a catalog, in one file that ggml itself reads.
//!
//! ggml takes what its own writer makes alone: data without gaps in the order of the list, names of at most 63
//! bytes, four dimensions, rows of whole blocks.

use crate::header::valid_alignment;
use crate::metadata::{self, Encoded};
use crate::options::WriteOptions;
use crate::quantize::{Encode, Rules};
use crate::set::SPLIT_KEYS;
use crate::stream::{Stream, Streamed};
use crate::types::GgmlType;
use crate::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MOST_DIMS, SUFFIX};
use std::collections::BTreeMap;
use tensorferry_sdk::{
    CatalogView, Context, Dtype, LayoutSink, Loss, LossKind, NothingToSeal, Options, Result, Role, Severity,
    Target, TensorId, TensorPart, TensorPlan, TensorView, TensorWriter, Value,
};

const VERSION: u32 = 3;
/// `GGML_MAX_NAME` without its NUL.
const MOST_NAME: usize = 63;
/// The longest key of the format's description.
const MOST_KEY: usize = 65_535;
/// The key for which type most of a model is of.
const FILE_TYPE_KEY: &str = "general.file_type";
const ARCHITECTURE_KEY: &str = "general.architecture";
/// The key for the version of the blocks' layout, and that version.
const BLOCKS_VERSION: (&str, u32) = ("general.quantization_version", 2);

/// Plans a file.
pub(crate) struct Writer {
    options: WriteOptions,
}

impl Writer {
    /// A writer with these options.
    ///
    /// # Errors
    /// Usage, for an option that cannot be.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { options: WriteOptions::new(options)? })
    }
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let tensors = representable(catalog, &self.options.quantize, layout)?;
        let mut metadata = Metadata::of(catalog, &self.options, layout)?;
        if tensors.iter().any(|tensor| matches!(tensor.ggml_type, GgmlType::Blocks(_))) {
            let (key, version) = BLOCKS_VERSION;
            metadata.entries.entry(key.to_owned()).or_insert_with(|| Encoded::u32(version));
        }
        if !metadata.entries.contains_key(ARCHITECTURE_KEY) {
            context.note(&format!(
                "without {ARCHITECTURE_KEY} llama.cpp loads no model: -o set={ARCHITECTURE_KEY}=string:NAME"
            ));
        }
        let path = match target {
            Target::File(name) => name.clone(),
            Target::Folder => format!("model{SUFFIX}"),
        };
        let header = header(&tensors, &metadata);
        let padding = |bytes: u64| bytes.next_multiple_of(metadata.alignment) - bytes;
        let header_padding = if tensors.is_empty() { 0 } else { padding(header.len() as u64) };
        if tensors.iter().any(|tensor| tensor.encode.is_some()) {
            let ids: Vec<TensorId> = tensors.iter().map(|tensor| tensor.id).collect();
            layout.streamed_file(&path, Role::Data, &ids)?;
            let streamed = |tensor: &Written<'_>| Streamed {
                id: tensor.id,
                padding: padding(tensor.bytes),
                encode: tensor.encode,
            };
            let tensors = tensors.iter().map(streamed).collect();
            return Ok(Box::new(Stream { header, header_padding, tensors, threads: context.threads() }));
        }
        let file = layout.file(&path, Role::Data)?;
        layout.bytes(file, &header)?;
        layout.pad(file, header_padding)?;
        for tensor in &tensors {
            layout.tensor(file, TensorPart::whole(tensor.id))?;
            layout.pad(file, padding(tensor.bytes))?;
        }
        Ok(Box::new(NothingToSeal))
    }
}

/// A tensor that is to be written.
struct Written<'a> {
    id: TensorId,
    name: &'a str,
    shape: &'a [u64],
    ggml_type: GgmlType,
    bytes: u64,
    /// From the numbers of this dtype to its bytes; `None`, if they are those that it has.
    encode: Option<(Dtype, Encode)>,
}

/// The tensors that GGUF can hold; the others are omitted, each with the reason.
fn representable<'a>(
    catalog: &'a dyn CatalogView,
    rules: &Rules,
    layout: &mut dyn LayoutSink,
) -> Result<Vec<Written<'a>>> {
    let mut tensors = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        match as_written(catalog, id, tensor)? {
            Ok(mut written) => {
                written.quantise(rules, tensor.dtype, layout)?;
                tensors.push(written);
            }
            Err(why) => layout.omit(id, &why)?,
        }
    }
    Ok(tensors)
}

impl Written<'_> {
    /// Gives it the type that the rules say, which is a loss that was asked for.
    fn quantise(&mut self, rules: &Rules, dtype: Dtype, layout: &mut dyn LayoutSink) -> Result<()> {
        let Some(quantised) = rules.of(self.name, dtype, self.shape)? else { return Ok(()) };
        if quantised.ggml_type == self.ggml_type {
            return Ok(());
        }
        self.bytes = quantised.ggml_type.bytes_of(self.shape).map_err(|error| error.tensor(self.name))?;
        self.ggml_type = quantised.ggml_type;
        self.encode = Some((dtype, quantised.encode));
        let why = quantised
            .instead
            .map_or_else(|| format!("quantised to {}", self.ggml_type.name()), str::to_owned);
        layout.loss(Loss::new(LossKind::Precision, self.name, why).asked_for())
    }
}

/// A tensor as it is to be written, or why it cannot be.
fn as_written<'a>(
    catalog: &'a dyn CatalogView,
    id: TensorId,
    tensor: TensorView<'a>,
) -> Result<std::result::Result<Written<'a>, String>> {
    let TensorView { name, shape, dtype, .. } = tensor;
    let info = catalog.dtype_info(dtype)?;
    let Some(ggml_type) = GgmlType::of_dtype(dtype, &info) else {
        return Ok(Err(format!("ggml has no type {}{}", info.name(), remedy(dtype))));
    };
    if name.len() > MOST_NAME || name.contains('\0') {
        return Ok(Err(format!(
            "ggml takes names of at most {MOST_NAME} bytes without a NUL: rename the tensor"
        )));
    }
    if shape.len() > MOST_DIMS as usize {
        return Ok(Err(format!("ggml takes at most {MOST_DIMS} dimensions: reshape the tensor")));
    }
    Ok(match ggml_type.bytes_of(shape) {
        Ok(bytes) => Ok(Written { id, name, shape, ggml_type, bytes, encode: None }),
        Err(error) => Err(error.to_string()),
    })
}

/// What would carry a dtype that ggml does not have.
fn remedy(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::BOOL | Dtype::U8 => ": cast it to I16",
        Dtype::U16 => ": cast it to I32",
        Dtype::U32 => ": cast it to I64",
        Dtype::F8_E4M3
        | Dtype::F8_E5M2
        | Dtype::F8_E4M3FNUZ
        | Dtype::F8_E5M2FNUZ
        | Dtype::F8_E4M3B11FNUZ
        | Dtype::F8_E8M0
        | Dtype::F4
        | Dtype::F4_UNPACKED => ": cast it to BF16",
        _ => "",
    }
}

/// The metadata as it is to be written.
struct Metadata {
    entries: BTreeMap<String, Encoded>,
    alignment: u64,
}

impl Metadata {
    /// What GGUF can hold of a catalog's metadata, and what the user set.
    fn of(catalog: &dyn CatalogView, options: &WriteOptions, layout: &mut dyn LayoutSink) -> Result<Self> {
        let mut metadata = Self { entries: BTreeMap::new(), alignment: DEFAULT_ALIGNMENT.into() };
        for (key, value) in catalog.metadata() {
            if options.set.as_ref().is_none_or(|(set, _)| *set != key) {
                let loss = metadata.insert(&key, &value);
                loss.into_iter().try_for_each(|(severity, why)| {
                    layout.loss(Loss::new(LossKind::Metadata, &key, why).severity(severity))
                })?;
            }
        }
        metadata.name_mix(&options.quantize, layout)?;
        if let Some((key, value)) = &options.set {
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    /// Says what the model is made of, where the user has said so; what the input was made of is no longer so.
    fn name_mix(&mut self, rules: &Rules, layout: &mut dyn LayoutSink) -> Result<()> {
        match rules.rest {
            Some(method) => {
                self.entries.insert(FILE_TYPE_KEY.to_owned(), Encoded::u32(method.file_type));
            }
            None if !rules.is_empty() && self.entries.remove(FILE_TYPE_KEY).is_some() => {
                let why = "it named the types of the input, and tensors have others now";
                layout.loss(Loss::new(LossKind::Metadata, FILE_TYPE_KEY, why).severity(Severity::Note))?;
            }
            None => {}
        }
        Ok(())
    }

    /// Adds an entry; gives why it is not there, or not as it was.
    fn insert(&mut self, key: &str, value: &Value) -> Option<(Severity, &'static str)> {
        let lost = |why| Some((Severity::Lost, why));
        if key.is_empty() || key.len() > MOST_KEY {
            return lost("GGUF takes keys of 1 to 65,535 bytes");
        }
        if SPLIT_KEYS.contains(&key) {
            return lost("it says how a model is split, which the output is not");
        }
        if key == ALIGNMENT_KEY {
            let Some(alignment) = valid_alignment(value) else {
                return lost("it is no alignment that GGUF can have: 32 bits, unsigned, a power of two");
            };
            self.alignment = alignment.into();
        }
        let Some(encoded) = metadata::encode(value) else {
            return lost("GGUF has numbers, texts, booleans, and arrays of one type");
        };
        let note = if encoded.nests {
            Some((Severity::Note, "an array of arrays, which ggml itself does not read"))
        } else if encoded.is_exactly(value) {
            None
        } else {
            Some((Severity::Note, "it had no type of GGUF, and has the widest that fits"))
        };
        self.entries.insert(key.to_owned(), encoded);
        note
    }
}

/// The bytes before the data, without the padding.
fn header(tensors: &[Written<'_>], metadata: &Metadata) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.entries.len() as u64).to_le_bytes());
    for (key, value) in &metadata.entries {
        write_text(&mut bytes, key);
        value.write(&mut bytes);
    }
    let mut offset = 0_u64;
    for tensor in tensors {
        write_text(&mut bytes, tensor.name);
        let rank = u32::try_from(tensor.shape.len()).unwrap_or(MOST_DIMS);
        bytes.extend(rank.to_le_bytes());
        tensor.shape.iter().rev().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes.extend(tensor.ggml_type.code().to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        offset = offset.saturating_add(tensor.bytes.next_multiple_of(metadata.alignment));
    }
    bytes
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
