//! The reader: the headers of a model's files become a catalog. Each file's data is one storage.

use crate::ORIGINAL_SHAPE;
use crate::big_endian::{self, BigEndianBlocks};
use crate::header::Entry;
use crate::set::{Member, Set};
use crate::types::GgmlType;
use std::collections::BTreeMap;
use tensorferry_sdk::{
    ByteOrder, CatalogSink, Context, Dtype, Error, Loss, LossKind, NodeKind, Purpose, Result, Source,
    Storage, TensorDecoder, TensorReader, Value, element_count,
};

/// Reads files and splits.
pub(crate) struct Reader {
    /// Whether a member of a split that is named is read without the others.
    pub(crate) member_is_alone: bool,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let mut set = Set::open(source, self.member_is_alone, context)?;
        let (mut metadata, differing) = set.metadata();
        for (key, file) in differing {
            let why = format!("{file:?} says otherwise than a member before it, whose value is kept");
            catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
        }
        // Shown, or in a file of its own format, a tensor stays as flat as it is.
        let mut restore = |tensor: &Entry| match context.purpose() {
            Purpose::SHOW | Purpose::COPY => Ok(None),
            _ => original_shape(tensor, &mut metadata),
        };
        let mut turned = Vec::new();
        for member in &set.files {
            context.check_cancelled()?;
            describe(member, source, &mut restore, catalog, &mut turned)
                .map_err(|error| error.file(&*member.name))?;
        }
        metadata.iter().try_for_each(|(key, value)| catalog.metadata(key, value.clone()))?;
        Ok(Box::new(turned))
    }
}

fn describe(
    member: &Member,
    source: &dyn Source,
    restore: &mut dyn FnMut(&Entry) -> Result<Option<Vec<u64>>>,
    catalog: &mut dyn CatalogSink,
    turned: &mut Vec<BigEndianBlocks>,
) -> Result<()> {
    let header = &member.header;
    let len = source.len(member.file) - header.data_offset;
    let data = Storage::file(member.file, header.data_offset, len).byte_order(header.byte_order);
    let data = catalog.storage(data)?;
    for tensor in &header.tensors {
        let restored = restore(tensor).map_err(|error| error.tensor(&*tensor.name))?;
        let dtype = tensor.ggml_type.declare(catalog)?;
        let (storage, offset) = match tensor.ggml_type {
            _ if tensor.bytes == 0 => (data, 0),
            GgmlType::Blocks(blocks) if header.byte_order == ByteOrder::Big => {
                let scales = big_endian::scales(blocks.name).ok_or_else(|| {
                    Error::unsupported("big-endian blocks of this type are not read")
                        .tensor(&*tensor.name)
                        .expected("Q4_0, Q8_0, Q4_K, Q6_K, MXFP4 or NVFP4, or a little-endian file")
                        .found(blocks.name)
                })?;
                let storage = catalog.storage(Storage::encoded(turned.len() as u64, tensor.bytes))?;
                let (file, offset) = (member.file, header.data_offset + tensor.offset);
                turned.push(BigEndianBlocks {
                    file,
                    offset,
                    bytes: tensor.bytes,
                    block: blocks.bytes,
                    scales,
                });
                (storage, 0)
            }
            _ => (data, tensor.offset),
        };
        catalog.tensor(&tensor.name, dtype, restored.as_ref().unwrap_or(&tensor.shape), storage, offset)?;
    }
    Ok(())
}

/// The shape that ComfyUI-GGUF noted of a tensor that it made flat, which is then done with. One whose rows would
/// be no whole blocks stays flat, and so does the note.
fn original_shape(tensor: &Entry, metadata: &mut BTreeMap<String, Value>) -> Result<Option<Vec<u64>>> {
    let key = format!("{ORIGINAL_SHAPE}{}", tensor.name);
    let Some(value) = metadata.get(&key) else { return Ok(None) };
    let refuse = || {
        Error::malformed(format!("{key} is no shape of its tensor"))
            .expected(format!("I32 numbers, whose product is that of {:?}", tensor.shape))
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
    let restored = tensor.ggml_type.bytes_of(&shape).is_ok().then_some(shape);
    if restored.is_some() {
        metadata.remove(&key);
    }
    Ok(restored)
}
