//! The writer, which plans where bytes are written, and reports content that a tray cannot store.

use crate::{DTYPES, MAGIC};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, NothingToSeal, Result, Role, Target, TensorPart, TensorPlan,
    TensorView, TensorWriter,
};

pub(crate) struct Writer;

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let (mut entries, mut kept) = (Vec::new(), Vec::new());
        for id in catalog.tensor_ids() {
            match entry(&catalog.tensor(id)) {
                Ok(entry) => {
                    entries.extend(entry);
                    kept.push(id);
                }
                // A tensor that is missing from the output is reported to the user as a loss.
                Err(why) => layout.omit(id, why)?,
            }
        }
        let too_many = |_| Error::unsupported("a tray holds up to 4 GiB of names and shapes");
        let count = u32::try_from(kept.len()).map_err(too_many)?;
        let len = u32::try_from(entries.len()).map_err(too_many)?;
        let file = layout.file(target.file_or("tensors.tray"), Role::Data)?;
        layout.bytes(file, &[MAGIC, &count.to_le_bytes(), &len.to_le_bytes(), &entries].concat())?;
        for id in kept {
            layout.tensor(file, TensorPart::whole(id))?;
        }
        Ok(Box::new(NothingToSeal))
    }
}

/// Returns the entry of a tensor, or the reason why a tray cannot store the tensor.
fn entry(tensor: &TensorView<'_>) -> Result<Vec<u8>, &'static str> {
    let code = DTYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype).map(|(code, _)| *code);
    let code = code.ok_or("a tray has no code for this dtype")?;
    let rank = u8::try_from(tensor.shape.len()).map_err(|_| "a tray holds up to 255 dimensions")?;
    let name = u16::try_from(tensor.name.len()).map_err(|_| "a tray holds names of up to 65535 bytes")?;
    let shape: Vec<u8> = tensor.shape.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    Ok([&[code, rank][..], &name.to_le_bytes(), &shape, tensor.name.as_bytes()].concat())
}
