//! A storage is one record `data/<key>` of an archive. A tensor's persistent id names it, and says
//! how many elements of which class it holds; here that is held against the record, and views
//! become tensors of the catalog.

use crate::archive::{Archive, Record};
use crate::dtype::TorchDtype;
use crate::lazy::LazyView;
use crate::pickle::{Graph, ValueId};
use crate::rebuild::View;
use std::collections::HashMap;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogSink, Digest, Dtype, DtypeInfo, Error, Limits, Region, Result, Storage,
    StorageId, TensorId, element_count,
};

/// What became of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    Tensor(TensorId),
    /// It cannot be carried; why.
    Lost(String),
}

/// The storages of an archive, as its pickle names them.
pub(crate) struct Storages<'a> {
    archive: &'a Archive,
    byte_order: ByteOrder,
    limits: &'a Limits,
    /// By the record's place in the directory.
    known: Vec<Option<Known>>,
    record_name: String,
    /// Views whose bytes have to be made, each once: so that tied ones stay tied.
    lazy: HashMap<LazyView, StorageId>,
    handles: Vec<LazyView>,
    expanded_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    id: StorageId,
    record: Record,
    /// The bytes that are reversed together, if the archive is big-endian.
    swap_unit: u32,
}

/// A persistent id, taken apart.
struct Named<'g> {
    /// `None`: an untyped storage.
    dtype: Option<&'static TorchDtype>,
    key: &'g str,
    location: &'g str,
    len: u64,
}

impl<'a> Storages<'a> {
    pub(crate) fn new(archive: &'a Archive, byte_order: ByteOrder, limits: &'a Limits) -> Self {
        Self {
            archive,
            byte_order,
            limits,
            known: vec![None; archive.len()],
            record_name: String::new(),
            lazy: HashMap::new(),
            handles: Vec::new(),
            expanded_bytes: 0,
        }
    }

    /// The views that a decoder has to make, by handle.
    pub(crate) fn into_lazy_views(self) -> Vec<LazyView> {
        self.handles
    }

    /// Puts a view into the catalog.
    ///
    /// # Errors
    /// Malformed: a storage that is not there or has another length, a view that leaves it.
    pub(crate) fn place(
        &mut self,
        catalog: &mut dyn CatalogSink,
        graph: &Graph,
        name: &str,
        view: &View,
    ) -> Result<Placed> {
        let named = match persistent_id(graph, view.storage)? {
            Ok(named) => named,
            Err(why) => return Ok(Placed::Lost(why)),
        };
        if named.location == "meta" {
            return Ok(Placed::Lost("it is on the meta device, and has no data".to_owned()));
        }
        let row = view.dtype.or(named.dtype).or_else(|| TorchDtype::of(Dtype::U8));
        let Some(row) = row.filter(|row| !row.quantized) else {
            return Ok(Placed::Lost("a quantized tensor without its scales".to_owned()));
        };
        let Some(info) = row.dtype.info() else {
            return Ok(Placed::Lost(format!("its dtype {} is not known", row.name)));
        };
        let storage = self.storage(catalog, &named, info)?;
        let shape = row
            .logical_shape(&view.size)
            .ok_or_else(|| Error::malformed("a shape that does not fit 64 bits"))?;
        if element_count(&shape)? == 0 {
            return catalog.tensor_of_blocks(name, row.dtype, &shape, Vec::new()).map(Placed::Tensor);
        }
        let extent = check_inside(view, row, storage.record.len)?;
        if view.conjugate || view.negative {
            return self.place_lazy(catalog, name, view, row, storage, extent);
        }
        let offset = view.offset * u64::from(row.element_bytes);
        if is_row_major(&view.size, &view.stride) {
            return catalog.tensor(name, row.dtype, &shape, storage.id, offset).map(Placed::Tensor);
        }
        if info.element_bytes().is_none() {
            return Ok(Placed::Lost(format!("a strided view of packed {}", info.name())));
        }
        let strides = view.stride.iter().map(|&stride| i64::try_from(stride).unwrap_or(i64::MAX)).collect();
        let block = Block { region: Region::whole(&shape), storage: storage.id, offset, strides };
        catalog.tensor_of_blocks(name, row.dtype, &shape, vec![block]).map(Placed::Tensor)
    }

