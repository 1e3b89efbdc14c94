//! The data file of those tensors of strings that are too long to be held in memory. How long they become in their own
//! form is known when they are encoded, each by itself.

use super::strings::{self, Written};
use tensorferry_sdk::{
    ByteSink, CatalogView, Digests, Encoded, EncodedId, Error, LayoutSink, Result, Role, TensorId,
    element_count,
};

/// The file; without a tensor, there is none.
#[derive(Default)]
pub(super) struct StringsFile {
    /// Its number among the shards.
    shard: usize,
    tensors: Vec<TensorId>,
}

impl StringsFile {
    /// Plans the file, of at least one tensor. It has all encoded segments of the layout, so that a segment's number
    /// is its tensor's place.
    pub(super) fn plan(
        path: &str,
        shard: usize,
        tensors: Vec<TensorId>,
        layout: &mut dyn LayoutSink,
    ) -> Result<Self> {
        let file = layout.file(path, Role::Data)?;
        for &tensor in &tensors {
            layout.encoded(file, Encoded::tensors([tensor]))?;
        }
        Ok(Self { shard, tensors })
    }

    /// Encodes a tensor; the note is its checksum.
    pub(super) fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
    ) -> Result<Vec<u8>> {
        let tensor = self.tensors.get(id.0 as usize).copied();
        let tensor = tensor.ok_or_else(|| Error::plugin(format!("no tensor of strings {}", id.0)))?;
        let view = catalog.tensor(tensor);
        let read = |offset: u64, buffer: &mut [u8]| catalog.read(tensor, offset, buffer);
        let written = strings::write(element_count(view.shape)?, view.bytes, &read, output);
        let Written { crc, .. } = written.map_err(|error| error.tensor(view.name))?;
        Ok(crc.to_le_bytes().to_vec())
    }

    /// Where the tensor of this number came to lie: shard, offset, length and checksum.
    pub(super) fn place(&self, number: usize, digests: &dyn Digests) -> Result<(usize, u64, u64, u32)> {
        let id = u32::try_from(number).map_err(|_| Error::plugin("tensors beyond 32 bits"))?;
        let place = digests.encoded(EncodedId(id))?;
        let crc = place.note.try_into().map_err(|_| Error::plugin("strings without a checksum"))?;
        Ok((self.shard, place.offset, place.len, u32::from_le_bytes(crc)))
    }
}
