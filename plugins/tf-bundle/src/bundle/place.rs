//! Adds entries of a bundle to a catalog, as tensors with the names that the caller gives them.

use super::entry::{BundleEntry, DataRange, dtype_of, shape_of};
use super::index::BundleIndex;
use super::slices;
use super::string_tensor::{StringTensor, StringTensors};
use super::strings::Strings;
use crate::dtype;
use std::collections::HashMap;
use tensorferry_proto::BundleEntryProto;
use tensorferry_sdk::{
    Block, CatalogSink, Digest, Dtype, Error, Limits, Loss, LossKind, Region, Result, Source, Storage,
    StorageId, TensorId, check_tiling, element_count, row_major_strides,
};

/// Places entries. Those that lie at one place have one storage, which ties them.
pub(crate) struct Placer<'a> {
    index: &'a BundleIndex,
    source: &'a dyn Source,
    numbers: HashMap<DataRange, StorageId>,
    strings: HashMap<StringTensor, StorageId>,
    tensors: StringTensors,
    /// Bytes of all entries whose strings' lengths were read, and how many there may be: no more than
    /// are stored, unless entries share them.
    string_bytes: u64,
    most_string_bytes: u64,
}

impl<'a> Placer<'a> {
    pub(crate) fn new(index: &'a BundleIndex, source: &'a dyn Source, limits: &Limits) -> Self {
        Self {
            index,
            source,
            numbers: HashMap::new(),
            strings: HashMap::new(),
            tensors: StringTensors::default(),
            string_bytes: 0,
            most_string_bytes: index.data_bytes(source).saturating_add(limits.expanded_bytes),
        }
    }

    /// Puts an entry into the catalog. `None`: its dtype is one that a catalog has no tensors of, and
    /// a loss says so.
    pub(crate) fn place(
        &mut self,
        catalog: &mut dyn CatalogSink,
        name: &str,
        entry: &BundleEntry,
    ) -> Result<Option<TensorId>> {
        let Some(dtype) = dtype_of(&entry.proto) else {
            // A number that is not there yet is a newer TensorFlow's; these are nobody's.
            if entry.proto.dtype <= 0 {
                return Err(Error::malformed("the entry has no dtype")
                    .tensor(entry.name())
                    .found(dtype::word(entry.proto.dtype)));
            }
            let word = dtype::word(entry.proto.dtype);
            let why = format!("its dtype {word} is none that a tensor of numbers or strings has");
            catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
            return Ok(None);
        };
        let placed = if dtype == Dtype::STR {
            self.place_strings(catalog, name, entry)
        } else {
            self.place_numbers(catalog, name, entry, dtype)
        };
        placed.map(Some).map_err(|error| error.tensor(entry.name()))
    }

    /// What the storages of strings are decoded from.
    pub(crate) fn into_string_tensors(self) -> StringTensors {
        self.tensors
    }

    fn place_numbers(
        &mut self,
        catalog: &mut dyn CatalogSink,
        name: &str,
        entry: &BundleEntry,
        dtype: Dtype,
    ) -> Result<TensorId> {
        let shape = shape_of(&entry.proto)?;
        if !entry.is_sliced() {
            return match self.numbers(catalog, &entry.proto, &shape, dtype)? {
                Some(storage) => catalog.tensor(name, dtype, &shape, storage, 0),
                None => catalog.tensor_of_blocks(name, dtype, &shape, Vec::new()),
            };
        }
        let mut blocks = Vec::with_capacity(entry.proto.slices.len());
        for (region, proto) in slices::parts(self.index, entry, &shape)? {
            if let Some(storage) = self.numbers(catalog, proto, &region.shape, dtype)? {
                let strides = row_major_strides(&region.shape);
                blocks.push(Block { region, storage, offset: 0, strides });
            }
        }
        catalog.tensor_of_blocks(name, dtype, &shape, blocks)
    }

    /// The storage of an entry of numbers; `None` if it has no elements.
    fn numbers(
        &mut self,
        catalog: &mut dyn CatalogSink,
        proto: &BundleEntryProto,
        shape: &[u64],
        dtype: Dtype,
    ) -> Result<Option<StorageId>> {
        let info = dtype.info().ok_or_else(|| Error::plugin(format!("no dtype {}", dtype.id())))?;
        let bytes = info.bytes_of(element_count(shape)?)?;
        if u64::try_from(proto.size) != Ok(bytes) {
            return Err(Error::malformed("the entry's size is not that of its dtype and shape")
                .expected(format!("{bytes} bytes for {} of shape {shape:?}", info.name()))
                .found(proto.size));
        }
        if bytes == 0 {
            return Ok(None);
        }
        let range = self.index.data(self.source, proto)?;
        if let Some(&storage) = self.numbers.get(&range) {
            return Ok(Some(storage));
        }
        let storage = Storage::file(range.file, range.offset, range.len)
            .byte_order(self.index.byte_order())
            .digest(Digest::crc32c(range.crc));
        let storage = catalog.storage(storage)?;
        self.numbers.insert(range, storage);
        Ok(Some(storage))
    }

    fn place_strings(
        &mut self,
        catalog: &mut dyn CatalogSink,
        name: &str,
        entry: &BundleEntry,
    ) -> Result<TensorId> {
        let shape = shape_of(&entry.proto)?;
        let tensor = self.string_tensor(entry, &shape)?;
        let storage = match self.strings.get(&tensor) {
            Some(&storage) => storage,
            None => {
                let len = tensor.logical_len()?;
                let handle = self.tensors.push(entry.name().into_owned(), tensor.clone());
                let storage = catalog.storage(Storage::encoded(handle, len))?;
                self.strings.insert(tensor, storage);
                storage
            }
        };
        catalog.tensor(name, Dtype::STR, &shape, storage, 0)
    }

    /// A tensor of strings with its lengths checked. A catalog has no blocks of strings, so that the
    /// tiling of slices is checked here.
    fn string_tensor(&mut self, entry: &BundleEntry, shape: &[u64]) -> Result<StringTensor> {
        let (regions, protos): (Vec<Region>, Vec<&BundleEntryProto>) =
            slices::parts(self.index, entry, shape)?.into_iter().unzip();
        check_tiling(shape, &regions)?;
        let mut parts = Vec::with_capacity(regions.len());
        for (region, proto) in regions.into_iter().zip(protos) {
            let range = self.index.data(self.source, proto)?;
            self.string_bytes = self.string_bytes.saturating_add(range.len);
            if self.string_bytes > self.most_string_bytes {
                return Err(Error::limit("entries of strings share stored bytes too often")
                    .expected(format!("at most {} bytes", self.most_string_bytes))
                    .found(self.string_bytes));
            }
            let count = element_count(&region.shape)?;
            parts.push((region, Strings::check(self.source, range, count, self.index.byte_order())?));
        }
        Ok(StringTensor { shape: shape.to_vec(), parts })
    }
}
