//! A small checkpoint with every feature of the format, built by hand without the writer.

use crate::codec::encode;
use crate::index::{DataFile, Entry, Index, Joined, Stored};
use crate::write::{DATA_HEADER_LEN, DATA_MAGIC};
use std::collections::BTreeMap;
use tensorferry_sdk::{Block, ByteOrder, Dtype, DtypeInfo, Region, Result, StorageId, StorageRange, Value};

/// Returns the sample's files by name. `sample.trial` is the index.
///
/// # Panics
///
/// Never panics, because every number is a constant of this module.
#[must_use]
pub fn sample() -> BTreeMap<String, Vec<u8>> {
    let mut sample = Sample::default();
    sample.grid();
    sample.views();
    sample.extension();
    sample.joined();
    sample.strings();
    sample.join();
    sample.index.metadata = vec![("made by".to_owned(), "hand".into()), ("\u{fc}".to_owned(), "".into())];
    sample.values().expect("every node is valid for its kind");
    sample.index.origin = "trial".to_owned();
    sample.finish()
}

#[derive(Default)]
struct Sample {
    index: Index,
    joined: Vec<Joined>,
    data: [Vec<u8>; 2],
}

impl Sample {
    /// A tensor F32 [4, 6], in which element (i, j) is 10 i + j. It has four blocks, each with a
    /// different layout, and a tie.
    fn grid(&mut self) {
        let value = |i: u64, j: u64| f32::from(u8::try_from(10 * i + j).unwrap_or(u8::MAX));
        let little =
            |elements: Vec<f32>| elements.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let big = |elements: Vec<f32>| elements.into_iter().flat_map(f32::to_be_bytes).collect::<Vec<u8>>();
        let rows =
            |i: [u64; 2], j: [u64; 3]| i.iter().flat_map(|&i| j.map(|j| value(i, j))).collect::<Vec<f32>>();
        let columns =
            |i: [u64; 2], j: [u64; 3]| j.iter().flat_map(|&j| i.map(|i| value(i, j))).collect::<Vec<f32>>();
        let storages = [
            self.raw(0, ByteOrder::Little, &little(rows([0, 1], [0, 1, 2]))),
            self.raw(1, ByteOrder::Big, &big(columns([0, 1], [3, 4, 5]))),
            self.runs(0, ByteOrder::Big, &big(rows([2, 3], [0, 1, 2]))),
            self.runs(1, ByteOrder::Little, &little(columns([2, 3], [3, 4, 5]))),
        ];
        let places = [([0, 0], [3, 1]), ([0, 3], [1, 2]), ([2, 0], [3, 1]), ([2, 3], [1, 2])];
        let blocks = storages.into_iter().zip(places).map(|(storage, (origin, strides))| Block {
            region: Region { origin: origin.to_vec(), shape: vec![2, 3] },
            storage,
            offset: 0,
            strides: strides.to_vec(),
        });
        let blocks = blocks.collect();
        self.tensor("grid", "F32", &[4, 6], blocks);
        self.index.aliases.push(("tied".to_owned(), 0));
    }

    /// Tensors that are views of one big-endian storage of 0, 1, 2, 3, 4, 5, and an empty tensor.
    fn views(&mut self) {
        let numbers: Vec<u8> = (0..6_i16).flat_map(i16::to_be_bytes).collect();
        let storage = self.raw(0, ByteOrder::Big, &numbers);
        self.view("transposed", "I16", &[2, 3], storage, 0, &[1, 2]);
        self.view("reversed", "I16", &[6], storage, 10, &[-1]);
        self.view("overlapping", "I16", &[4, 3], storage, 0, &[1, 1]);
        self.view("repeated", "I16", &[5, 2], storage, 6, &[0, 0]);
        self.view("scalar", "I16", &[], storage, 4, &[]);
        self.tensor("empty", "F64", &[0, 3], Vec::new());
    }

    /// A tensor of a dtype that the host does not define: two rows of 32 elements in 18 bytes each,
    /// in two blocks.
    fn extension(&mut self) {
        // This is the layout of GGUF's Q4_0: a 16-bit scale and 32 numbers of 4 bits.
        let info = DtypeInfo::extension("Q4_0", 32, 18, 1).expect("18 is a multiple of 1");
        self.index.dtypes.push(info);
        let blocks = [0_u8, 1].map(|row| {
            let bytes: Vec<u8> = (0..18).map(|i| row * 18 + i).collect();
            let storage = self.raw(row, ByteOrder::Little, &bytes);
            let region = Region { origin: vec![row.into(), 0], shape: vec![1, 32] };
            Block { region, storage, offset: 0, strides: vec![32, 1] }
        });
        self.tensor("quantized", "Q4_0", &[2, 32], blocks.to_vec());
    }

