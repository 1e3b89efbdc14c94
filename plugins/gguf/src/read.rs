//! The reader, which builds a catalog from the headers of a model's files. The data of each file is
//! one storage. Dequantized or byte-swapped blocks are separate storages.

use crate::big_endian::{self, BigEndianBlocks};
use crate::dequantize::{self, BlockExtent, DequantizedBlocks, Float};
use crate::header::Entry;
use crate::set::{Member, Set};
use crate::types::GgmlType;
use crate::{FILE_TYPE_KEY, ORIGINAL_SHAPE, QUANTIZATION_VERSION_KEY, names};
use std::collections::BTreeMap;
use tensorferry_sdk::{
    ByteOrder, ByteSink, CatalogSink, Context, Dtype, EncodedStorage, Error, Loss, LossKind, NodeKind,
    Purpose, Result, Source, Storage, StorageId, TensorDecoder, TensorReader, Value, element_count,
};

/// A reader for single files and for splits.
pub(crate) struct Reader {
    /// Whether to read only the input file if it is part of a split.
    pub(crate) member_is_alone: bool,
    /// Whether tensors get their transformers names.
    pub(crate) names_are_of_hf: bool,
    /// The dtype to which quantized blocks are dequantized, or `None` to keep the blocks.
    pub(crate) dequantize: Option<Float>,
}

/// A storage whose bytes differ from those in the file.
enum Decoded {
    ByteSwapped(BigEndianBlocks),
    Dequantized(DequantizedBlocks),
}

impl EncodedStorage for Decoded {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        match self {
            Self::ByteSwapped(blocks) => blocks.decode(source, output, context),
            Self::Dequantized(blocks) => blocks.decode(source, output, context),
        }
    }
}

/// State for reading the files of a set in order.
struct SetReader<'a> {
    catalog: &'a mut dyn CatalogSink,
    dequantize: Option<Float>,
    /// Decoders of the encoded storages. A storage's handle is its index.
    decoded: Vec<Decoded>,
    /// Number of dequantized tensors of each block type.
    dequantized: BTreeMap<&'static str, u64>,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        if self.names_are_of_hf && context.purpose() == Purpose::SHOW {
            return Err(Error::usage("option names=hf works only with ferry convert and ferry diff")
                .hint("omit -i names=hf"));
        }
        let mut set = Set::open(source, self.member_is_alone, context)?;
        let (mut metadata, differing) = set.metadata();
        for (key, file) in differing {
            let why = format!("{file:?} has a different value; the value from an earlier file is kept");
            catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
        }
        // Do not restore flattened tensors if the file is only shown, or is copied to GGUF.
        let dequantize = self.dequantize;
        let mut restore = |tensor: &Entry| match context.purpose() {
            Purpose::SHOW | Purpose::COPY => Ok(None),
            _ => original_shape(tensor, dequantize.is_some(), &mut metadata),
        };
        let mut reading =
            SetReader { catalog, dequantize, decoded: Vec::new(), dequantized: BTreeMap::new() };
        for member in &set.files {
            context.check_cancelled()?;
            reading.describe(member, source, &mut restore).map_err(|error| error.file(&*member.name))?;
        }
        let SetReader { catalog, decoded, dequantized, .. } = reading;
        if let Some(to) = dequantize.filter(|_| !dequantized.is_empty()) {
            update_type_metadata(&mut metadata, to)?;
            catalog.loss(dequantized_loss(&dequantized, to))?;
        }
        if self.names_are_of_hf {
            names::convert_names_to_hf(&set, &mut metadata, source, catalog, dequantize.is_some())?;
        }
        metadata.iter().try_for_each(|(key, value)| catalog.metadata(key, value.clone()))?;
        Ok(Box::new(decoded))
    }
}

