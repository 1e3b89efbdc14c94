//! Plans the data file for string tensors that are too long to keep in memory. The encoded length
//! of each tensor is known only after the tensor has been encoded.

use super::strings::{self, OutputText};
use tensorferry_sdk::{
    ByteSink, CatalogView, Digests, Encoded, EncodedId, Error, LayoutSink, Result, Role, TensorId,
    element_count,
};

/// The strings file. It is not written if it contains no tensors.
#[derive(Default)]
pub(super) struct StringsFile {
    /// The number of this file among the shards.
    shard: usize,
    tensors: Vec<TensorId>,
}

impl StringsFile {
    /// Plans the file for one or more tensors. No other file contains encoded segments, so the
    /// number of a segment is the index of its tensor.
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

    /// Encodes a tensor, and returns its checksum as the note of its segment.
    pub(super) fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
    ) -> Result<Vec<u8>> {
        let tensor = self.tensors.get(id.0 as usize).copied();
        let tensor = tensor.ok_or_else(|| Error::plugin(format!("unknown string tensor {}", id.0)))?;
        let view = catalog.tensor(tensor);
        let read = |offset: u64, buffer: &mut [u8]| catalog.read(tensor, offset, buffer);
        let written = strings::write(element_count(view.shape)?, view.bytes, &read, output);
        let OutputText { crc, .. } = written.map_err(|error| error.tensor(view.name))?;
        Ok(crc.to_le_bytes().to_vec())
    }

    /// Returns the shard, offset, length and checksum of the tensor with this number.
    pub(super) fn place(&self, number: usize, digests: &dyn Digests) -> Result<(usize, u64, u64, u32)> {
        let id = u32::try_from(number).map_err(|_| Error::plugin("too many string tensors"))?;
        let place = digests.encoded(EncodedId(id))?;
        let crc = place.note.try_into().map_err(|_| Error::plugin("invalid checksum of strings"))?;
        Ok((self.shard, place.offset, place.len, u32::from_le_bytes(crc)))
    }
}
