//! The writer, which selects the tensors and metadata that GGUF can store, and writes one file that
//! ggml can read.
//!
//! ggml accepts only its own layout: contiguous data in the order of the tensor entries, names of
//! at most 63 bytes, at most four dimensions, and rows of whole blocks.

use crate::file_type::{self, TypeCounts};
use crate::header::valid_alignment;
use crate::like::Like;
use crate::metadata::{self, Encoded};
use crate::model::{self, Model};
use crate::options::WriteOptions;
use crate::quantize::{Encode, Method, Rules, f32_only};
use crate::set::SPLIT_KEYS;
use crate::stream::{Content, StreamPlan, StreamedTensor};
use crate::types::GgmlType;
use crate::{
    ALIGNMENT_KEY, ARCHITECTURE_KEY, DEFAULT_ALIGNMENT, FILE_TYPE_KEY, FRAMEWORK_KEY, MAGIC, MAX_DIMS,
    QUANTIZATION_VERSION_KEY, SUFFIX,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tensorferry_sdk::{
    CatalogView, Context, Dtype, LayoutSink, Loss, LossKind, NothingToSeal, Result, Role, Severity, Target,
    TensorId, TensorPart, TensorPlan, TensorView, TensorWriter, Value, listed,
};

const VERSION: u32 = 3;
/// Maximum length of a tensor name in bytes, which is `GGML_MAX_NAME` without the final NUL.
const MAX_NAME: usize = 63;
/// Maximum length of a key in bytes, from the GGUF specification.
const MAX_KEY: usize = 65_535;
/// Key of the pre-tokenizer, which splits text before a byte-level tokenizer encodes it. The user
/// can set this key for a tokenizer that ferry does not support.
const SPLIT_KEY: &str = "tokenizer.ggml.pre";
/// Key and value of the version of the block layout.
const BLOCKS_VERSION: (&str, u32) = (QUANTIZATION_VERSION_KEY, 2);

pub(crate) struct Writer {
    pub(crate) options: WriteOptions,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let options = &self.options;
        let like = options.like.as_deref().map(|path| Like::open(path, context)).transpose()?;
        let model = match options.keeps_names {
            true => None,
            false => {
                if like.is_none() {
                    model::check_is_known(catalog, context)?;
                }
                let pre = options.set.get(SPLIT_KEY).and_then(Value::as_text);
                model::model_of_folder(catalog, pre, like.is_none(), layout, context)?
            }
        };
        let mut rules = options.quantize.clone();
        if let Some(like) = like.as_ref().filter(|_| rules.rest.is_none()) {
            like.add_rules(&mut rules);
        }
        let mut tensors = representable(catalog, &rules, layout)?;
        note_unused_rules(&tensors, &rules, context)?;
        tensors.extend(model.as_ref().and_then(OutputTensor::frequencies));
        note_narrow(&tensors, context);
        if let Some(like) = &like {
            if !options.set.contains_key(ARCHITECTURE_KEY) {
                like.check_architecture(architecture(catalog, model.as_ref()).as_deref())?;
            }
            like.check_names(tensors.iter().map(|tensor| tensor.name))?;
            tensors.sort_by_key(|tensor| like.place(tensor.name));
            like.report_differences(
                tensors.iter().map(|tensor| (tensor.name, tensor.ggml_type.name())),
                layout,
            )?;
        }
        let made = MetadataSources { like, model };
        let mut metadata = Metadata::of(catalog, made, options, &tensors, layout)?;
        if tensors.iter().any(|tensor| matches!(tensor.ggml_type, GgmlType::Blocks(_))) {
            let (key, version) = BLOCKS_VERSION;
            metadata.entries.entry(key.to_owned()).or_insert_with(|| Encoded::u32(version));
        }
        if !metadata.entries.contains_key(ARCHITECTURE_KEY) {
            let hint = if tensors.iter().any(|tensor| model::is_named_by_llama_cpp(tensor.name)) {
                format!("; add it with -o set={ARCHITECTURE_KEY}=string:NAME")
            } else {
                String::new()
            };
            context.note(&format!("llama.cpp does not load a file without {ARCHITECTURE_KEY}{hint}"));
        }
        let path = match target {
            Target::File(name) => name.clone(),
            Target::Folder => format!("model{SUFFIX}"),
        };
        let header = header(&tensors, &metadata);
        let padding = |bytes: u64| bytes.next_multiple_of(metadata.alignment) - bytes;
        let header_padding = if tensors.is_empty() { 0 } else { padding(header.len() as u64) };
        if tensors.iter().any(|tensor| tensor.encode.is_some()) {
            let ids: Vec<TensorId> = tensors.iter().filter_map(OutputTensor::id).collect();
            layout.streamed_file(&path, Role::Data, &ids)?;
            let streamed = |tensor: &OutputTensor<'_>| StreamedTensor {
                content: tensor.content.clone(),
                padding: padding(tensor.bytes),
                encode: tensor.encode,
            };
            let tensors = tensors.iter().map(streamed).collect();
            return Ok(Box::new(StreamPlan { header, header_padding, tensors, threads: context.threads() }));
        }
        let file = layout.file(&path, Role::Data)?;
        layout.bytes(file, &header)?;
        layout.pad(file, header_padding)?;
        for tensor in &tensors {
            match &tensor.content {
                Content::Tensor(id) => layout.tensor(file, TensorPart::whole(*id))?,
                Content::Bytes(bytes) => layout.bytes(file, bytes)?,
            };
            layout.pad(file, padding(tensor.bytes))?;
        }
        Ok(Box::new(NothingToSeal))
    }

    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        if self.options.keeps_names { Ok(Vec::new()) } else { model::steps(catalog, context) }
    }
}

