//! The index of a bundle in memory: its header and its entries.

use super::INDEX_SUFFIX;
use super::entry::{BundleEntry, DataRange};
use super::shards::Shards;
use crate::slice_key;
use crate::table::Table;
use std::collections::{BTreeMap, HashSet};
use tensorferry_proto::bundle_header_proto::Endianness;
use tensorferry_proto::{BundleEntryProto, BundleHeaderProto, Message, masked_crc};
use tensorferry_sdk::{ByteOrder, Context, Error, FileId, Limits, Result, Source, check_range};

/// The supported version of the format.
const VERSION: i32 = 1;
/// Maximum ratio between the size of a decoded message in memory and its encoded size. An empty
/// slice takes two bytes when encoded, and 24 bytes in memory.
const MESSAGE_GROWTH: u64 = 16;
/// Number of entries between two checks for cancellation.
const ENTRIES_PER_CHECK: usize = 4096;

/// An index with its opened data files.
#[derive(Debug)]
pub(crate) struct BundleIndex {
    pub(crate) prefix: String,
    /// The index entries sorted by key, without the header and the entries of slices.
    pub(crate) entries: Vec<BundleEntry>,
    /// The entries of slices, sorted by slice key.
    slices: Vec<BundleEntry>,
    byte_order: ByteOrder,
    shards: Shards,
}

impl BundleIndex {
    /// Reads `<prefix>.index` and opens the data files that its entries refer to.
    pub(crate) fn read(source: &dyn Source, prefix: &str, context: &dyn Context) -> Result<Self> {
        let name = format!("{prefix}{INDEX_SUFFIX}");
        let file = source.open(&name)?;
        let contents = Contents::read(source, file, context)?;
        let header = contents.header.ok_or_else(|| {
            Error::malformed("the index of the bundle is empty and has no header").file(&*name)
        })?;
        let byte_order = byte_order(&header).map_err(|error| error.file(&*name))?;
        let used = data_files_used(&contents.entries, &contents.slices);
        let shards =
            Shards::open(source, prefix, header.num_shards, &used).map_err(|error| error.file(&*name))?;
        let Contents { entries, slices, .. } = contents;
        Ok(Self { prefix: prefix.to_owned(), entries, slices, byte_order, shards })
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<&BundleEntry> {
        find(&self.entries, key)
    }

    /// Returns the byte order of numbers in the data files.
    pub(crate) fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Returns the stored slices that no entry lists. The bytes of these slices do not belong to
    /// any tensor. Each returned string contains the tensor name and the range of a slice.
    pub(crate) fn unnamed_slices(&self) -> Vec<String> {
        if self.slices.is_empty() {
            return Vec::new();
        }
        let named: HashSet<Vec<u8>> = self
            .entries
            .iter()
            .flat_map(|entry| entry.proto.slices.iter().map(|slice| slice_key::encode(&entry.key, slice)))
            .collect();
        let unnamed = self.slices.iter().filter(|slice| !named.contains(&slice.key));
        unnamed.map(|slice| slice_key::describe(&slice.key)).collect()
    }

    /// Returns the total length of the data files that entries refer to.
    pub(super) fn data_bytes(&self, source: &dyn Source) -> u64 {
        self.shards.files().map(|file| source.len(file)).fold(0, u64::saturating_add)
    }

    /// Returns the entry of the slice with this key.
    pub(super) fn slice(&self, key: &[u8]) -> Option<&BundleEntryProto> {
        find(&self.slices, key).map(|entry| &entry.proto)
    }

    /// Returns the range of an entry's bytes after checking that the range is within the data file.
    pub(crate) fn data(&self, source: &dyn Source, proto: &BundleEntryProto) -> Result<DataRange> {
        let (Ok(offset), Ok(len)) = (u64::try_from(proto.offset), u64::try_from(proto.size)) else {
            return Err(Error::malformed("the offset or size of an entry is negative")
                .file(format!("{}{INDEX_SUFFIX}", self.prefix))
                .found(format!("offset {}, size {}", proto.offset, proto.size)));
        };
        let file = self.shards.file(proto.shard_id).ok_or_else(|| {
            Error::malformed("the entry has no bytes, although its tensor is not empty")
                .file(format!("{}{INDEX_SUFFIX}", self.prefix))
        })?;
        check_range(source.name(file), source.len(file), offset, len)?;
        Ok(DataRange { file, offset, len, crc: masked_crc::unmask(proto.crc32c) })
    }
}

fn find<'a>(entries: &'a [BundleEntry], key: &[u8]) -> Option<&'a BundleEntry> {
    let at = entries.binary_search_by(|entry| entry.key.as_slice().cmp(key)).ok()?;
    entries.get(at)
}

