//! Writes rank folders. Each rank's file is an archive that contains the rank's parts of the
//! tensors. If several ranks share a tensor, one rank's file contains the tensor itself, and the
//! other files contain copies of the tensor's bytes.

use crate::like::TemplateRun;
use std::collections::HashMap;
use tensorferry_megatron_model::{GridSize, Part, split};
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, Digests, Encoded, EncodedId, Error, LayoutSink, Order, Result, Role,
    SealSink, TensorId, TensorPart, TensorPlan,
};
use tensorferry_torch_file::{PickleWriter, WholeTensor, WrittenArchive, ZipPlan};

/// Name of a rank's file, and name of the root folder in the file's archive.
const FILE: (&str, &str) = ("model_optim_rng.pt", "model_optim_rng");
/// Checkpoint version that megatron-core writes. In this version, the rows of fused attention
/// weights are grouped.
const VERSION: f64 = 3.0;
/// Number of bytes to read at a time when a copy is written.
const CHUNK: u64 = 1 << 20;

/// Archives whose checksums `seal` fills in, and the copied tensors in these archives.
#[derive(Debug, Default)]
pub(super) struct RankPlan {
    archives: Vec<ZipPlan>,
    copies: HashMap<EncodedId, CopiedRows>,
}

/// A range of a tensor's bytes that another rank's file also contains.
#[derive(Debug, Clone, Copy)]
struct CopiedRows {
    tensor: TensorId,
    offset: u64,
    len: u64,
}

pub(super) fn plan(
    catalog: &dyn CatalogView,
    size: GridSize,
    like: &TemplateRun,
    folder: &str,
    layout: &mut dyn LayoutSink,
) -> Result<RankPlan> {
    let ranks = split(catalog, size, &like.facts())?;
    let mut plan = RankPlan::default();
    for (number, rank) in size.ranks().enumerate() {
        let none = Vec::new();
        let parts = ranks.get(&rank).unwrap_or(&none);
        let stored: Vec<WholeTensor> =
            parts.iter().map(|part| stored(catalog, part)).collect::<Result<_>>()?;
        let (pickle, left_out) = pickle(parts, &stored, size, like)?;
        if number == 0 {
            TemplateRun::report(&left_out, layout)?;
        }
        let file = layout.file(&format!("{folder}/{}/{}", size.folder(rank), FILE.0), Role::Data)?;
        let archive = WrittenArchive { root: FILE.1, pickle: &pickle, own: None };
        let RankPlan { archives, copies } = &mut plan;
        let lens = stored.iter().map(WholeTensor::bytes);
        archives.push(archive.lay_out(layout, file, lens, |key, layout, file| {
            append(catalog, &parts[key], stored[key].bytes(), copies, layout, file)
        })?);
    }
    layout.supersedes(&format!("{folder}/mp_rank_*/{}", FILE.0), Role::Data)?;
    Ok(plan)
}

fn stored(catalog: &dyn CatalogView, part: &Part) -> Result<WholeTensor> {
    let view = catalog.tensor(part.tensor);
    let elements = part.shape.iter().product();
    let bytes = catalog.dtype_info(view.dtype)?.bytes_of(elements)?;
    let stored = WholeTensor::new(view.dtype, &part.shape, bytes);
    stored.map_err(|why| Error::unsupported(why).tensor(view.name))
}

/// Returns the pickle of a rank's file, and the names of the arguments that the pickle omits.
fn pickle(
    parts: &[Part],
    stored: &[WholeTensor],
    size: GridSize,
    like: &TemplateRun,
) -> Result<(Vec<u8>, Vec<String>)> {
    let mut pickle = PickleWriter::new();
    pickle.empty_dict();
    pickle.mark();
    pickle.text("args")?;
    let left_out = like.push(size, "torch", &mut pickle)?;
    pickle.text("checkpoint_version")?;
    pickle.float(VERSION);
    pickle.text("iteration")?;
    pickle.int(like.iteration.unwrap_or(0));
    pickle.text("model")?;
    pickle.call_without_arguments("collections", "OrderedDict");
    pickle.mark();
    for (key, (part, stored)) in parts.iter().zip(stored).enumerate() {
        pickle.text(&part.name)?;
        stored.push(&mut pickle, key)?;
    }
    pickle.set_items();
    pickle.set_items();
    Ok((pickle.finish(), left_out))
}

/// Appends the bytes of a part and returns their offset.
fn append(
    catalog: &dyn CatalogView,
    part: &Part,
    len: u64,
    copies: &mut HashMap<EncodedId, CopiedRows>,
    layout: &mut dyn LayoutSink,
    file: tensorferry_sdk::OutputId,
) -> Result<u64> {
    let start = layout.bytes(file, &[])?;
    if len == 0 {
        return Ok(start);
    }
    if part.is_copy {
        let view = catalog.tensor(part.tensor);
        let before = part.regions.first().and_then(|region| region.origin.first()).copied().unwrap_or(0);
        let rows = view.shape.first().copied().unwrap_or(1).max(1);
        let offset = view.bytes / rows * before;
        let (id, _) = layout.encoded(file, Encoded::default().of_len(len))?;
        copies.insert(id, CopiedRows { tensor: part.tensor, offset, len });
        return Ok(start);
    }
    for region in &part.regions {
        let is_whole = region.shape == catalog.tensor(part.tensor).shape;
        let region = Some(region.clone()).filter(|_| !is_whole);
        layout.tensor(file, TensorPart { region, order: Order::C, ..TensorPart::whole(part.tensor) })?;
    }
    Ok(start)
}

impl TensorPlan for RankPlan {
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let copy = self.copies.get(&id).ok_or_else(|| Error::plugin("a copy that was not planned"))?;
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < copy.len {
            context.check_cancelled()?;
            let count = CHUNK.min(copy.len - done);
            buffer.resize(usize::try_from(count).map_err(|_| Error::limit("too long for this machine"))?, 0);
            catalog.read(copy.tensor, copy.offset + done, &mut buffer)?;
            output.write(&buffer)?;
            done += count;
        }
        Ok(Vec::new())
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.archives.iter().try_for_each(|archive| archive.seal(digests, output))
    }
}
