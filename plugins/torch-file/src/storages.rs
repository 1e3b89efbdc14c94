//! A storage is a stretch of bytes that tensors are views of. A tensor's persistent id names it, and
//! says how many elements of which class it holds; here that is held against what is there, and views
//! become tensors of the catalog, or blocks of them.

use crate::archive::Record;
use crate::dtype::TorchDtype;
use crate::lazy::LazyView;
use crate::persistent_id::PersistentId;
use crate::rebuild::View;
use crate::{Extent, ObjectFile};
use std::collections::HashMap;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogSink, Digest, Dtype, DtypeInfo, Error, Limits, Region, Result, Storage,
    StorageId, TensorId, element_count, row_major_strides,
};

/// What became of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// Its bytes lie here.
    At(Location),
    /// It cannot be carried; why.
    Lost(String),
}

/// Where the elements of a view lie among a catalog's storages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The catalog's dtype.
    pub dtype: Dtype,
    /// The shape in the catalog's elements.
    pub shape: Vec<u64>,
    /// The storage, and the byte where the first element begins; `None`, if there are no elements.
    pub start: Option<(StorageId, u64)>,
    /// From one index to the next, in elements; `None`, if the elements lie side by side, row-major.
    pub strides: Option<Vec<i64>>,
}

impl Location {
    /// The blocks of a tensor that is this view: one, or none if it has no elements.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let block = |(storage, offset)| Block {
            region: Region::whole(&self.shape),
            storage,
            offset,
            strides: self.strides.clone().unwrap_or_else(|| row_major_strides(&self.shape)),
        };
        self.start.map(block).into_iter().collect()
    }

    /// Adds the view to the catalog, as a tensor of its own.
    ///
    /// # Errors
    /// What the catalog's checks say.
    pub fn add(&self, catalog: &mut dyn CatalogSink, name: &str) -> Result<TensorId> {
        match (self.start, &self.strides) {
            (Some((storage, offset)), None) => catalog.tensor(name, self.dtype, &self.shape, storage, offset),
            _ => catalog.tensor_of_blocks(name, self.dtype, &self.shape, self.blocks()),
        }
    }
}

/// The storages of a catalog that is filled from files of torch: one for all of them.
#[derive(Debug)]
pub struct Storages<'l> {
    limits: &'l Limits,
    known: HashMap<Extent, Known>,
    /// Views whose bytes have to be made, each once: so that tied ones stay tied.
    lazy: HashMap<LazyView, StorageId>,
    handles: Vec<LazyView>,
    expanded_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    id: StorageId,
    record: Record,
    /// The bytes that are reversed together, if the file is big-endian.
    swap_unit: u32,
}

impl<'l> Storages<'l> {
    /// None so far.
    #[must_use]
    pub fn new(limits: &'l Limits) -> Self {
        Self { limits, known: HashMap::new(), lazy: HashMap::new(), handles: Vec::new(), expanded_bytes: 0 }
    }

    /// The views that a decoder has to make, by handle.
    #[must_use]
    pub fn into_lazy_views(self) -> Vec<LazyView> {
        self.handles
    }

    /// Finds where a view of `object` lies, and declares its storage if it is the first in it.
    ///
    /// # Errors
    /// Malformed: a storage that is not there or has another length, a view that leaves it.
    pub fn locate(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        view: &View,
    ) -> Result<Located> {
        let named = match PersistentId::of(object.graph(), view.storage)? {
            Ok(named) => named,
            Err(why) => return Ok(Located::Lost(why)),
        };
        if named.location == "meta" {
            return Ok(Located::Lost("it is on the meta device, and has no data".to_owned()));
        }
        let row = view.dtype.or(named.dtype).or_else(|| TorchDtype::of(Dtype::U8));
        let Some(row) = row.filter(|row| !row.quantized) else {
            return Ok(Located::Lost("a quantized tensor without its scales".to_owned()));
        };
        let Some(info) = row.dtype.info() else {
            return Ok(Located::Lost(format!("its dtype {} is not known", row.name)));
        };
        let storage = self.storage(catalog, object, &named, info)?;
        let shape = row
            .logical_shape(&view.size)
            .ok_or_else(|| Error::malformed("a shape that does not fit 64 bits"))?;
        let location = Location { dtype: row.dtype, shape, start: None, strides: None };
        if element_count(&location.shape)? == 0 {
            return Ok(Located::At(location));
        }
        let part = named.part(storage.record.extent.len)?;
        let extent = check_inside(view, row, part.len)?;
        if view.conjugate || view.negative {
            return self.locate_lazy(catalog, object, view, row, part.of(storage.record), extent);
        }
        let start = Some((storage.id, part.offset + view.offset * u64::from(row.element_bytes)));
        if is_row_major(&view.size, &view.stride) {
            return Ok(Located::At(Location { start, ..location }));
        }
        if info.element_bytes().is_none() {
            return Ok(Located::Lost(format!("a strided view of packed {}", info.name())));
        }
        let strides = view.stride.iter().map(|&stride| i64::try_from(stride).unwrap_or(i64::MAX)).collect();
        Ok(Located::At(Location { start, strides: Some(strides), ..location }))
    }

