//! A deflated archive is streamed: where its members lie is known when they have been compressed.

use super::deflate::Deflater;
use super::{Array, arrays, path};
use crate::zip::write::{Lengths, data_descriptor, directory, local_header};
use crate::zip::{Member, Method};
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, LayoutSink, Loss, LossKind, OutputId, Result, Role, Target, TensorId,
    TensorPlan, TensorWriter,
};

/// How much of a tensor is asked for at once.
const PIECE: u64 = 256 << 10;

pub(super) struct Writer;

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let arrays = arrays(catalog, layout)?;
        // The host tells of ties that it copies twice; what a stream writes twice it does not see.
        for array in &arrays {
            let first = catalog.tied_to(array.tensor);
            if first != array.tensor {
                let why = format!("tied to {:?} and written again", catalog.tensor(first).name);
                layout.loss(Loss::new(LossKind::Alias, catalog.tensor(array.tensor).name, why))?;
            }
        }
        let tensors: Vec<TensorId> = arrays.iter().map(|array| array.tensor).collect();
        layout.streamed_file(path(target), Role::Data, &tensors)?;
        Ok(Box::new(Plan { arrays }))
    }
}

struct Plan {
    arrays: Vec<Array>,
}

impl TensorPlan for Plan {
    fn stream(&self, _file: OutputId, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<()> {
        let mut members = Vec::with_capacity(self.arrays.len());
        let mut offset = 0_u64;
        for array in &self.arrays {
            let mut member = Member {
                name: array.name.clone(),
                method: Method::Deflated,
                crc: 0,
                stored_len: 0,
                len: array.header.len() as u64 + catalog.tensor(array.tensor).bytes,
                header_offset: offset,
            };
            let header = local_header(&member, Lengths::After);
            output.write(&header)?;
            (member.crc, member.stored_len) = deflate(array, catalog, output)?;
            let descriptor = data_descriptor(&member);
            output.write(&descriptor)?;
            offset += header.len() as u64 + member.stored_len + descriptor.len() as u64;
            members.push(member);
        }
        output.write(&directory(&members, offset, Lengths::After))
    }
}

fn deflate(array: &Array, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<(u32, u64)> {
    let mut deflater = Deflater::new(output);
    deflater.write(&array.header)?;
    let len = catalog.tensor(array.tensor).bytes;
    let mut piece = Vec::new();
    let mut done = 0;
    while done < len {
        piece.resize(usize::try_from((len - done).min(PIECE)).unwrap_or(usize::MAX), 0);
        catalog.read(array.tensor, done, &mut piece)?;
        deflater.write(&piece)?;
        done += piece.len() as u64;
    }
    deflater.finish()
}