impl SetReader<'_> {
    fn describe(
        &mut self,
        member: &Member,
        source: &dyn Source,
        restore: &mut dyn FnMut(&Entry) -> Result<Option<Vec<u64>>>,
    ) -> Result<()> {
        let header = &member.header;
        let len = source.len(member.file) - header.data_offset;
        let data = Storage::file(member.file, header.data_offset, len).byte_order(header.byte_order);
        let data = self.catalog.storage(data)?;
        for tensor in &header.tensors {
            let restored = restore(tensor).map_err(|error| error.tensor(&*tensor.name))?;
            let (dtype, storage, offset) =
                self.place(member, tensor, data).map_err(|error| error.tensor(&*tensor.name))?;
            let shape = restored.as_ref().unwrap_or(&tensor.shape);
            self.catalog.tensor(&tensor.name, dtype, shape, storage, offset)?;
        }
        Ok(())
    }

    /// Returns a tensor's dtype, its storage, and its offset in the storage.
    fn place(&mut self, member: &Member, tensor: &Entry, data: StorageId) -> Result<(Dtype, StorageId, u64)> {
        let header = &member.header;
        let GgmlType::Blocks(blocks) = tensor.ggml_type else {
            return Ok((tensor.ggml_type.declare(self.catalog)?, data, tensor.offset));
        };
        let dtype = match self.dequantize {
            Some(to) => to.dtype(),
            None => tensor.ggml_type.declare(self.catalog)?,
        };
        if self.dequantize.is_some() {
            *self.dequantized.entry(blocks.name).or_default() += 1;
        }
        if tensor.bytes == 0 {
            return Ok((dtype, data, 0));
        }
        let scales = match header.byte_order {
            ByteOrder::Little => &[][..],
            ByteOrder::Big => big_endian::scales(blocks.name).ok_or_else(|| {
                Error::unsupported("big-endian blocks of this type are not supported")
                    .expected("Q4_0, Q8_0, Q4_K, Q6_K, MXFP4 or NVFP4, or a little-endian file")
                    .found(blocks.name)
            })?,
        };
        let (file, offset, bytes) = (member.file, header.data_offset + tensor.offset, tensor.bytes);
        let handle = |decoded: &Vec<Decoded>| decoded.len() as u64;
        let storage = match (self.dequantize, header.byte_order) {
            (Some(to), _) => {
                let decoded = &mut self.decoded;
                let mut add = |blocks| {
                    decoded.push(Decoded::Dequantized(blocks));
                    handle(decoded) - 1
                };
                let at = BlockExtent { file, offset, bytes, blocks, scales };
                dequantize::declare(&at, to, self.catalog, &mut add)?
            }
            (None, ByteOrder::Big) => {
                let storage = self.catalog.storage(Storage::encoded(handle(&self.decoded), bytes))?;
                let block = blocks.bytes;
                self.decoded.push(Decoded::ByteSwapped(BigEndianBlocks {
                    file,
                    offset,
                    bytes,
                    block,
                    scales,
                }));
                storage
            }
            (None, ByteOrder::Little) => return Ok((dtype, data, tensor.offset)),
        };
        Ok((dtype, storage, 0))
    }
}

/// Updates the metadata about tensor types after dequantization.
fn update_type_metadata(metadata: &mut BTreeMap<String, Value>, to: Float) -> Result<()> {
    metadata.remove(QUANTIZATION_VERSION_KEY);
    if let Some(file_type) = metadata.get_mut(FILE_TYPE_KEY) {
        *file_type = Value::number(Dtype::U32, &to.file_type().to_le_bytes())?;
    }
    Ok(())
}

fn dequantized_loss(dequantized: &BTreeMap<&'static str, u64>, to: Float) -> Loss {
    let total: u64 = dequantized.values().sum();
    let types: Vec<&str> = dequantized.keys().copied().collect();
    let to = to.dtype().info().map_or("floats", |info| info.name());
    let why =
        format!("dequantized to {to}: the values that ggml computes with, without the quantized blocks");
    Loss::new(LossKind::Precision, format!("{total} tensors of {}", types.join(", ")), why)
        .requested_by_user()
}

/// Returns the original shape of a tensor that ComfyUI-GGUF flattened, and removes the metadata
/// entry that contains this shape. If the restored rows would not be whole blocks and the tensor is
/// not dequantized, the tensor remains flat, and the entry is kept.
fn original_shape(
    tensor: &Entry,
    is_dequantized: bool,
    metadata: &mut BTreeMap<String, Value>,
) -> Result<Option<Vec<u64>>> {
    let key = format!("{ORIGINAL_SHAPE}{}", tensor.name);
    let Some(value) = metadata.get(&key) else { return Ok(None) };
    let refuse = || {
        Error::malformed(format!("{key} is not a valid shape of its tensor"))
            .expected(format!("I32 numbers whose product equals that of {:?}", tensor.shape))
            .found(format!("{value:?}"))
    };
    let node = value.root();
    if node.kind != NodeKind::NUMBERS || Dtype::named(&node.class) != Some(Dtype::I32) {
        return Err(refuse());
    }
    let dims = node.bytes.chunks_exact(4).map(|dim| {
        let dim = i32::from_le_bytes([dim[0], dim[1], dim[2], dim[3]]);
        u64::try_from(dim).map_err(|_| refuse())
    });
    let shape = dims.collect::<Result<Vec<u64>>>()?;
    if element_count(&shape).ok() != element_count(&tensor.shape).ok() {
        return Err(refuse());
    }
    let restored = (is_dequantized || tensor.ggml_type.bytes_of(&shape).is_ok()).then_some(shape);
    if restored.is_some() {
        metadata.remove(&key);
    }
    Ok(restored)
}
