//! Reads a V1 checkpoint, and adds the tensors that its files list. Each slice becomes a block of
//! its tensor.

use super::decode::{Encoded, EncodedData, Slice, V1Storages};
use super::meta::{ListedTensor, each_listed};
use crate::bundle::slice_region;
use crate::names::key_text::key_text;
use crate::table::{Table, ValuePosition};
use crate::tensor_proto::Values;
use crate::{dtype, slice_key};
use std::collections::{BTreeMap, HashMap};
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{
    Block, CatalogSink, Context, Dtype, Error, Limits, Loss, LossKind, Region, Result, Source, Storage,
    check_tiling, element_count, row_major_strides,
};

/// Reads the checkpoint in `files`. The result decodes the encoded storages of the catalog. These
/// storages contain all tensors of the checkpoint.
pub(crate) fn read_v1(
    source: &dyn Source,
    files: &[String],
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<V1Storages> {
    let mut tensors = BTreeMap::new();
    let mut storages = V1Storages::default();
    for name in files {
        context.check_cancelled()?;
        let table = Table::open(source, source.open(name)?, context.limits())?;
        let mut reader = FileReader {
            file: name,
            number: storages.tables.len(),
            limits: context.limits(),
            tensors: &mut tensors,
            wanted: HashMap::new(),
            unlisted: Vec::new(),
        };
        table.for_each(source, &mut |key, value, place| {
            context.check_cancelled()?;
            reader.entry(key, value, place)
        })?;
        for key in reader.finish()? {
            let why = "the checkpoint does not list this slice";
            catalog.loss(Loss::new(LossKind::Tensor, key, why))?;
        }
        storages.tables.push((name.clone(), table));
    }
    for (name, tensor) in tensors {
        let name = key_text(&name);
        place(&name, tensor, &mut storages, catalog).map_err(|error| error.tensor(&*name))?;
    }
    Ok(storages)
}

/// A tensor and the slices found so far.
#[derive(Debug)]
struct SlicedTensor {
    number: i32,
    shape: Vec<u64>,
    parts: Vec<(Region, Slice)>,
}

/// A file that is being read.
struct FileReader<'a> {
    file: &'a str,
    number: usize,
    limits: &'a Limits,
    tensors: &'a mut BTreeMap<Vec<u8>, SlicedTensor>,
    /// The listed slices that have not been found yet, by key.
    wanted: HashMap<Vec<u8>, ListedSlice>,
    unlisted: Vec<String>,
}

struct ListedSlice {
    tensor: Vec<u8>,
    region: Region,
    text: String,
}

