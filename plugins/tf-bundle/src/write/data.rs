//! Lays out the data files of a bundle.
//!
//! Numeric tensors are stored sorted by key, in row-major order and little-endian. The host copies
//! numbers and the bytes of other bundles, and computes checksums while copying. String tensors
//! have a special encoding. Up to [`MAX_TEXT_BYTES`] of strings are encoded during planning. All
//! other string tensors are stored in an additional data file, which is the last one.

use super::entry::{CopiedBytes, Entry, EntryData};
use super::files::Prefix;
use super::shards::split;
use super::strings;
use super::strings_file::StringsFile;
use crate::options::Sharding;
use std::collections::{HashMap, HashSet};
use tensorferry_proto::DataType;
use tensorferry_sdk::{
    CatalogView, DigestAlgorithm, DigestId, LayoutSink, OutputId, Result, Role, TensorId, TensorPart,
    element_count,
};

/// Maximum total size of the strings in memory for all tensors, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// The data files of a bundle after layout.
pub(super) struct DataFiles {
    /// The number of data files.
    pub(super) count: usize,
    /// The entries of the data files, in key order.
    pub(super) entries: Vec<PositionedEntry>,
    /// The last data file, which contains the string tensors that are too long to keep in memory.
    pub(super) strings: StringsFile,
}

/// An entry with the position of its bytes.
pub(super) struct PositionedEntry {
    pub(super) key: Vec<u8>,
    pub(super) dtype: i32,
    pub(super) shape: Vec<u64>,
    pub(super) place: DataPosition,
}

/// The position of an entry's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataPosition {
    /// The entry has no bytes.
    Empty,
    /// The bytes are in a data file that the host copies.
    Copied { shard: usize, offset: u64, len: u64, crc: Crc },
    /// The bytes are in the strings file, as the tensor with this number.
    Strings(usize),
}

/// An unmasked checksum of an entry's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crc {
    Known(u32),
    Pending(DigestId),
    /// The checksum that the source contains, and the digest of the copied bytes, which must match
    /// it.
    Expected {
        crc: u32,
        digest: DigestId,
    },
}

/// Lays out the bytes of entries in data files with this prefix. The entries must be sorted by key.
pub(super) fn lay_out(
    entries: Vec<Entry>,
    prefix: &Prefix,
    sharding: Sharding,
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<DataFiles> {
    let mut segments = DataSegments::new(catalog);
    let mut of_entries = Vec::with_capacity(entries.len());
    for entry in &entries {
        of_entries.push(segments.of(entry, layout)?);
    }
    let segments = segments.all;

    let (strings, copied): (Vec<usize>, Vec<usize>) =
        (0..segments.len()).partition(|&number| matches!(segments[number], DataSegment::Strings(_)));
    let lengths: Vec<u64> = copied.iter().map(|&number| segments[number].copied_len(catalog)).collect();
    let runs = split(&lengths, sharding);
    let count = (runs.len() + usize::from(!strings.is_empty())).max(1);
    let path = |shard: usize| prefix.data_file(shard, count);

    let mut places = vec![DataPosition::Empty; segments.len()];
    for (shard, run) in runs.into_iter().enumerate() {
        let file = layout.file(&path(shard), Role::Data)?;
        for &number in &copied[run] {
            places[number] = segments[number].copy_into(file, shard, catalog, layout)?;
        }
    }
    let mut tensors = Vec::with_capacity(strings.len());
    for &number in &strings {
        if let DataSegment::Strings(tensor) = segments[number] {
            places[number] = DataPosition::Strings(tensors.len());
            tensors.push(tensor);
        }
    }
    let strings = if !tensors.is_empty() {
        StringsFile::plan(&path(count - 1), count - 1, tensors, layout)?
    } else {
        if segments.is_empty() {
            layout.file(&path(0), Role::Data)?;
        }
        StringsFile::default()
    };
    let entries = entries.into_iter().zip(of_entries).map(|(entry, segment)| PositionedEntry {
        key: entry.key,
        dtype: entry.dtype,
        shape: entry.shape,
        place: segment.map_or(DataPosition::Empty, |number| places[number]),
    });
    Ok(DataFiles { count, entries: entries.collect(), strings })
}

/// Contiguous bytes that belong to one or more entries.
enum DataSegment {
    /// A tensor that the host copies.
    Tensor(TensorId),
    /// Encoded strings that are in memory.
    Encoded { bytes: Vec<u8>, crc: u32 },
    /// A string tensor that is encoded into the strings file.
    Strings(TensorId),
    /// Bytes that are copied from another bundle.
    Copied(CopiedBytes),
}

impl DataSegment {
    fn copied_len(&self, catalog: &dyn CatalogView) -> u64 {
        match self {
            Self::Tensor(tensor) => catalog.tensor(*tensor).bytes,
            Self::Encoded { bytes, .. } => bytes.len() as u64,
            Self::Copied(CopiedBytes { from, .. }) => from.range.end - from.range.start,
            Self::Strings(_) => 0,
        }
    }

    fn copy_into(
        &self,
        file: OutputId,
        shard: usize,
        catalog: &dyn CatalogView,
        layout: &mut dyn LayoutSink,
    ) -> Result<DataPosition> {
        let len = self.copied_len(catalog);
        let digest = |layout: &mut dyn LayoutSink, offset: u64| {
            layout.digest(file, offset..offset + len, DigestAlgorithm::CRC32C)
        };
        let (offset, crc) = match self {
            Self::Tensor(tensor) => {
                let offset = layout.tensor(file, TensorPart::whole(*tensor))?;
                (offset, Crc::Pending(digest(layout, offset)?))
            }
            &Self::Copied(CopiedBytes { ref from, crc, is_of_bytes }) => {
                let offset = layout.copy(file, from.clone())?;
                let digest = is_of_bytes.then(|| digest(layout, offset)).transpose()?;
                (offset, digest.map_or(Crc::Known(crc), |digest| Crc::Expected { crc, digest }))
            }
            Self::Encoded { bytes, crc } => (layout.bytes(file, bytes)?, Crc::Known(*crc)),
            Self::Strings(_) => return Ok(DataPosition::Empty),
        };
        Ok(DataPosition::Copied { shard, offset, len, crc })
    }
}

/// Assigns each entry to a segment. Tied tensors share a segment.
struct DataSegments<'a> {
    catalog: &'a dyn CatalogView,
    all: Vec<DataSegment>,
    /// The segment number and the written tensor for each tensor to which other tensors are tied.
    of_tied: HashMap<TensorId, (usize, TensorId)>,
    aliases: HashSet<TensorId>,
    text_bytes: u64,
}

