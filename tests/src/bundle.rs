//! TensorFlow checkpoints that are built by hand, without ferry's own message types. A checkpoint
//! has an index (a [`table`]) and data files, and can contain anything that TensorFlow's own
//! writers rarely or never write.
//!
//! In the index, the value of the key `""` is the header, and every other key is a tensor or a
//! slice of a tensor. The format is defined by
//! `tensorflow/core/util/tensor_bundle/tensor_bundle.cc` and `core/protobuf/tensor_bundle.proto`.

use crate::fixtures::Facts;
use crate::table::{self, Style, mask, masked_crc};
use crate::wire::{Wire, varint};
use std::collections::BTreeMap;
use std::path::Path;
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_test_kit::random::Random;

/// A numeric dtype of TensorFlow.
#[derive(Debug, Clone, Copy)]
pub struct Numeric {
    /// The dtype's name in ferry.
    pub name: &'static str,
    /// The dtype's number in TensorFlow's `DataType`.
    pub number: i64,
    /// Number of bytes per element.
    pub width: usize,
    /// Number of bytes that are reversed as a unit in big-endian data.
    pub unit: usize,
}

impl Numeric {
    /// Returns a mask of the bits of a byte that an element uses. Types smaller than a byte do not
    /// use all bits.
    fn mask(self) -> u8 {
        match self.name {
            "BOOL" => 0x01,
            "I2_UNPACKED" | "U2_UNPACKED" => 0x03,
            "I4_UNPACKED" | "U4_UNPACKED" | "F4_UNPACKED" => 0x0f,
            _ => 0xff,
        }
    }
}

const fn numeric(name: &'static str, number: i64, width: usize) -> Numeric {
    Numeric { name, number, width, unit: width }
}

/// All numeric dtypes.
pub(crate) const NUMERIC: [Numeric; 30] = [
    numeric("F32", 1, 4),
    numeric("F64", 2, 8),
    numeric("I32", 3, 4),
    numeric("U8", 4, 1),
    numeric("I16", 5, 2),
    numeric("I8", 6, 1),
    Numeric { name: "C64", number: 8, width: 8, unit: 4 },
    numeric("I64", 9, 8),
    numeric("BOOL", 10, 1),
    numeric("QI8", 11, 1),
    numeric("QU8", 12, 1),
    numeric("QI32", 13, 4),
    numeric("BF16", 14, 2),
    numeric("QI16", 15, 2),
    numeric("QU16", 16, 2),
    numeric("U16", 17, 2),
    Numeric { name: "C128", number: 18, width: 16, unit: 8 },
    numeric("F16", 19, 2),
    numeric("U32", 22, 4),
    numeric("U64", 23, 8),
    numeric("F8_E5M2", 24, 1),
    numeric("F8_E4M3", 25, 1),
    numeric("F8_E4M3FNUZ", 26, 1),
    numeric("F8_E4M3B11FNUZ", 27, 1),
    numeric("F8_E5M2FNUZ", 28, 1),
    numeric("I4_UNPACKED", 29, 1),
    numeric("U4_UNPACKED", 30, 1),
    numeric("I2_UNPACKED", 31, 1),
    numeric("U2_UNPACKED", 32, 1),
    numeric("F4_UNPACKED", 33, 1),
];
/// The number of the string dtype in TensorFlow's `DataType`.
pub(crate) const STRING: i64 = 7;

/// Returns the dtype with this name.
pub fn dtype(name: &str) -> Numeric {
    *NUMERIC.iter().find(|dtype| dtype.name == name).unwrap_or_else(|| panic!("no dtype {name}"))
}

/// A hyper-rectangle. For each dimension, it contains the start and length, or `None` for the whole
/// dimension.
pub type Slice = Vec<Option<(i64, i64)>>;

/// The index entry of a tensor.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// The number of the dtype in TensorFlow's `DataType`.
    pub dtype: i64,
    pub shape: Vec<i64>,
    /// The number of the data file.
    pub shard: i64,
    /// The offset in the data file.
    pub offset: i64,
    /// The length in bytes.
    pub size: i64,
    /// The masked checksum, as it is stored in the entry.
    pub masked_crc: u32,
    /// The slices of the tensor. Each slice also has its own entry.
    pub slices: Vec<Slice>,
}

impl Entry {
    /// Returns the entry as a `BundleEntryProto`.
    pub fn wire(&self) -> Vec<u8> {
        let dims = self.shape.iter().map(|&size| Wire::new().int(1, size));
        let shape = dims.fold(Wire::new(), |shape, dim| shape.message(2, &dim));
        let mut entry = Wire::new().int(1, self.dtype).message(2, &shape);
        for (number, value) in [(3, self.shard), (4, self.offset), (5, self.size)] {
            if value != 0 {
                entry = entry.int(number, value);
            }
        }
        if self.masked_crc != 0 {
            entry = entry.fixed32(6, self.masked_crc);
        }
        for slice in &self.slices {
            entry = entry.message(7, &slice_wire(slice));
        }
        entry.0
    }
}

