//! Writes the bytes that `flax.serialization.msgpack_serialize` creates for the same tree. All
//! headers are planned in advance, and the host copies the bytes of the tensors between them.

use crate::NAMING;
use crate::options::WriteOptions;
use crate::outline::{FromTree, Outline, PlannedValue, integer, parts};
use rmp::encode as msgpack;
use std::collections::{BTreeMap, HashSet};
use tensorferry_flax_file::array::{encoded, header};
use tensorferry_flax_file::chunked::MARK;
use tensorferry_flax_file::document::Key;
use tensorferry_flax_file::dtype;
use tensorferry_hub::{Index, Names, split};
use tensorferry_sdk::{
    CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, NothingToSeal, OutputId, Region, Result,
    Role, Target, TensorId, TensorPart, TensorPlan, TensorWriter,
};

/// Maximum size in bytes of an array in a list. Such an array cannot be split, because Flax does
/// not join chunks in lists.
const MAX_UNCHUNKED: u64 = u32::MAX as u64 - 1024;

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
        let tensors = representable(catalog, layout)?;
        let names = Names::of(&NAMING, target).tagged(self.options.shard_tag);
        let sizes = tensors.iter().map(|&tensor| (tensor, catalog.tensor(tensor).bytes));
        let shards = split(sizes, self.options.max_shard_size);
        let all: HashSet<&str> = tensors.iter().map(|&tensor| catalog.tensor(tensor).name).collect();
        let mut outlines = Vec::with_capacity(shards.len());
        let tree = match catalog.root() {
            Some(root) => Outline::of_tree(catalog, root, &tensors, context)?,
            None => FromTree::Unusable { has_state: false },
        };
        match tree {
            FromTree::Kept(outline, losses) if shards.len() == 1 => {
                losses.into_iter().try_for_each(|loss| layout.loss(loss))?;
                outlines.push(outline);
            }
            tree => {
                if matches!(tree, FromTree::Unusable { has_state: true } | FromTree::Kept(..)) {
                    let why = "the tensors are written by name, without the other contents of the tree";
                    layout.loss(Loss::new(LossKind::State, ".", why))?;
                }
                for shard in &shards {
                    outlines.push(Outline::of_names(catalog, shard, &all)?);
                }
            }
        }
        let files: Vec<String> = (1..=shards.len()).map(|number| names.file(number, shards.len())).collect();
        for (path, outline) in files.iter().zip(&outlines) {
            context.check_cancelled()?;
            let file = layout.file(path, Role::Data)?;
            let mut output = FileLayout {
                catalog,
                layout,
                file,
                pending: Vec::new(),
                chunk_size: self.options.chunk_size,
            };
            output.outline(outline).map_err(|error| error.file(path))?;
        }
        if files.len() > 1 {
            self.index(catalog, &names, &files, &shards, &all, layout)?;
        }
        names.superseded().into_iter().try_for_each(|(pattern, role)| layout.supersedes(&pattern, role))?;
        Ok(Box::new(NothingToSeal))
    }
}

impl Writer {
    /// Writes the index of a set of shards. The names in it are keys joined with slashes.
    fn index(
        &self,
        catalog: &dyn CatalogView,
        names: &Names,
        files: &[String],
        shards: &[Vec<TensorId>],
        all: &HashSet<&str>,
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        let placed =
            files.iter().zip(shards).flat_map(|(file, shard)| shard.iter().map(move |id| (file, *id)));
        let mut total_size = 0_u64;
        let paths = placed.map(|(file, id)| {
            total_size = total_size.saturating_add(catalog.tensor(id).bytes);
            (parts(catalog.tensor(id).name, |name| all.contains(name)).join("/"), file.as_str())
        });
        let paths: Vec<(String, &str)> = paths.collect();
        let weight_map: BTreeMap<&str, &str> = paths.iter().map(|(path, file)| (&**path, *file)).collect();
        if weight_map.len() != paths.len() {
            return Err(Error::unsupported("two tensors have the same name in the index")
                .hint("rename one of them, or omit -o max_shard_size to write one file"));
        }
        let file = layout.file(&names.index(), Role::Index)?;
        layout.bytes(file, &Index::encode(total_size, &weight_map)?).map(drop)
    }
}

/// Returns the tensors that Flax can represent. Omits all other tensors and reports the reasons.
fn representable(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<TensorId>> {
    let mut tensors = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        if dtype::name(tensor.dtype).is_some() {
            tensors.push(id);
            continue;
        }
        let name = catalog.dtype_info(tensor.dtype)?.name().to_owned();
        let remedy =
            if tensor.dtype == Dtype::STR { "" } else { "; change it with --step cast or --step dequantize" };
        layout.omit(id, &format!("Flax has no dtype {name}{remedy}"))?;
    }
    Ok(tensors)
}

/// A file that is being laid out.
struct FileLayout<'a> {
    catalog: &'a dyn CatalogView,
    layout: &'a mut dyn LayoutSink,
    file: OutputId,
    /// Bytes to write before the next tensor.
    pending: Vec<u8>,
    chunk_size: u64,
}

