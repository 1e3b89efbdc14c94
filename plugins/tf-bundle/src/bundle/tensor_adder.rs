//! Adds the entries of a bundle to a catalog as tensors. The caller passes the tensor names.

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

/// Adds entries to a catalog. Entries with the same bytes share a storage, which makes them tied
/// tensors.
pub(crate) struct TensorAdder<'a> {
    index: &'a BundleIndex,
    source: &'a dyn Source,
    numbers: HashMap<DataRange, StorageId>,
    strings: HashMap<StringTensor, StorageId>,
    tensors: StringTensors,
    /// Total size in bytes of all entries whose string lengths have been read. The maximum,
    /// `max_string_bytes`, is the number of stored bytes plus an allowance. The total can exceed
    /// this maximum only if entries share bytes.
    string_bytes: u64,
    max_string_bytes: u64,
}

impl<'a> TensorAdder<'a> {
    pub(crate) fn new(index: &'a BundleIndex, source: &'a dyn Source, limits: &Limits) -> Self {
        Self {
            index,
            source,
            numbers: HashMap::new(),
            strings: HashMap::new(),
            tensors: StringTensors::default(),
            string_bytes: 0,
            max_string_bytes: index.data_bytes(source).saturating_add(limits.expanded_bytes),
        }
    }

    /// Adds an entry to the catalog. If the catalog does not support its dtype, reports a loss and
    /// returns `None`.
    pub(crate) fn add(
        &mut self,
        catalog: &mut dyn CatalogSink,
        name: &str,
        entry: &BundleEntry,
    ) -> Result<Option<TensorId>> {
        let Some(dtype) = dtype_of(&entry.proto) else {
            // An unknown positive number may be a dtype from a newer TensorFlow version, but zero
            // and negative numbers are invalid.
            if entry.proto.dtype <= 0 {
                return Err(Error::malformed("the entry has no dtype")
                    .tensor(entry.name())
                    .found(dtype::name(entry.proto.dtype)));
            }
            let word = dtype::name(entry.proto.dtype);
            let why = format!("its dtype {word} is neither numeric nor string");
            catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
            return Ok(None);
        };
        let placed = if dtype == Dtype::STR {
            self.add_strings(catalog, name, entry)
        } else {
            self.add_numbers(catalog, name, entry, dtype)
        };
        placed.map(Some).map_err(|error| error.tensor(entry.name()))
    }

    /// Returns the string tensors, which decode the encoded storages in the catalog on request.
    pub(crate) fn into_string_tensors(self) -> StringTensors {
        self.tensors
    }

    fn add_numbers(
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

    /// Returns the storage of a numeric entry, or `None` if it has no elements.
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
            return Err(Error::malformed("the size of the entry does not match its dtype and shape")
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

    fn add_strings(
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

    /// Returns a string tensor with checked lengths. This function also checks that the slices
    /// cover the tensor, because a catalog does not support string tensors that consist of blocks.
    fn string_tensor(&mut self, entry: &BundleEntry, shape: &[u64]) -> Result<StringTensor> {
        let (regions, protos): (Vec<Region>, Vec<&BundleEntryProto>) =
            slices::parts(self.index, entry, shape)?.into_iter().unzip();
        check_tiling(shape, &regions)?;
        let mut parts = Vec::with_capacity(regions.len());
        for (region, proto) in regions.into_iter().zip(protos) {
            let range = self.index.data(self.source, proto)?;
            self.string_bytes = self.string_bytes.saturating_add(range.len);
            if self.string_bytes > self.max_string_bytes {
                return Err(Error::limit("string entries share stored bytes too often")
                    .hint("raise the limit with --limit expanded_bytes=N")
                    .expected(format!("at most {} bytes", self.max_string_bytes))
                    .found(self.string_bytes));
            }
            let count = element_count(&region.shape)?;
            parts.push((region, Strings::check(self.source, range, count, self.index.byte_order())?));
        }
        Ok(StringTensor { shape: shape.to_vec(), parts })
    }
}