/// Returns a `TensorSliceProto`. An extent without a length represents the whole dimension.
fn slice_wire(slice: &Slice) -> Wire {
    slice.iter().fold(Wire::new(), |wire, extent| {
        let extent = extent.map_or_else(Wire::new, |(start, len)| {
            let extent = if start == 0 { Wire::new() } else { Wire::new().int(1, start) };
            extent.int(2, len)
        });
        wire.message(1, &extent)
    })
}

/// Returns the key of a slice's entry. The key is the one that TensorFlow's `EncodeTensorNameSlice`
/// creates with the ordered code in `core/lib/strings/ordered_code.cc`.
pub fn slice_key(name: &[u8], slice: &Slice) -> Vec<u8> {
    let mut key = vec![0];
    for &byte in name {
        match byte {
            0x00 => key.extend([0x00, 0xff]),
            0xff => key.extend([0xff, 0x00]),
            _ => key.push(byte),
        }
    }
    key.extend([0x00, 0x01]);
    let rank = (slice.len() as u64).to_be_bytes();
    let rank = &rank[rank.iter().take_while(|&&byte| byte == 0).count()..];
    key.push(rank.len().to_le_bytes()[0]);
    key.extend(rank);
    for extent in slice {
        let (start, len) = extent.unwrap_or((0, -1));
        key.extend(ordered_signed(start));
        key.extend(ordered_signed(len));
    }
    key
}

/// Encodes a signed number so that encoded numbers sort in numeric order.
fn ordered_signed(value: i64) -> Vec<u8> {
    const HEADERS: [[u8; 2]; 10] = [
        [0x80, 0],
        [0xc0, 0],
        [0xe0, 0],
        [0xf0, 0],
        [0xf8, 0],
        [0xfc, 0],
        [0xfe, 0],
        [0xff, 0],
        [0xff, 0x80],
        [0xff, 0xc0],
    ];
    let wide = i128::from(value);
    let len = (1..10).find(|n| (-(1_i128 << (7 * n - 1))..1_i128 << (7 * n - 1)).contains(&wide));
    let len = len.unwrap_or(10);
    let mut bytes = wide.to_be_bytes()[16 - len..].to_vec();
    for (byte, header) in bytes.iter_mut().zip(HEADERS[len - 1]) {
        *byte ^= header;
    }
    bytes
}

/// Returns the logical bytes of strings, which the fixtures hash: for each string, its length as a
/// u64, followed by its contents.
pub fn string_bytes(strings: &[&[u8]]) -> Vec<u8> {
    strings.iter().flat_map(|string| [&(string.len() as u64).to_le_bytes(), *string].concat()).collect()
}

/// Returns the dtype, shape and digest that a reader must find for a tensor.
pub fn facts(dtype: &str, shape: &[i64], logical: &[u8]) -> Facts {
    (dtype.to_owned(), shape.iter().map(|dim| dim.unsigned_abs()).collect(), sha256(logical))
}

/// A bundle under construction.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// A `BundleHeaderProto` that replaces the correct header.
    pub header: Option<Vec<u8>>,
    /// All keys except the header's key, with their values.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The data files.
    pub shards: Vec<Vec<u8>>,
    /// The number of the data file to which new tensors are appended.
    pub shard: usize,
    /// Whether numbers are stored in big-endian order.
    pub big_endian: bool,
    /// The alignment of offsets.
    pub alignment: usize,
    /// The tensors that a reader must find.
    pub expected: BTreeMap<String, Facts>,
}

impl Default for Bundle {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Bundle {
    /// Creates a bundle without tensors, with this many data files.
    pub fn new(shards: usize) -> Self {
        Self {
            header: None,
            entries: BTreeMap::new(),
            shards: vec![Vec::new(); shards],
            shard: 0,
            big_endian: false,
            alignment: 1,
            expected: BTreeMap::new(),
        }
    }

    /// Creates a bundle with three data files. It contains a tensor of every dtype, empty tensors,
    /// scalars, and enough keys for shared prefixes.
    pub fn of_every_dtype(big_endian: bool, alignment: usize) -> Self {
        let mut bundle = Self { big_endian, alignment, ..Self::new(3) };
        let mut random = Random::new(17);
        for (index, dtype) in NUMERIC.into_iter().enumerate() {
            bundle.shard = index % 3;
            for (part, shape) in [("matrix", &[5, 3][..]), ("scalar", &[]), ("empty", &[0, 3])] {
                let elements: i64 = shape.iter().product();
                let mut bytes = vec![0; to_usize(elements) * dtype.width];
                random.fill(&mut bytes);
                // Use only bytes that are valid numbers of the dtype.
                bytes.iter_mut().for_each(|byte| *byte &= dtype.mask());
                bundle.numbers(&format!("layers/{}/{part}", dtype.name), dtype, shape, &bytes);
            }
        }
        let long = [b'x'; 300];
        bundle.strings("strings/matrix", &[2, 2], &[b"", b"one", &long, b"\xff\x00\n"]);
        bundle.strings("strings/scalar", &[], &["wörter".as_bytes()]);
        bundle.strings("strings/empty", &[0], &[]);
        bundle
    }