impl FileReader<'_> {
    fn entry(&mut self, key: &[u8], value: &[u8], place: ValuePosition) -> Result<()> {
        if key.is_empty() {
            let (file, limits) = (self.file, self.limits);
            return each_listed(value, file, limits, &mut |listed| {
                let name = key_text(&listed.name).into_owned();
                self.list(listed).map_err(|error| error.tensor(name))
            });
        }
        let Some(wanted) = self.wanted.remove(key) else {
            self.unlisted.push(slice_key::describe(key));
            return Ok(());
        };
        self.slice(&wanted, value, place).map_err(|error| error.tensor(key_text(&wanted.tensor)))
    }

    /// Adds a listed tensor. A previously read file may already have listed the same tensor.
    fn list(&mut self, listed: ListedTensor) -> Result<()> {
        for slice in &listed.slices {
            let region = slice_region(slice, &listed.shape)?;
            let wanted = ListedSlice { tensor: listed.name.clone(), region, text: slice_key::text(slice) };
            if self.wanted.len() as u64 >= self.limits.entries {
                let max = format!("at most {}", self.limits.entries);
                return Err(Error::limit("the checkpoint lists too many slices")
                    .hint("raise the limit with --limit entries=N")
                    .expected(max));
            }
            if let Some(twice) = self.wanted.insert(slice_key::encode(&listed.name, slice), wanted) {
                return Err(Error::malformed("the checkpoint lists a slice twice").found(twice.text));
            }
        }
        let known = self.tensors.entry(listed.name).or_insert_with(|| SlicedTensor {
            number: listed.dtype,
            shape: listed.shape.clone(),
            parts: Vec::new(),
        });
        if (known.number, &known.shape) != (listed.dtype, &listed.shape) {
            return Err(Error::malformed("two files of the checkpoint disagree about a tensor")
                .file(self.file)
                .expected(format!("{} {:?}", dtype::name(known.number), known.shape))
                .found(format!("{} {:?}", dtype::name(listed.dtype), listed.shape)));
        }
        Ok(())
    }

    fn slice(&mut self, wanted: &ListedSlice, value: &[u8], place: ValuePosition) -> Result<()> {
        let Some(tensor) = self.tensors.get_mut(&wanted.tensor) else { return Ok(()) };
        let elements = element_count(&wanted.region.shape)?;
        let Some(dtype) = dtype::of_number(tensor.number).filter(|_| elements > 0) else { return Ok(()) };
        let mut wire = Wire::of_memory(value, self.file);
        let whole = wire.whole();
        let data = match wire.last(&whole, 2)? {
            Some(slice) => wire.last(&slice, 3)?,
            None => None,
        };
        let data = data.ok_or_else(|| Error::malformed("a slice has no values").found(&wanted.text))?;
        let values = Values::find(&mut wire, &data, dtype, elements)?;
        if values.repeated_len() > 0 {
            let error = Error::malformed(format!("slice {} has fewer values than elements", wanted.text));
            return Err(error.expected(format!("{elements} values of {}", dtype::name(tensor.number))));
        }
        let slice = Slice { table: self.number, place, values };
        tensor.parts.push((wanted.region.clone(), slice));
        Ok(())
    }

    /// Returns the slices that the table contains but does not list. Returns an error if a listed
    /// slice is missing.
    fn finish(self) -> Result<Vec<String>> {
        // The error always names the missing slice with the lowest key, so it does not depend on
        // the order of the map.
        if let Some((_, missing)) = self.wanted.into_iter().min_by(|a, b| a.0.cmp(&b.0)) {
            return Err(Error::malformed("a listed slice is missing from the checkpoint")
                .file(self.file)
                .tensor(key_text(&missing.tensor))
                .expected(format!("slice {}", missing.text)));
        }
        Ok(self.unlisted)
    }
}

fn place(
    name: &str,
    tensor: SlicedTensor,
    storages: &mut V1Storages,
    catalog: &mut dyn CatalogSink,
) -> Result<()> {
    let SlicedTensor { number, shape, parts } = tensor;
    let Some(dtype) = dtype::of_number(number) else {
        let why = format!("ferry cannot represent values of its dtype {}", dtype::name(number));
        return catalog.loss(Loss::new(LossKind::Tensor, name, why));
    };
    let mut encode = |content: EncodedData, len: u64| {
        let handle = storages.encoded.len() as u64;
        storages.encoded.push(Encoded { tensor: name.to_owned(), content });
        catalog.storage(Storage::encoded(handle, len))
    };
    if dtype == Dtype::STR && element_count(&shape)? > 0 {
        let regions: Vec<Region> = parts.iter().map(|(region, _)| region.clone()).collect();
        check_tiling(&shape, &regions)?;
        let len = parts.iter().try_fold(0_u64, |sum, (_, slice)| sum.checked_add(slice.values.len()));
        let len = len.ok_or_else(|| Error::malformed("the length of the strings does not fit in 64 bits"))?;
        let storage = encode(EncodedData::Strings { shape: shape.clone(), parts }, len)?;
        return catalog.tensor(name, dtype, &shape, storage, 0).map(drop);
    }
    let blocks = parts.into_iter().map(|(region, slice)| {
        let len = slice.values.len();
        let storage = encode(EncodedData::Slice(slice), len)?;
        Ok(Block { strides: row_major_strides(&region.shape), region, storage, offset: 0 })
    });
    let blocks = blocks.collect::<Result<_>>()?;
    catalog.tensor_of_blocks(name, dtype, &shape, blocks).map(drop)
}