/// Returns the architecture according to the input's metadata or model folder.
fn architecture(catalog: &dyn CatalogView, model: Option<&Model>) -> Option<String> {
    let own = catalog.metadata().into_iter().find(|(key, _)| key == ARCHITECTURE_KEY);
    let own = own.and_then(|(_, value)| value.as_text().map(str::to_owned));
    own.or_else(|| model.map(|model| model.architecture.to_owned()))
}

/// Prints notes about quantization rules that have no effect.
fn note_unused_rules(tensors: &[OutputTensor<'_>], rules: &Rules, context: &dyn Context) -> Result<()> {
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
    for rule in rules.unmatched(&names) {
        context.note(&format!("-o quantize={rule}: no tensor matches"));
    }
    let kept = tensors.iter().filter(|tensor| rules.overrules(tensor.name, &tensor.shape));
    let kept = listed(kept.map(|tensor| format!("{:?}", tensor.name)), 1);
    if !kept.is_empty() {
        context.note(&format!(
            "-o quantize keeps F32 where llama.cpp needs it (norms, biases, routers, convolutions): {kept}"
        ));
    }
    let mut packed: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in tensors.iter().filter(|tensor| matches!(tensor.ggml_type, GgmlType::Blocks(_))) {
        if rules.requested_type(tensor.name)?.is_some_and(|requested| requested != tensor.ggml_type) {
            *packed.entry(tensor.ggml_type.name()).or_default() += 1;
        }
    }
    if !packed.is_empty() {
        let (count, types): (u64, Vec<&str>) = (packed.values().sum(), packed.into_keys().collect());
        context.note(&format!(
            "-o quantize leaves {count} tensors of {} unchanged: they are already quantized (see --step dequantize)",
            types.join(", ")
        ));
    }
    Ok(())
}

/// Prints notes about tensors of a language model that are not F32, although llama.cpp loads them
/// only as F32.
fn note_narrow(tensors: &[OutputTensor<'_>], context: &dyn Context) {
    if !tensors.iter().any(|tensor| model::is_embeddings(tensor.name)) {
        return;
    }
    let is_narrow = |tensor: &&OutputTensor<'_>| {
        f32_only(tensor.name, &tensor.shape).is_some()
            && matches!(tensor.ggml_type, GgmlType::Plain(Dtype::F16 | Dtype::BF16 | Dtype::F64))
    };
    let (vectors, matrices): (Vec<_>, Vec<_>) =
        tensors.iter().filter(is_narrow).partition(|tensor| tensor.shape.len() <= 1);
    if !vectors.is_empty() {
        context.note(&format!(
            "{} one-dimensional tensors are not F32, as llama.cpp requires for norms and biases; cast them with \
             --step cast:f32,rank=1",
            vectors.len()
        ));
    }
    if let Some(first) = matrices.first() {
        context.note(&format!(
            "{} matrices are not F32, but llama.cpp loads them only as F32; cast them with --step cast:f32,where={}",
            matrices.len(),
            first.name
        ));
    }
}

/// Sources of metadata in addition to the catalog and the options.
struct MetadataSources {
    like: Option<Like>,
    model: Option<Model>,
}

/// A tensor of the output.
struct OutputTensor<'a> {
    content: Content,
    name: &'a str,
    shape: Cow<'a, [u64]>,
    ggml_type: GgmlType,
    bytes: u64,
    /// Source dtype and encoder, or `None` if the bytes are copied unchanged.
    encode: Option<(Dtype, Encode)>,
}