    /// A big-endian tensor F64 [2, 3] of 0.5, 1.5, ... Its bytes are in three storages in two
    /// files, and one storage is encoded.
    fn joined(&mut self) {
        let bytes: Vec<u8> = (0..6).flat_map(|i| (f64::from(i) + 0.5).to_be_bytes()).collect();
        let first = self.raw(0, ByteOrder::Big, &bytes[..20]);
        let second = self.runs(1, ByteOrder::Big, &bytes[20..30]);
        // Three unrelated bytes precede the last part of the tensor.
        let third = self.raw(1, ByteOrder::Big, &[&[9; 3], &bytes[30..]].concat());
        let range = |storage, offset, len| StorageRange { storage, offset, len };
        let ranges = vec![range(first, 0, 20), range(second, 0, 10), range(third, 3, 18)];
        self.joined = vec![Joined { byte_order: ByteOrder::Big, ranges }];
    }

    fn strings(&mut self) {
        let mut bytes = Vec::new();
        for text in ["ferry", "", "\u{2693}"] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        let storage = self.runs(1, ByteOrder::Little, &bytes);
        self.view("strings", "STR", &[3], storage, 0, &[1]);
    }

    /// Metadata with exact types, and the attributes of a tensor.
    fn values(&mut self) -> Result<()> {
        let step = Value::number(Dtype::U64, &[255; 8])?;
        let rates: Vec<u8> = [0.1_f32, 2.5].iter().flat_map(|rate| rate.to_le_bytes()).collect();
        let rates = Value::numbers(Dtype::F32, rates)?;
        let nested = Value::map([(Value::text("step"), step.clone()), (Value::text("rates"), rates)])?;
        let units = Value::list(["mm", "s"].map(Value::text))?;
        self.index.metadata.extend([("step".to_owned(), step), ("training".to_owned(), nested)]);
        self.index.attributes = vec![
            ("grid".to_owned(), "units".to_owned(), units),
            ("tied".to_owned(), "trainable".to_owned(), Value::bool(false)),
        ];
        Ok(())
    }

    fn view(
        &mut self,
        name: &str,
        dtype: &str,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
        strides: &[i64],
    ) {
        let region = Region::whole(shape);
        self.tensor(name, dtype, shape, vec![Block { region, storage, offset, strides: strides.to_vec() }]);
    }

    fn tensor(&mut self, name: &str, dtype: &str, shape: &[u64], blocks: Vec<Block>) {
        self.index.tensors.push(Entry {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            shape: shape.to_vec(),
            blocks,
            grid: None,
        });
    }

    fn raw(&mut self, file: u8, byte_order: ByteOrder, bytes: &[u8]) -> StorageId {
        self.stored(file, byte_order, bytes, bytes.len(), false)
    }

    fn runs(&mut self, file: u8, byte_order: ByteOrder, bytes: &[u8]) -> StorageId {
        self.stored(file, byte_order, &encode(bytes), bytes.len(), true)
    }

    fn stored(
        &mut self,
        file: u8,
        byte_order: ByteOrder,
        bytes: &[u8],
        len: usize,
        is_encoded: bool,
    ) -> StorageId {
        let data = &mut self.data[usize::from(file)];
        data.resize(data.len().next_multiple_of(8), 0);
        let id = StorageId(u32::try_from(self.index.storages.len()).unwrap_or(u32::MAX));
        self.index.storages.push(Stored {
            file: file.into(),
            offset: DATA_HEADER_LEN + data.len() as u64,
            stored_len: bytes.len() as u64,
            len: len as u64,
            is_encoded,
            byte_order,
            crc: crc32c::crc32c(bytes),
        });
        data.extend(bytes);
        id
    }

    /// The tensors of the joined storages, which are numbered after all other storages.
    fn join(&mut self) {
        let storage = StorageId(u32::try_from(self.index.storages.len()).unwrap_or(u32::MAX));
        self.index.joined = std::mem::take(&mut self.joined);
        self.view("joined", "F64", &[2, 3], storage, 0, &[3, 1]);
        self.view("joined and turned", "F64", &[3, 2], storage, 0, &[1, 3]);
    }

    fn finish(mut self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for (number, data) in self.data.iter().enumerate() {
            let mut bytes = DATA_MAGIC.to_vec();
            bytes.extend(crc32c::crc32c(data).to_le_bytes());
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend(data);
            let name = format!("sample.trial.{number}");
            self.index.files.push(DataFile { name: name.clone(), len: bytes.len() as u64 });
            files.insert(name, bytes);
        }
        let index = self.index.to_bytes().expect("there are far fewer than 2^32 items");
        files.insert("sample.trial".to_owned(), index);
        files
    }
}
