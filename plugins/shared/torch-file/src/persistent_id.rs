//! A persistent ID is a reference to a storage in a pickle. It contains the key, the class and the
//! number of elements of the storage.

use crate::Extent;
use crate::archive::Record;
use crate::dtype::TorchDtype;
use crate::pickle::{Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

/// The parsed persistent ID of a storage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentId<'g> {
    /// The dtype of the storage; `None` if the storage is untyped.
    pub(crate) dtype: Option<&'static TorchDtype>,
    pub(crate) key: &'g str,
    pub(crate) location: &'g str,
    /// Length of the storage in elements.
    pub(crate) len: u64,
    /// Start and length, in elements, of the used part of the storage. In old files, a storage can
    /// be a view of a part of another storage.
    pub(crate) view: Option<(u64, u64)>,
}

/// The byte range of a storage that is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageRange {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl<'g> PersistentId<'g> {
    /// Parses `("storage", class, key, location, elements)`. In stream files, the tuple has a sixth
    /// item, which is None or `(key of the view, offset, elements)`. If the class is unknown,
    /// returns the reason.
    pub(crate) fn of(graph: &'g Graph, id: ValueId) -> Result<Result<Self, String>> {
        let malformed = || {
            Error::malformed("a persistent ID does not identify a storage")
                .expected("(\"storage\", class, key, location, number of elements)")
        };
        let Some(&[kind, class, key, location, len, ref rest @ ..]) = graph.tuple(id) else {
            return Err(malformed());
        };
        let parts =
            (graph.text(kind), graph.global(class), graph.text(key), graph.text(location), graph.count(len));
        let (Some("storage"), Some(class), Some(key), Some(location), Some(len)) = parts else {
            return Err(malformed());
        };
        let view = match *rest {
            [] => None,
            [view] if *graph.value(view) == Value::None => None,
            [view] => match graph.tuple(view) {
                Some(&[_, offset, len]) => {
                    Some(graph.count(offset).zip(graph.count(len)).ok_or_else(malformed)?)
                }
                _ => return Err(malformed()),
            },
            _ => return Err(malformed()),
        };
        let dtype = match (&*class.module, &*class.name) {
            ("torch" | "torch.storage" | "torch.cuda", "UntypedStorage") => Some(None),
            ("torch" | "torch.cuda", name) => TorchDtype::of_storage_class(name).map(Some),
            _ => None,
        };
        let unknown = || format!("its storage class {} is unknown", class.path());
        Ok(dtype.ok_or_else(unknown).map(|dtype| Self { dtype, key, location, len, view }))
    }

    /// Returns the length of an element in bytes.
    pub(crate) fn element_bytes(&self) -> u64 {
        self.dtype.map_or(1, |row| u64::from(row.element_bytes))
    }

    /// Returns the length of the storage in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.len.checked_mul(self.element_bytes()).ok_or_else(|| {
            Error::malformed(format!("the length of storage {:?} does not fit in 64 bits", self.key))
                .found(format!("{} elements of {} bytes", self.len, self.element_bytes()))
        })
    }

    /// Returns the used part of a storage, given the storage's length in bytes.
    pub(crate) fn part(&self, storage_len: u64) -> Result<StorageRange> {
        let Some((offset, len)) = self.view else { return Ok(StorageRange { offset: 0, len: storage_len }) };
        let in_bytes = |elements: u64| elements.checked_mul(self.element_bytes());
        let part = in_bytes(offset).zip(in_bytes(len)).map(|(offset, len)| StorageRange { offset, len });
        let inside =
            |part: &StorageRange| part.offset.checked_add(part.len).is_some_and(|end| end <= storage_len);
        part.filter(inside).ok_or_else(|| {
            Error::malformed(format!("a view of storage {:?} reaches past its end", self.key))
                .expected(format!("at most {} elements", self.len))
                .found(format!("{len} elements at {offset}"))
        })
    }
}

impl StorageRange {
    /// Returns the part of a record in this byte range. The result contains the CRC only if the
    /// part is the whole record.
    pub(crate) fn of(self, record: Record) -> Record {
        let Extent { file, offset, len } = record.extent;
        if self.len == len {
            return record;
        }
        Record { extent: Extent { file, offset: offset + self.offset, len: self.len }, crc: None }
    }
}