    fn locate_lazy(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        view: &View,
        row: &'static TorchDtype,
        record: Record,
        extent: u64,
    ) -> Result<Located> {
        let lazy = LazyView {
            record,
            byte_order: object.byte_order(),
            dtype: row.dtype,
            offset: view.offset,
            size: view.size.clone(),
            stride: view.stride.clone(),
            conjugate: view.conjugate,
            negative: view.negative,
        };
        let len = match lazy.check() {
            Ok(len) => len,
            Err(why) => return Ok(Located::Lost(why)),
        };
        let id = if let Some(&id) = self.lazy.get(&lazy) {
            id
        } else {
            // The host bounds what views of stored bytes repeat; it cannot see into these.
            self.expanded_bytes = self.expanded_bytes.saturating_add(len.saturating_sub(extent));
            if self.expanded_bytes > self.limits.expanded_bytes {
                return Err(Error::limit("views repeat stored bytes too often")
                    .expected(format!("at most {} bytes more than are stored", self.limits.expanded_bytes))
                    .found(self.expanded_bytes));
            }
            let id = catalog.storage(Storage::encoded(self.handles.len() as u64, len))?;
            self.lazy.insert(lazy.clone(), id);
            self.handles.push(lazy);
            id
        };
        let shape = view.size.clone();
        Ok(Located::At(Location { dtype: row.dtype, shape, start: Some((id, 0)), strides: None }))
    }

    /// The storage, declared when it is first named.
    fn storage(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        named: &PersistentId<'_>,
        tensor: &DtypeInfo,
    ) -> Result<Known> {
        let swap_unit = swap_unit(object, named, tensor)?;
        let record = object.storage(named.key)?;
        let known = match self.known.get(&record.extent) {
            Some(&known) => known,
            None => {
                let Extent { file, offset, len } = record.extent;
                let mut storage = Storage::file(file, offset, len).byte_order(object.byte_order());
                if let Some(crc) = record.crc {
                    storage = storage.digest(Digest::crc32(crc));
                }
                let known = Known { id: catalog.storage(storage)?, record, swap_unit };
                self.known.insert(record.extent, known);
                known
            }
        };
        if named.bytes()? != record.extent.len {
            let error = Error::malformed(format!("storage {:?} has another length than is said", named.key));
            return Err(object
                .at(error, record.extent.offset)
                .expected(format!("{} elements of {} bytes", named.len, named.element_bytes()))
                .found(format!("{} bytes", record.extent.len)));
        }
        if known.swap_unit != swap_unit {
            return Err(ambiguous(named.key));
        }
        Ok(known)
    }
}

/// torch reverses the bytes of a big-endian archive by the dtype of the storage, and does not
/// reverse those of an untyped one: what its writer meant cannot be told.
fn swap_unit(object: &ObjectFile, named: &PersistentId<'_>, tensor: &DtypeInfo) -> Result<u32> {
    if object.byte_order() == ByteOrder::Little {
        return Ok(1);
    }
    let stored = named.dtype.and_then(|row| row.dtype.info()).map_or(1, DtypeInfo::swap_unit);
    if stored == tensor.swap_unit() { Ok(stored) } else { Err(ambiguous(named.key)) }
}

fn ambiguous(key: &str) -> Error {
    Error::unsupported(format!(
        "the archive is big-endian, and storage {key:?} is read by another dtype than its own: which bytes to reverse is not said"
    ))
}

/// How many bytes of the storage a view reaches over, once it is known to end inside.
fn check_inside(view: &View, row: &TorchDtype, storage_len: u64) -> Result<u64> {
    let mut reach = Some(1_u64);
    for (&size, &stride) in view.size.iter().zip(&view.stride) {
        reach = reach.and_then(|reach| reach.checked_add((size - 1).checked_mul(stride)?));
    }
    let width = u64::from(row.element_bytes);
    let bytes = reach.and_then(|reach| reach.checked_mul(width));
    let end = reach.and_then(|reach| reach.checked_add(view.offset)?.checked_mul(width));
    match (bytes, end) {
        (Some(bytes), Some(end)) if end <= storage_len => Ok(bytes),
        _ => Err(Error::malformed("a view reaches past the end of its storage")
            .expected(format!("at most {} elements", storage_len / width))
            .found(format!("size {:?}, stride {:?}, offset {}", view.size, view.stride, view.offset))),
    }
}

/// Whether the elements lie side by side. The stride of a dimension of length 1 is never used.
fn is_row_major(size: &[u64], stride: &[u64]) -> bool {
    let mut plain = 1_u64;
    for (&size, &stride) in size.iter().zip(stride).rev() {
        if size != 1 {
            if stride != plain {
                return false;
            }
            plain = plain.saturating_mul(size);
        }
    }
    true
}