    /// Creates a bundle with three data files and a sliced tensor of every dtype. The tensors are
    /// cut by rows, by columns, into a grid, or not at all.
    pub fn of_slices(big_endian: bool) -> Self {
        let mut bundle = Self { big_endian, ..Self::new(3) };
        let mut random = Random::new(19);
        for dtype in NUMERIC {
            let mut bytes = vec![0; 24 * dtype.width];
            random.fill(&mut bytes);
            bytes.iter_mut().for_each(|byte| *byte &= dtype.mask());
            for (index, cut) in cuts().iter().enumerate() {
                bundle.sliced(&format!("part/{}/{index}", dtype.name), dtype, &[6, 4], &bytes, cut);
            }
        }
        let strings: Vec<String> = (0..24).map(|index| "é".repeat(index)).collect();
        let strings: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        for (index, cut) in cuts().iter().enumerate() {
            bundle.sliced_strings(&format!("part/STR/{index}"), &[6, 4], &strings, cut);
        }
        bundle
    }

    /// Returns a `BundleHeaderProto` with these numbers.
    pub fn header(shards: i64, endianness: i64, producer: i64, min_consumer: i64) -> Vec<u8> {
        let mut version = Wire::new().int(1, producer);
        if min_consumer != 0 {
            version = version.int(2, min_consumer);
        }
        let header = Wire::new().int(1, shards);
        let header = if endianness == 0 { header } else { header.int(2, endianness) };
        header.message(3, &version).0
    }

    pub fn set(&mut self, key: impl AsRef<[u8]>, entry: &Entry) {
        self.entries.insert(key.as_ref().to_vec(), entry.wire());
    }

    /// Appends bytes to the current data file, and returns the entry for these bytes.
    fn push(&mut self, dtype: i64, shape: &[i64], stored: &[u8], masked_crc: u32) -> Entry {
        let data = &mut self.shards[self.shard];
        let offset = data.len().next_multiple_of(self.alignment);
        data.resize(offset, 0);
        data.extend(stored);
        Entry {
            dtype,
            shape: shape.to_vec(),
            shard: to_i64(self.shard),
            offset: to_i64(offset),
            size: to_i64(stored.len()),
            masked_crc,
            slices: Vec::new(),
        }
    }

    fn push_numbers(&mut self, dtype: Numeric, shape: &[i64], logical: &[u8]) -> Entry {
        let mut stored = logical.to_vec();
        if self.big_endian {
            stored.chunks_mut(dtype.unit).for_each(<[u8]>::reverse);
        }
        self.push(dtype.number, shape, &stored, masked_crc(&stored))
    }

    fn push_strings(&mut self, shape: &[i64], strings: &[&[u8]]) -> Entry {
        let ordered = |value: u32| if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut stored = Vec::new();
        let mut crc = 0;
        for string in strings {
            varint(&mut stored, string.len() as u64);
            let len = u32::try_from(string.len()).expect("a short string");
            crc = crc32c::crc32c_append(crc, &ordered(len));
        }
        let checksum = ordered(mask(crc));
        stored.extend(checksum);
        crc = crc32c::crc32c_append(crc, &checksum);
        for string in strings {
            stored.extend(*string);
            crc = crc32c::crc32c_append(crc, string);
        }
        self.push(STRING, shape, &stored, mask(crc))
    }

    /// Adds a tensor of numbers with these logical bytes.
    pub fn numbers(&mut self, key: &str, dtype: Numeric, shape: &[i64], logical: &[u8]) -> Entry {
        let entry = self.push_numbers(dtype, shape, logical);
        self.set(key, &entry);
        self.expected.insert(key.to_owned(), facts(dtype.name, shape, logical));
        entry
    }

    pub fn strings(&mut self, key: &str, shape: &[i64], strings: &[&[u8]]) -> Entry {
        let entry = self.push_strings(shape, strings);
        self.set(key, &entry);
        self.expected.insert(key.to_owned(), facts("STR", shape, &string_bytes(strings)));
        entry
    }