    fn place_lazy(
        &mut self,
        catalog: &mut dyn CatalogSink,
        name: &str,
        view: &View,
        row: &'static TorchDtype,
        storage: Known,
        extent: u64,
    ) -> Result<Placed> {
        let lazy = LazyView {
            record: storage.record,
            file: self.archive.file(),
            byte_order: self.byte_order,
            dtype: row.dtype,
            offset: view.offset,
            size: view.size.clone(),
            stride: view.stride.clone(),
            conjugate: view.conjugate,
            negative: view.negative,
        };
        let len = match lazy.check() {
            Ok(len) => len,
            Err(why) => return Ok(Placed::Lost(why)),
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
        catalog.tensor(name, row.dtype, &view.size, id, 0).map(Placed::Tensor)
    }

    /// The storage, declared when it is first named.
    fn storage(
        &mut self,
        catalog: &mut dyn CatalogSink,
        named: &Named<'_>,
        tensor: &DtypeInfo,
    ) -> Result<Known> {
        let element_bytes = named.dtype.map_or(1, |row| u64::from(row.element_bytes));
        let swap_unit = self.swap_unit(named, tensor)?;
        self.record_name.clear();
        self.record_name.extend(["data/", named.key]);
        let record = self.archive.need(&self.record_name)?;
        let known = match self.known[record.entry] {
            Some(known) => known,
            None => {
                let mut storage =
                    Storage::file(self.archive.file(), record.offset, record.len).byte_order(self.byte_order);
                if let Some(crc) = record.crc {
                    storage = storage.digest(Digest::crc32(crc));
                }
                let known = Known { id: catalog.storage(storage)?, record, swap_unit };
                self.known[record.entry] = Some(known);
                known
            }
        };
        if named.len.checked_mul(element_bytes) != Some(known.record.len) {
            let error = Error::malformed(format!(
                "record \"data/{}\" has another length than its storage",
                named.key
            ));
            return Err(self
                .archive
                .at(error, known.record.offset)
                .expected(format!("{} elements of {element_bytes} bytes", named.len))
                .found(format!("{} bytes", known.record.len)));
        }
        if known.swap_unit != swap_unit {
            return Err(ambiguous(named.key));
        }
        Ok(known)
    }

    /// torch reverses the bytes of a big-endian archive by the dtype of the storage, and does not
    /// reverse those of an untyped one: what its writer meant cannot be told.
    fn swap_unit(&self, named: &Named<'_>, tensor: &DtypeInfo) -> Result<u32> {
        if self.byte_order == ByteOrder::Little {
            return Ok(1);
        }
        let stored = named.dtype.and_then(|row| row.dtype.info()).map_or(1, DtypeInfo::swap_unit);
        if stored == tensor.swap_unit() { Ok(stored) } else { Err(ambiguous(named.key)) }
    }
}

fn ambiguous(key: &str) -> Error {
    Error::unsupported(format!(
        "the archive is big-endian, and storage {key:?} is read by another dtype than its own: which bytes to reverse is not said"
    ))
}

/// `("storage", class, key, location, elements)`; a reason, if the class is not known.
fn persistent_id(graph: &Graph, id: ValueId) -> Result<Result<Named<'_>, String>> {
    let malformed = || {
        Error::malformed("a persistent id is not that of a storage")
            .expected("(\"storage\", class, key, location, number of elements)")
    };
    let Some(&[kind, class, key, location, len]) = graph.tuple(id) else { return Err(malformed()) };
    let parts =
        (graph.text(kind), graph.global(class), graph.text(key), graph.text(location), graph.int(len));
    let (Some("storage"), Some(class), Some(key), Some(location), Some(len)) = parts else {
        return Err(malformed());
    };
    let len = u64::try_from(len).map_err(|_| malformed().found(format!("{len} elements")))?;
    let dtype = match (&*class.module, &*class.name) {
        ("torch" | "torch.storage" | "torch.cuda", "UntypedStorage") => None,
        ("torch" | "torch.cuda", name) => match TorchDtype::of_storage_class(name) {
            Some(row) => Some(row),
            None => return Ok(Err(format!("its storage class {} is not known", class.path()))),
        },
        _ => return Ok(Err(format!("its storage class {} is not known", class.path()))),
    };
    Ok(Ok(Named { dtype, key, location, len }))
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