/// Returns the tensors that GGUF can store. Omits all other tensors and reports the reasons.
fn representable<'a>(
    catalog: &'a dyn CatalogView,
    rules: &Rules,
    layout: &mut dyn LayoutSink,
) -> Result<Vec<OutputTensor<'a>>> {
    let mut tensors = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        match output_tensor(catalog, id, tensor)? {
            Ok(mut written) => {
                if tensor.shape.is_empty() {
                    let why = "GGUF readers require a dimension, so the shape [] becomes [1]";
                    let loss = Loss::new(LossKind::Attribute, tensor.name, why);
                    layout.loss(loss.severity(Severity::Changed))?;
                }
                written.quantise(rules, tensor.dtype, layout)?;
                tensors.push(written);
            }
            Err(why) => layout.omit(id, &why)?,
        }
    }
    Ok(tensors)
}

impl OutputTensor<'_> {
    /// Returns the tensor of rotary frequency factors. The writer creates it from the model's
    /// folder.
    fn frequencies(model: &Model) -> Option<Self> {
        let bytes = model.frequencies.as_ref()?;
        let (name, shape) = model::frequencies(bytes);
        Some(Self {
            content: Content::Bytes(bytes.clone()),
            name,
            shape: shape.to_vec().into(),
            ggml_type: GgmlType::Plain(Dtype::F32),
            bytes: bytes.len() as u64,
            encode: None,
        })
    }

    fn id(&self) -> Option<TensorId> {
        if let Content::Tensor(id) = self.content { Some(id) } else { None }
    }

    /// Quantizes the tensor according to the rules, and reports this as a loss that the user
    /// requested.
    fn quantise(&mut self, rules: &Rules, dtype: Dtype, layout: &mut dyn LayoutSink) -> Result<()> {
        let Some(quantised) = rules.of(self.name, dtype, &self.shape)? else { return Ok(()) };
        if quantised.ggml_type == self.ggml_type {
            return Ok(());
        }
        self.bytes = quantised.ggml_type.bytes_of(&self.shape).map_err(|error| error.tensor(self.name))?;
        self.ggml_type = quantised.ggml_type;
        self.encode = Some((dtype, quantised.encode));
        let why = quantised
            .instead
            .map_or_else(|| format!("quantized to {}", self.ggml_type.name()), str::to_owned);
        layout.loss(Loss::new(LossKind::Precision, self.name, why).requested_by_user())
    }
}

/// Returns the tensor as GGUF stores it, or the reason why GGUF cannot store it.
fn output_tensor<'a>(
    catalog: &'a dyn CatalogView,
    id: TensorId,
    tensor: TensorView<'a>,
) -> Result<std::result::Result<OutputTensor<'a>, String>> {
    let TensorView { name, shape, dtype, .. } = tensor;
    let info = catalog.dtype_info(dtype)?;
    let Some(ggml_type) = GgmlType::of_dtype(dtype, &info) else {
        return Ok(Err(format!("ggml has no type {}{}", info.name(), remedy(dtype))));
    };
    if name.len() > MAX_NAME || name.contains('\0') {
        return Ok(Err(format!(
            "ggml allows names of at most {MAX_NAME} bytes without a NUL: rename the tensor"
        )));
    }
    if shape.len() > MAX_DIMS as usize {
        return Ok(Err(format!("ggml allows at most {MAX_DIMS} dimensions: reshape the tensor")));
    }
    Ok(match ggml_type.bytes_of(shape) {
        Ok(bytes) => {
            let shape = if shape.is_empty() { &[1] } else { shape };
            let (content, shape) = (Content::Tensor(id), shape.into());
            Ok(OutputTensor { content, name, shape, ggml_type, bytes, encode: None })
        }
        Err(error) => Err(error.to_string()),
    })
}

/// Returns a hint for casting a tensor whose dtype ggml does not support.
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

struct Metadata {
    entries: BTreeMap<String, Encoded>,
    alignment: u64,
}