    /// Adds a tensor of numbers in slices, each in the next data file.
    pub fn sliced(&mut self, key: &str, dtype: Numeric, shape: &[i64], logical: &[u8], slices: &[Slice]) {
        let elements: Vec<&[u8]> = logical.chunks(dtype.width).collect();
        for slice in slices {
            let (places, extent) = places(shape, slice);
            let bytes: Vec<u8> = places.iter().flat_map(|&place| elements[place].to_vec()).collect();
            self.shard = (self.shard + 1) % self.shards.len();
            let entry = self.push_numbers(dtype, &extent, &bytes);
            self.set(slice_key(key.as_bytes(), slice), &entry);
        }
        self.set_sliced(key, dtype.number, shape, slices);
        self.expected.insert(key.to_owned(), facts(dtype.name, shape, logical));
    }

    pub(crate) fn sliced_strings(&mut self, key: &str, shape: &[i64], strings: &[&[u8]], slices: &[Slice]) {
        for slice in slices {
            let (places, extent) = places(shape, slice);
            let part: Vec<&[u8]> = places.iter().map(|&place| strings[place]).collect();
            let entry = self.push_strings(&extent, &part);
            self.set(slice_key(key.as_bytes(), slice), &entry);
        }
        self.set_sliced(key, STRING, shape, slices);
        self.expected.insert(key.to_owned(), facts("STR", shape, &string_bytes(strings)));
    }

    /// Sets the entry of a sliced tensor, but not the entries of its slices.
    pub(crate) fn set_sliced(&mut self, key: &str, dtype: i64, shape: &[i64], slices: &[Slice]) {
        let entry = Entry { dtype, shape: shape.to_vec(), slices: slices.to_vec(), ..Entry::default() };
        self.set(key, &entry);
    }

    pub fn index(&self, style: &Style) -> Vec<u8> {
        let own = || Self::header(to_i64(self.shards.len()), self.big_endian.into(), 1, 0);
        let header = (Vec::new(), self.header.clone().unwrap_or_else(own));
        let others = self.entries.iter().map(|(key, value)| (key.clone(), value.clone()));
        table::table(&std::iter::once(header).chain(others).collect::<Vec<_>>(), style)
    }

    /// Returns the data files with their names.
    pub fn data(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let count = self.shards.len();
        let name = |shard| format!("{prefix}.data-{shard:05}-of-{count:05}");
        self.shards.iter().enumerate().map(|(shard, bytes)| (name(shard), bytes.clone())).collect()
    }

    /// Writes all files, with an index in this style.
    pub fn write(&self, folder: &Path, prefix: &str, style: &Style) {
        std::fs::write(folder.join(format!("{prefix}.index")), self.index(style)).unwrap();
        for (name, bytes) in self.data(prefix) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// Returns four ways to cut a tensor of 6 x 4 into slices. In some of the four, the slices are not
/// in row-major order.
fn cuts() -> [Vec<Slice>; 4] {
    [
        vec![vec![Some((4, 2)), None], vec![Some((0, 1)), None], vec![Some((1, 3)), None]],
        vec![vec![None, Some((1, 3))], vec![None, Some((0, 1))]],
        vec![
            vec![Some((0, 2)), Some((0, 3))],
            vec![Some((2, 4)), Some((3, 1))],
            vec![Some((0, 2)), Some((3, 1))],
            vec![Some((2, 4)), Some((0, 3))],
        ],
        // This slice is the whole tensor, with an explicit length. Its key differs from the key of
        // a slice without the length.
        vec![vec![None, Some((0, 4))]],
    ]
}

/// Returns the row-major indices of a slice's elements, and the shape of the slice.
fn places(shape: &[i64], slice: &Slice) -> (Vec<usize>, Vec<i64>) {
    let mut places = vec![0];
    let mut extent = Vec::new();
    for (&size, part) in shape.iter().zip(slice) {
        let (start, len) = part.unwrap_or((0, size));
        extent.push(len);
        let row = |place: &i64| (start..start + len).map(|at| place * size + at).collect::<Vec<_>>();
        places = places.iter().flat_map(row).collect();
    }
    (places.into_iter().map(to_usize).collect(), extent)
}

fn to_usize(value: i64) -> usize {
    usize::try_from(value).expect("not negative")
}

fn to_i64(value: usize) -> i64 {
    i64::try_from(value).expect("a small number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_that_tensorflow_gives_them() {
        let vectors: [(i64, &[u8]); 5] =
            [(0, &[0x80]), (2, &[0x82]), (-1, &[0x7f]), (100, &[0xc0, 0x64]), (334, &[0xc1, 0x4e])];
        for (value, bytes) in vectors {
            assert_eq!(ordered_signed(value), bytes, "{value}");
        }
        assert_eq!(ordered_signed(i64::MIN).len(), 10);
    }

    #[test]
    fn a_slice_has_the_key_that_tensorflow_gives_it() {
        let key = slice_key(b"part/w", &vec![Some((0, 2)), None]);
        assert_eq!(key, b"\x00part/w\x00\x01\x01\x02\x80\x82\x80\x7f");
    }
}