impl FileLayout<'_> {
    fn outline(&mut self, outline: &Outline) -> Result<()> {
        // A task on the stack, which writes a key or a value. The flag of a value is set if the
        // value is inside a list.
        enum Task<'o> {
            Key(&'o Key),
            Value(u32, bool),
        }
        let mut tasks = vec![Task::Value(outline.root, false)];
        while let Some(task) = tasks.pop() {
            let (id, is_in_list) = match task {
                Task::Key(Key::Text(text)) => {
                    encoded(msgpack::write_str(&mut self.pending, text))?;
                    continue;
                }
                Task::Key(Key::Int(number)) => {
                    integer(&mut self.pending, *number)?;
                    continue;
                }
                Task::Value(id, is_in_list) => (id, is_in_list),
            };
            match &outline.items[id as usize] {
                PlannedValue::Map(entries) => {
                    encoded(msgpack::write_map_len(&mut self.pending, count(entries.len())?))?;
                    for (key, part) in entries.iter().rev() {
                        tasks.extend([Task::Value(*part, is_in_list), Task::Key(key)]);
                    }
                }
                PlannedValue::List(parts) => {
                    encoded(msgpack::write_array_len(&mut self.pending, count(parts.len())?))?;
                    tasks.extend(parts.iter().rev().map(|&part| Task::Value(part, true)));
                }
                PlannedValue::Leaf(bytes) => self.pending.extend(bytes),
                &PlannedValue::Tensor { id, is_scalar } => self.tensor(id, is_scalar, is_in_list)?,
            }
        }
        if !self.pending.is_empty() {
            self.layout.bytes(self.file, &self.pending)?;
        }
        Ok(())
    }

    fn tensor(&mut self, id: TensorId, is_scalar: bool, is_in_list: bool) -> Result<()> {
        let (catalog, tensor) = (self.catalog, self.catalog.tensor(id));
        let name = dtype::name(tensor.dtype).ok_or_else(|| Error::plugin("the dtype has no name"))?;
        let max = if is_in_list { MAX_UNCHUNKED } else { self.chunk_size };
        // A scalar cannot be split into chunks.
        if tensor.bytes <= max || tensor.shape.is_empty() {
            self.pending.extend(
                header(name, tensor.shape, tensor.bytes, is_scalar).map_err(|e| e.tensor(tensor.name))?,
            );
            return self.part(TensorPart::whole(id));
        }
        if is_in_list {
            return Err(Error::unsupported(
                "an array in a list is too long, because Flax does not join chunks there",
            )
            .tensor(tensor.name)
            .expected(format!("at most {MAX_UNCHUNKED} bytes"))
            .found(tensor.bytes));
        }
        let info = catalog.dtype_info(tensor.dtype)?;
        let width = info.element_bytes().map_or(1, u64::from);
        let (elements, length) = (tensor.bytes / width, (self.chunk_size / width).max(1));
        encoded(msgpack::write_map_len(&mut self.pending, 3))?;
        encoded(msgpack::write_str(&mut self.pending, MARK))?;
        encoded(msgpack::write_bool(&mut self.pending, true))?;
        encoded(msgpack::write_str(&mut self.pending, "shape"))?;
        encoded(msgpack::write_map_len(&mut self.pending, count(tensor.shape.len())?))?;
        for (number, &dim) in tensor.shape.iter().enumerate() {
            encoded(msgpack::write_str(&mut self.pending, &number.to_string()))?;
            encoded(msgpack::write_uint(&mut self.pending, dim))?;
        }
        let chunks = u32::try_from(elements.div_ceil(length)).map_err(|_| Error::usage("too many chunks"))?;
        encoded(msgpack::write_str(&mut self.pending, "chunks"))?;
        encoded(msgpack::write_map_len(&mut self.pending, chunks))?;
        for number in 0..u64::from(chunks) {
            let (start, end) = (number * length, elements.min((number + 1) * length));
            encoded(msgpack::write_str(&mut self.pending, &number.to_string()))?;
            self.pending.extend(header(name, &[end - start], (end - start) * width, false)?);
            for region in regions(tensor.shape, start, end) {
                self.part(TensorPart { region: Some(region), ..TensorPart::whole(id) })?;
            }
        }
        Ok(())
    }

    fn part(&mut self, part: TensorPart) -> Result<()> {
        if !self.pending.is_empty() {
            self.layout.bytes(self.file, &self.pending)?;
            self.pending.clear();
        }
        self.layout.tensor(self.file, part).map(drop)
    }
}

fn count(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| Error::unsupported("too many entries for msgpack"))
}

/// Returns the regions that together contain the elements from `start` to `end` of a row-major
/// tensor, in order. The number of regions is less than twice the number of dimensions.
fn regions(shape: &[u64], start: u64, end: u64) -> Vec<Region> {
    let mut strides = vec![1_u64; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim]);
    }
    let mut regions = Vec::new();
    let mut at = start;
    while at < end {
        let origin: Vec<u64> = (0..shape.len()).map(|dim| at / strides[dim] % shape[dim]).collect();
        // Use the outermost dimension in which at least one whole row fits into the range.
        let fits = |&dim: &usize| at.is_multiple_of(strides[dim]) && strides[dim] <= end - at;
        let Some(dim) = (0..shape.len()).find(fits) else { break };
        let rows = ((end - at) / strides[dim]).min(shape[dim] - origin[dim]);
        let mut size = vec![1; shape.len()];
        size[dim] = rows;
        size[dim + 1..].copy_from_slice(&shape[dim + 1..]);
        at += rows * strides[dim];
        regions.push(Region { origin, shape: size });
    }
    regions
}