impl Metadata {
    /// Collects the metadata that GGUF can store, including the entries that the user set.
    fn of(
        catalog: &dyn CatalogView,
        made: MetadataSources,
        options: &WriteOptions,
        tensors: &[OutputTensor<'_>],
        layout: &mut dyn LayoutSink,
    ) -> Result<Self> {
        let mut metadata = Self { entries: BTreeMap::new(), alignment: DEFAULT_ALIGNMENT.into() };
        let is_of_model = made.model.is_some();
        let made: BTreeMap<String, Value> = made
            .model
            .into_iter()
            .flat_map(|model| model.metadata)
            .chain(made.like.into_iter().flat_map(|like| like.metadata))
            .collect();
        for (key, value) in catalog.metadata() {
            if is_of_model && key == FRAMEWORK_KEY {
                // The framework key has no meaning in a GGUF file.
                continue;
            }
            if made.contains_key(&key) && made[&key] != value && !options.set.contains_key(&key) {
                let why = "replaced by the value in the -o like= file";
                layout.loss(Loss::new(LossKind::Metadata, &key, why).requested_by_user())?;
            } else if !options.set.contains_key(&key) {
                let loss = metadata.insert(&key, &value);
                loss.into_iter().try_for_each(|(severity, why)| {
                    layout.loss(Loss::new(LossKind::Metadata, &key, why).severity(severity))
                })?;
            }
        }
        for (key, value) in &made {
            let loss = metadata.insert(key, value);
            loss.into_iter().try_for_each(|(severity, why)| {
                layout.loss(Loss::new(LossKind::Metadata, key, why).severity(severity))
            })?;
        }
        if !options.set.contains_key(FILE_TYPE_KEY) {
            let own = catalog.metadata().into_iter().find(|(key, _)| key == FILE_TYPE_KEY);
            let declared = made.get(FILE_TYPE_KEY).cloned().or(own.map(|(_, value)| value));
            let requested = options.quantize.rest.map(Method::ggml_type).transpose()?;
            metadata.set_file_type(tensors, declared.as_ref(), requested, is_of_model, layout)?;
        }
        for (key, value) in &options.set {
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    /// Sets the file type. The input's file type is kept if it still matches the tensors.
    fn set_file_type(
        &mut self,
        tensors: &[OutputTensor<'_>],
        declared: Option<&Value>,
        requested: Option<GgmlType>,
        is_new: bool,
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        let declared = match declared {
            Some(value) => match value.root().as_int().and_then(|number| u32::try_from(number).ok()) {
                Some(number) => Some(number),
                None if requested.is_none() => return Ok(()),
                None => None,
            },
            None if is_new || requested.is_some() => None,
            None => return Ok(()),
        };
        let elements = tensors.iter().map(|tensor| {
            (tensor.ggml_type, tensor.shape.len(), tensor.shape.iter().copied().fold(1, u64::saturating_mul))
        });
        let elements = TypeCounts::of(elements);
        let is = elements.file_type(requested, declared);
        if is == declared {
            return Ok(());
        }
        match is {
            Some(number) => drop(self.entries.insert(FILE_TYPE_KEY.to_owned(), Encoded::u32(number))),
            None => drop(self.entries.remove(FILE_TYPE_KEY)),
        }
        let (Some(declared), None) = (declared, requested) else { return Ok(()) };
        let max = elements.most_common().map_or("others", GgmlType::name);
        let why = format!("was {}, but most values are now {max}", file_type::name(declared));
        layout.loss(Loss::new(LossKind::Metadata, FILE_TYPE_KEY, why).severity(Severity::Note))
    }

    /// Adds an entry. If the entry is lost or changed, returns the severity and the reason.
    fn insert(&mut self, key: &str, value: &Value) -> Option<(Severity, &'static str)> {
        let lost = |why| Some((Severity::Lost, why));
        if key.is_empty() || key.len() > MAX_KEY {
            return lost("GGUF keys have 1 to 65,535 bytes");
        }
        if SPLIT_KEYS.contains(&key) {
            return lost("describes a split model, but the output is one file");
        }
        if key == ALIGNMENT_KEY {
            let Some(alignment) = valid_alignment(value) else {
                return lost("not a valid alignment: an unsigned 32-bit power of two, at most 65,536");
            };
            self.alignment = alignment.into();
        }
        let Some(encoded) = metadata::encode(value) else {
            return lost("GGUF has only numbers, strings, booleans, and arrays of one type");
        };
        let note = if encoded.nests {
            Some((Severity::Note, "array of arrays, which ggml itself cannot read"))
        } else if encoded.is_exactly(value) {
            None
        } else {
            Some((Severity::Note, "had no GGUF type; written as the widest type that fits"))
        };
        self.entries.insert(key.to_owned(), encoded);
        note
    }
}

/// Encodes the bytes before the data, without the padding.
fn header(tensors: &[OutputTensor<'_>], metadata: &Metadata) -> Vec<u8> {
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
        let rank = u32::try_from(tensor.shape.len()).unwrap_or(MAX_DIMS);
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
