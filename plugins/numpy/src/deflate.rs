//! Writes archives of deflated arrays. The members are independent and are compressed concurrently.

use std::collections::HashMap;
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, Digests, EncodedId, Error, LayoutSink, OutputId, Result, SealSink,
    TensorId, TensorPlan,
};
use tensorferry_zip::{DeflatedLayout, DeflatedPlan, Deflater};

/// Number of bytes to read from a tensor at a time.
const PIECE: u64 = 256 << 10;

/// An array to write to an archive.
pub(crate) struct Array {
    pub(crate) tensor: TensorId,
    /// Name of the archive's member.
    pub(crate) name: String,
    pub(crate) header: Vec<u8>,
    /// Uncompressed length of the header and the elements in bytes.
    pub(crate) size: u64,
}

/// The arrays, by the ID of the encoded output, and the archive that contains them.
pub(crate) struct DeflatedArrays {
    arrays: HashMap<EncodedId, Array>,
    archive: DeflatedPlan,
}

impl DeflatedArrays {
    /// Plans an archive with a member for each array.
    pub(crate) fn plan(layout: &mut dyn LayoutSink, file: OutputId, arrays: Vec<Array>) -> Result<Self> {
        let sizes = arrays.iter().map(|array| (&*array.name, array.size));
        let mut archive = DeflatedLayout::new(layout, file, sizes);
        let place = |array: Array| Ok((archive.entry(&array.name, array.size, array.tensor)?, array));
        let arrays = arrays.into_iter().map(place).collect::<Result<_>>()?;
        Ok(Self { arrays, archive: archive.finish()? })
    }
}

impl TensorPlan for DeflatedArrays {
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let array = self.arrays.get(&id).ok_or_else(|| Error::plugin(format!("no member {}", id.0)))?;
        let len = catalog.tensor(array.tensor).bytes;
        let mut deflater = Deflater::new(output);
        deflater.write(&array.header)?;
        let mut piece = Vec::new();
        let mut done = 0;
        while done < len {
            context.check_cancelled()?;
            piece.resize(usize::try_from((len - done).min(PIECE)).unwrap_or(usize::MAX), 0);
            catalog.read(array.tensor, done, &mut piece)?;
            deflater.write(&piece)?;
            done += piece.len() as u64;
        }
        deflater.finish()
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.archive.seal(digests, output)
    }
}
