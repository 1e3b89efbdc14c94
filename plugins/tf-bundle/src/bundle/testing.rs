//! Bundles put together byte by byte, for tests.

use crate::table::testing::table;
use crate::{checksum, slice_key, varint};
use std::collections::BTreeMap;
use tensorferry_proto::tensor_shape_proto::Dim;
use tensorferry_proto::tensor_slice_proto::Extent;
use tensorferry_proto::tensor_slice_proto::extent::HasLength;
use tensorferry_proto::{BundleEntryProto, DataType, Message, TensorShapeProto, TensorSliceProto};
use tensorferry_sdk::{Entry, MemorySource};

/// The header that TensorFlow writes for one little-endian data file.
pub(super) const HEADER: [u8; 6] = [0x08, 0x01, 0x1a, 0x02, 0x08, 0x01];
/// The same for two big-endian ones.
pub(super) const BIG_HEADER: [u8; 8] = [0x08, 0x02, 0x10, 0x01, 0x1a, 0x02, 0x08, 0x01];

/// A bundle under construction, with the prefix `b`.
pub(crate) struct BundleBytes {
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The data files.
    pub(crate) data: Vec<Vec<u8>>,
    /// The number of data files in their names.
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

    /// Adds an entry and its bytes to the data file of a number.
    pub(crate) fn entry(&mut self, key: &[u8], dtype: DataType, shape: &[i64], bytes: &[u8], shard: usize) {
        let crc = crc32c::crc32c(bytes);
        let proto = self.bytes(dtype, shape, bytes, crc, shard);
        self.insert(key, &proto);
    }

    /// Adds an entry as it is.
    pub(crate) fn insert(&mut self, key: &[u8], proto: &BundleEntryProto) {
        self.entries.insert(key.to_vec(), proto.encode_to_vec());
    }

    /// Adds bytes with a gap before them, and gives an entry for them.
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
            crc32c: checksum::mask(crc),
            slices: Vec::new(),
        }
    }

    /// Adds an entry of strings.
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

    /// Adds the entry of a tensor in slices.
    pub(crate) fn sliced(&mut self, key: &[u8], dtype: DataType, shape: &[i64], slices: &[TensorSliceProto]) {
        let proto = BundleEntryProto {
            dtype: dtype.into(),
            shape: Some(shape_proto(shape)),
            slices: slices.to_vec(),
            ..BundleEntryProto::default()
        };
        self.insert(key, &proto);
    }

    /// The files.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries: Vec<(Vec<u8>, Vec<u8>)> = self.entries.clone().into_iter().collect();
        let data = self.data.iter().enumerate();
        let mut files: BTreeMap<String, Vec<u8>> = data
            .map(|(shard, bytes)| (format!("b.data-{shard:05}-of-{:05}", self.count), bytes.clone()))
            .collect();
        files.insert("b.index".to_owned(), table(&entries, 16, 0));
        files
    }

    /// The files, with the index as the entry.
    pub(crate) fn source(&self) -> MemorySource {
        MemorySource::new(Entry::File("b.index".to_owned()), self.files())
    }
}

pub(crate) fn slice_key_of(name: &str, slice: &TensorSliceProto) -> Vec<u8> {
    slice_key::encode(name.as_bytes(), slice)
}

/// A slice of these starts and lengths; a length of -1 is left out.
pub(crate) fn slice(extents: &[(i64, i64)]) -> TensorSliceProto {
    let extent = |&(start, length): &(i64, i64)| Extent {
        start,
        has_length: (length != -1).then_some(HasLength::Length(length)),
    };
    TensorSliceProto { extent: extents.iter().map(extent).collect() }
}

/// An entry's bytes for strings, and their checksum.
pub(crate) fn string_bytes(strings: &[&[u8]], is_big: bool) -> (Vec<u8>, u32) {
    let (mut bytes, mut summed) = (Vec::new(), Vec::new());
    for string in strings {
        varint::push(string.len() as u64, &mut bytes);
        let len = u32::try_from(string.len()).unwrap_or_default();
        summed.extend(if is_big { len.to_be_bytes() } else { len.to_le_bytes() });
    }
    let checksum = checksum::mask(crc32c::crc32c(&summed));
    let checksum = if is_big { checksum.to_be_bytes() } else { checksum.to_le_bytes() };
    for place in [&mut bytes, &mut summed] {
        place.extend(checksum);
        strings.iter().for_each(|string| place.extend(*string));
    }
    (bytes, crc32c::crc32c(&summed))
}

fn shape_proto(shape: &[i64]) -> TensorShapeProto {
    let dim = shape.iter().map(|&size| Dim { size, name: String::new() }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}