/// The contents of the table, in table order.
#[derive(Default)]
struct Contents {
    header: Option<BundleHeaderProto>,
    entries: Vec<BundleEntry>,
    slices: Vec<BundleEntry>,
    held_bytes: u64,
}

impl Contents {
    fn read(source: &dyn Source, file: FileId, context: &dyn Context) -> Result<Self> {
        let table = Table::open(source, file, context.limits())?;
        let mut contents = Self::default();
        table.for_each(source, &mut |key, value, _place| contents.take(key, value, context))?;
        Ok(contents)
    }

    fn take(&mut self, key: &[u8], value: &[u8], context: &dyn Context) -> Result<()> {
        if self.header.is_none() {
            if !key.is_empty() {
                return Err(Error::malformed("the index of the bundle does not begin with its header"));
            }
            self.header = Some(read_header(value)?);
            return Ok(());
        }
        self.count_bytes(key, value, context.limits())?;
        let proto = BundleEntryProto::decode(value)
            .map_err(|error| Error::malformed(format!("invalid bundle entry: {error}")))?;
        let is_slice = slice_key::decode(key).is_some();
        let (place, max) = if is_slice {
            (&mut self.slices, context.limits().entries)
        } else {
            (&mut self.entries, context.limits().tensors)
        };
        if place.len() as u64 >= max {
            return Err(Error::limit("too many entries in the bundle").expected(format!("at most {max}")));
        }
        if place.len().is_multiple_of(ENTRIES_PER_CHECK) {
            context.check_cancelled()?;
        }
        place.push(BundleEntry { key: key.to_vec(), proto });
        Ok(())
    }

    /// Adds an entry's memory use to the total, and returns an error if the total exceeds the
    /// limit. The size of the index file does not bound this total: keys share bytes in the table,
    /// and messages grow when they are decoded.
    fn count_bytes(&mut self, key: &[u8], value: &[u8], limits: &Limits) -> Result<()> {
        let max = limits.header_bytes;
        self.held_bytes = self.held_bytes.saturating_add((key.len() + value.len()) as u64);
        if self.held_bytes > max || value.len() as u64 > max / MESSAGE_GROWTH {
            return Err(Error::limit("the entries of the bundle are too long to hold in memory")
                .hint("raise the limit with --limit header_bytes=N")
                .expected(format!("at most {max} bytes, and {} per entry", max / MESSAGE_GROWTH))
                .found(format!("{}, and {}", self.held_bytes, value.len())));
        }
        Ok(())
    }
}

fn read_header(value: &[u8]) -> Result<BundleHeaderProto> {
    let header = BundleHeaderProto::decode(value)
        .map_err(|error| Error::malformed(format!("invalid bundle header: {error}")))?;
    let version = header.version.clone().unwrap_or_default();
    if version.min_consumer > VERSION || version.bad_consumers.contains(&VERSION) {
        return Err(Error::unsupported("the bundle needs a newer version of the format")
            .expected(format!("version {VERSION}"))
            .found(format!("{} or newer, written by {}", version.min_consumer, version.producer)));
    }
    Ok(header)
}

fn byte_order(header: &BundleHeaderProto) -> Result<ByteOrder> {
    match Endianness::try_from(header.endianness) {
        Ok(Endianness::Little) => Ok(ByteOrder::Little),
        Ok(Endianness::Big) => Ok(ByteOrder::Big),
        Err(_) => Err(Error::malformed("the bundle header has an invalid byte order")
            .expected("0 (little) or 1 (big)")
            .found(header.endianness)),
    }
}

/// Returns the numbers of the data files that entries refer to, each with the name of one such
/// entry.
fn data_files_used(entries: &[BundleEntry], slices: &[BundleEntry]) -> BTreeMap<i32, String> {
    let mut used = BTreeMap::new();
    let whole = entries.iter().filter(|entry| !entry.is_sliced());
    for entry in whole.chain(slices).filter(|entry| entry.proto.size > 0) {
        used.entry(entry.proto.shard_id).or_insert_with(|| slice_key::describe(&entry.key));
    }
    used
}
