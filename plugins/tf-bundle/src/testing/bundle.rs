//! Builds bundles byte by byte for tests.

use super::{Files, file, shape as shape_proto, table};
use std::collections::BTreeMap;
use tensorferry_proto::wire::put_varint;
use tensorferry_proto::{BundleEntryProto, DataType, Message, TensorSliceProto, masked_crc};
use tensorferry_sdk::MemorySource;

/// TensorFlow's header for one little-endian data file.
pub(crate) const HEADER: [u8; 6] = [0x08, 0x01, 0x1a, 0x02, 0x08, 0x01];
/// TensorFlow's header for two big-endian data files.
pub(crate) const BIG_HEADER: [u8; 8] = [0x08, 0x02, 0x10, 0x01, 0x1a, 0x02, 0x08, 0x01];

/// A bundle under construction.
pub(crate) struct BundleBytes {
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The contents of the data files.
    pub(crate) data: Vec<Vec<u8>>,
    /// The total number of data files that the file names contain.
    pub(crate) count: usize,
}

impl Default for BundleBytes {
    fn default() -> Self {
        Self::new(&HEADER, 1)
    }
}

impl BundleBytes {
    pub(crate) fn new(header: &[u8], count: usize) -> Self {
        Self {
            entries: BTreeMap::from([(Vec::new(), header.to_vec())]),
            data: vec![Vec::new(); count],
            count,
        }
    }

    /// Adds an entry to the index, and its bytes to a data file.
    pub(crate) fn entry(&mut self, key: &[u8], dtype: DataType, shape: &[i64], bytes: &[u8], shard: usize) {
        let crc = crc32c::crc32c(bytes);
        let proto = self.bytes(dtype, shape, bytes, crc, shard);
        self.insert(key, &proto);
    }

    /// Adds an entry without changes.
    pub(crate) fn insert(&mut self, key: &[u8], proto: &BundleEntryProto) {
        self.entries.insert(key.to_vec(), proto.encode_to_vec());
    }

    /// Adds bytes to a data file after a gap, and returns an entry for them.
    pub(crate) fn bytes(
        &mut self,
        dtype: DataType,
        shape: &[i64],
        bytes: &[u8],
        crc: u32,
        shard: usize,
    ) -> BundleEntryProto {
        let data = &mut self.data[shard];
        data.extend([0xee; 3]);
        let offset = data.len() as i64;
        data.extend(bytes);
        BundleEntryProto {
            dtype: dtype.into(),
            shape: Some(shape_proto(shape)),
            shard_id: i32::try_from(shard).unwrap_or_default(),
            offset,
            size: bytes.len() as i64,
            crc32c: masked_crc::mask(crc),
            slices: Vec::new(),
        }
    }

    /// Adds an entry that contains strings.
    pub(crate) fn strings(
        &mut self,
        key: &[u8],
        shape: &[i64],
        strings: &[&[u8]],
        is_big: bool,
        shard: usize,
    ) {
        let (bytes, crc) = string_bytes(strings, is_big);
        let proto = self.bytes(DataType::DtString, shape, &bytes, crc, shard);
        self.insert(key, &proto);
    }

    /// Adds the entry of a sliced tensor.
    pub(crate) fn sliced(&mut self, key: &[u8], dtype: DataType, shape: &[i64], slices: &[TensorSliceProto]) {
        let proto = BundleEntryProto {
            dtype: dtype.into(),
            shape: Some(shape_proto(shape)),
            slices: slices.to_vec(),
            ..BundleEntryProto::default()
        };
        self.insert(key, &proto);
    }

    /// Returns the files of the bundle, with `prefix` in their names.
    pub(crate) fn files(&self, prefix: &str) -> Files {
        let entries: Vec<(Vec<u8>, Vec<u8>)> = self.entries.clone().into_iter().collect();
        let name = |shard: usize| format!("{prefix}.data-{shard:05}-of-{:05}", self.count);
        let mut files: Files =
            self.data.iter().enumerate().map(|(shard, bytes)| (name(shard), bytes.clone())).collect();
        files.insert(format!("{prefix}.index"), table(&entries, 16, 0));
        files
    }

    /// Returns a source with the files of the bundle `b`. The source's entry is the index file.
    pub(crate) fn source(&self) -> MemorySource {
        MemorySource::new(file("b.index"), self.files("b"))
    }
}

/// Returns the bytes of an entry that contains strings, and their checksum.
pub(crate) fn string_bytes(strings: &[&[u8]], is_big: bool) -> (Vec<u8>, u32) {
    let (mut bytes, mut summed) = (Vec::new(), Vec::new());
    for string in strings {
        put_varint(&mut bytes, string.len() as u64);
        let len = u32::try_from(string.len()).unwrap_or_default();
        summed.extend(if is_big { len.to_be_bytes() } else { len.to_le_bytes() });
    }
    let checksum = masked_crc::mask(crc32c::crc32c(&summed));
    let checksum = if is_big { checksum.to_be_bytes() } else { checksum.to_le_bytes() };
    for place in [&mut bytes, &mut summed] {
        place.extend(checksum);
        strings.iter().for_each(|string| place.extend(*string));
    }
    (bytes, crc32c::crc32c(&summed))
}