impl<'a> DataSegments<'a> {
    fn new(catalog: &'a dyn CatalogView) -> Self {
        Self { catalog, all: Vec::new(), of_tied: HashMap::new(), aliases: HashSet::new(), text_bytes: 0 }
    }

    fn push(&mut self, segment: DataSegment) -> usize {
        self.all.push(segment);
        self.all.len() - 1
    }

    /// Returns the number of an entry's segment, or `None` if the entry has no bytes.
    fn of(&mut self, entry: &Entry, layout: &mut dyn LayoutSink) -> Result<Option<usize>> {
        let tensor = match &entry.value {
            EntryData::Tensor(tensor) => *tensor,
            EntryData::Nothing => return Ok(None),
            EntryData::Copied(copied) => return Ok(Some(self.push(DataSegment::Copied(copied.clone())))),
            EntryData::Text(text) => {
                let mut bytes = Vec::new();
                let crc = strings::write_scalar(text, &mut bytes)?.crc;
                return Ok(Some(self.push(DataSegment::Encoded { bytes, crc })));
            }
        };
        let is_text = entry.dtype == i32::from(DataType::DtString);
        if self.catalog.tensor(tensor).bytes == 0 {
            return is_text.then(|| self.no_strings()).transpose();
        }
        let root = self.catalog.tied_to(tensor);
        if let Some(&(number, written)) = self.of_tied.get(&root) {
            if tensor != written && self.aliases.insert(tensor) {
                layout.alias(tensor, written)?;
            }
            return Ok(Some(number));
        }
        let segment = if is_text { self.strings(tensor, layout)? } else { DataSegment::Tensor(tensor) };
        let number = self.push(segment);
        self.of_tied.insert(root, (number, tensor));
        Ok(Some(number))
    }

    /// Returns the segment of a string tensor. Strings are encoded in memory until the total size
    /// for all tensors reaches the limit.
    fn strings(&mut self, tensor: TensorId, layout: &mut dyn LayoutSink) -> Result<DataSegment> {
        let view = self.catalog.tensor(tensor);
        self.text_bytes = self.text_bytes.saturating_add(view.bytes);
        if self.text_bytes > MAX_TEXT_BYTES {
            return Ok(DataSegment::Strings(tensor));
        }
        layout.written_in_bytes(tensor)?;
        let mut bytes = Vec::new();
        let read = |offset: u64, buffer: &mut [u8]| self.catalog.read(tensor, offset, buffer);
        let crc = strings::write(element_count(view.shape)?, view.bytes, &read, &mut bytes)?.crc;
        Ok(DataSegment::Encoded { bytes, crc })
    }

    /// Returns the segment of a string tensor without elements. The stored form of such a tensor
    /// still contains a checksum.
    fn no_strings(&mut self) -> Result<usize> {
        let mut bytes = Vec::new();
        let crc = strings::write(0, 0, &|_, _| Ok(()), &mut bytes)?.crc;
        Ok(self.push(DataSegment::Encoded { bytes, crc }))
    }
}
