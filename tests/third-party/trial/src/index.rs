//! The index of a checkpoint. The crate's documentation describes its bytes.

use crate::grid::TileList;
use tensorferry_sdk::{
    Block, ByteOrder, DtypeInfo, Error, Grid, Node, NodeKind, Region, Result, StorageId, StorageRange, Value,
};

/// The first bytes of an index.
pub(crate) const MAGIC: &[u8; 8] = b"TRIALIDX";

/// The length of the fields of a storage.
const STORED_LEN: u64 = 4 + 3 * 8 + 2 + 4;

/// The contents of an index, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) files: Vec<DataFile>,
    pub(crate) dtypes: Vec<DtypeInfo>,
    pub(crate) storages: Vec<Stored>,
    /// The joined storages, which are numbered after the other storages.
    pub(crate) joined: Vec<Joined>,
    pub(crate) tensors: Vec<Entry>,
    pub(crate) aliases: Vec<(String, u32)>,
    pub(crate) metadata: Vec<(String, Value)>,
    /// The tensor's name, the key, the value.
    pub(crate) attributes: Vec<(String, String, Value)>,
    pub(crate) origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataFile {
    pub(crate) name: String,
    pub(crate) len: u64,
}

/// A storage in a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    /// The number of bytes in the data file.
    pub(crate) stored_len: u64,
    /// The number of bytes after decoding.
    pub(crate) len: u64,
    pub(crate) is_encoded: bool,
    pub(crate) byte_order: ByteOrder,
    /// CRC-32C of the bytes in the data file.
    pub(crate) crc: u32,
}

/// A storage that consists of ranges of other storages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) byte_order: ByteOrder,
    pub(crate) ranges: Vec<StorageRange>,
}

/// A tensor. Its storages are numbered by their positions in this index, starting from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) blocks: Vec<Block>,
    /// The blocks, if they were read as [tiles](Tiled).
    pub(crate) grid: Option<Grid>,
}

/// A function that selects the dtypes whose blocks may be read as a grid. In a grid, each block
/// takes only a few bytes of memory.
pub(crate) type Tiled<'a> = &'a dyn Fn(&[DtypeInfo], &str) -> bool;

/// A function that receives each storage when it is read, with the data files and the offset of its
/// fields in the index.
pub(crate) type TakeStorage<'a> = &'a mut dyn FnMut(&[DataFile], Stored, u64) -> Result<()>;

impl Index {
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = MAGIC.to_vec();
        put_list(&mut out, &self.files, |out, file| {
            put_text(out, &file.name)?;
            out.extend(file.len.to_le_bytes());
            Ok(())
        })?;
        put_list(&mut out, &self.dtypes, |out, dtype| {
            put_text(out, dtype.name())?;
            for number in [dtype.block_elements(), dtype.block_bytes(), dtype.swap_unit()] {
                out.extend(number.to_le_bytes());
            }
            Ok(())
        })?;
        put_list(&mut out, &self.storages, |out, stored| {
            out.extend(stored.file.to_le_bytes());
            for number in [stored.offset, stored.stored_len, stored.len] {
                out.extend(number.to_le_bytes());
            }
            out.extend([u8::from(stored.is_encoded), u8::from(stored.byte_order == ByteOrder::Big)]);
            out.extend(stored.crc.to_le_bytes());
            Ok(())
        })?;
        put_list(&mut out, &self.joined, |out, joined| {
            out.push(u8::from(joined.byte_order == ByteOrder::Big));
            put_list(out, &joined.ranges, |out, range| {
                out.extend(range.storage.0.to_le_bytes());
                out.extend([range.offset, range.len].map(u64::to_le_bytes).concat());
                Ok(())
            })
        })?;
        put_list(&mut out, &self.tensors, put_tensor)?;
        put_list(&mut out, &self.aliases, |out, (name, tensor)| {
            put_text(out, name)?;
            out.extend(tensor.to_le_bytes());
            Ok(())
        })?;
        put_list(&mut out, &self.metadata, |out, (key, value)| {
            put_text(out, key)?;
            put_value(out, value)
        })?;
        put_list(&mut out, &self.attributes, |out, (tensor, key, value)| {
            put_text(out, tensor)?;
            put_text(out, key)?;
            put_value(out, value)
        })?;
        put_text(&mut out, &self.origin)?;
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        Ok(out)
    }

    /// Parses everything except the storages, which are passed to `take` one by one.
    pub(crate) fn parse(fields: &mut Fields<'_>, tiled: Tiled<'_>, take: TakeStorage<'_>) -> Result<Self> {
        let files = fields.list(|f| Ok(DataFile { name: f.text()?, len: f.u64()? }))?;
        let dtypes = fields.list(|f| {
            let name = f.text()?;
            let (elements, bytes, swap_unit) = (f.u32()?, f.u32()?, f.u32()?);
            DtypeInfo::extension(&name, elements, bytes, swap_unit)
                .map_err(|e| Error::malformed(e.message()).offset(f.at))
        })?;
        for _ in 0..fields.u32()? {
            let at = fields.at;
            take(&files, fields.stored()?, at)?;
        }
        let index = Self {
            joined: fields.list(|f| {
                let byte_order = f.byte_order()?;
                let range = |f: &mut Fields<'_>| {
                    let storage = StorageId(f.u32()?);
                    Ok(StorageRange { storage, offset: f.u64()?, len: f.u64()? })
                };
                Ok(Joined { byte_order, ranges: f.list(range)? })
            })?,
            tensors: fields.list(|f| f.tensor(|dtype| tiled(&dtypes, dtype)))?,
            aliases: fields.list(|f| Ok((f.text()?, f.u32()?)))?,
            metadata: fields.list(|f| Ok((f.text()?, f.value()?)))?,
            attributes: fields.list(|f| Ok((f.text()?, f.text()?, f.value()?)))?,
            origin: fields.text()?,
            files,
            dtypes,
            storages: Vec::new(),
        };
        if fields.at < fields.len {
            return Err(Error::malformed("there are bytes after the index").offset(fields.at));
        }
        Ok(index)
    }
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T) -> Result<()>) -> Result<()> {
    put_len(out, items.len())?;
    items.iter().try_for_each(|item| put(out, item))
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    put_len(out, text.len())?;
    out.extend(text.as_bytes());
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<()> {
    put_list(out, value.nodes(), |out, node| {
        out.extend(node.kind.0.to_le_bytes());
        put_text(out, &node.class)?;
        put_len(out, node.bytes.len())?;
        out.extend(&*node.bytes);
        put_len(out, node.children.len())
    })
}

fn put_len(out: &mut Vec<u8>, len: usize) -> Result<()> {
    let len = u32::try_from(len).map_err(|_| Error::unsupported("too many items for a trial index"))?;
    out.extend(len.to_le_bytes());
    Ok(())
}

fn put_tensor(out: &mut Vec<u8>, tensor: &Entry) -> Result<()> {
    put_text(out, &tensor.name)?;
    put_text(out, &tensor.dtype)?;
    put_list(out, &tensor.shape, |out, dim| {
        out.extend(dim.to_le_bytes());
        Ok(())
    })?;
    put_list(out, &tensor.blocks, |out, block| {
        for number in block.region.origin.iter().chain(&block.region.shape) {
            out.extend(number.to_le_bytes());
        }
        out.extend(block.storage.0.to_le_bytes());
        out.extend(block.offset.to_le_bytes());
        for stride in &block.strides {
            out.extend(stride.to_le_bytes());
        }
        Ok(())
    })
}

/// The fields of an index. Only a window of the index is in memory.
pub(crate) struct Fields<'a> {
    /// A function that reads a number of bytes at an offset.
    read: &'a dyn Fn(u64, u64) -> Result<Vec<u8>>,
    /// The offset of the end of the fields.
    len: u64,
    window: Vec<u8>,
    window_at: u64,
    at: u64,
}

impl<'a> Fields<'a> {
    const WINDOW: u64 = 1 << 20;

    /// Checks the magic and the CRC of an index of `len` bytes.
    pub(crate) fn open(len: u64, read: &'a dyn Fn(u64, u64) -> Result<Vec<u8>>) -> Result<Self> {
        let len = len.saturating_sub(4);
        let (mut at, mut found) = (0, 0);
        while at < len {
            let piece = read(at, Self::WINDOW.min(len - at))?;
            found = crc32c::crc32c_append(found, &piece);
            at += piece.len() as u64;
        }
        let mut fields = Self { read, len, window: Vec::new(), window_at: 0, at: 0 };
        if fields.take(MAGIC.len()).map_or(true, |magic| magic != MAGIC) {
            return Err(Error::malformed("not an index of a trial checkpoint")
                .offset(0)
                .expected("TRIALIDX"));
        }
        let crc = read(len, 4)?;
        if crc != found.to_le_bytes() {
            return Err(Error::malformed("the crc32c of the index is wrong")
                .offset(len)
                .expected(format!("{found:08x}"))
                .found(format!("{crc:02x?}")));
        }
        Ok(fields)
    }

    /// Reads the storage whose fields are at `at`.
    pub(crate) fn stored_at(at: u64, read: &'a dyn Fn(u64, u64) -> Result<Vec<u8>>) -> Result<Stored> {
        let len = at.saturating_add(STORED_LEN);
        Self { read, len, window: Vec::new(), window_at: at, at }.stored()
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let (at, wanted) = (self.at, len as u64);
        if wanted > self.len - at {
            let error = Error::malformed("the index ends too early").offset(at);
            return Err(error.expected(format!("{len} bytes")));
        }
        if at < self.window_at || at + wanted > self.window_at + self.window.len() as u64 {
            self.window = (self.read)(at, wanted.max(Self::WINDOW).min(self.len - at))?;
            self.window_at = at;
        }
        self.at += wanted;
        let start = usize::try_from(at - self.window_at).unwrap_or(usize::MAX);
        let part = self.window.get(start..).and_then(|rest| rest.get(..len));
        part.ok_or_else(|| Error::malformed("the index ends too early").offset(at))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Error::malformed("a field of the index is neither 0 nor 1")
                .offset(self.at - 1)
                .found(other)),
        }
    }

    fn byte_order(&mut self) -> Result<ByteOrder> {
        Ok(if self.flag()? { ByteOrder::Big } else { ByteOrder::Little })
    }

    fn text(&mut self) -> Result<String> {
        let len = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let offset = self.at;
        let text = std::str::from_utf8(self.take(len)?);
        Ok(text.map_err(|_| Error::malformed("a text of the index is not UTF-8").offset(offset))?.to_owned())
    }

    /// Reads a list. The list grows item by item, so a false count causes an error at the end of
    /// the bytes.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn value(&mut self) -> Result<Value> {
        let (offset, count) = (self.at, self.u32()?);
        let wrong = |why: String| Error::malformed("not a value").offset(offset).found(why);
        // Nodes that do not have a parent yet.
        let mut open: Vec<Value> = Vec::new();
        for _ in 0..count {
            let (kind, class) = (NodeKind(self.u32()?), self.text()?);
            let len = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
            let bytes = self.take(len)?.to_vec();
            let children = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
            let first = open.len().checked_sub(children);
            let first = first.ok_or_else(|| wrong(format!("a node with {children} children")))?;
            let node = Node { class: class.into(), ..Node::scalar(kind, &*bytes) };
            let value = Value::of(node, open.drain(first..)).map_err(|error| wrong(error.to_string()))?;
            open.push(value);
        }
        match open.pop() {
            Some(value) if open.is_empty() => Ok(value),
            _ => Err(wrong("nodes without a common root".to_owned())),
        }
    }

    fn stored(&mut self) -> Result<Stored> {
        Ok(Stored {
            file: self.u32()?,
            offset: self.u64()?,
            stored_len: self.u64()?,
            len: self.u64()?,
            is_encoded: self.flag()?,
            byte_order: self.byte_order()?,
            crc: self.u32()?,
        })
    }

    fn tensor(&mut self, is_tiled: impl Fn(&str) -> bool) -> Result<Entry> {
        let (name, dtype) = (self.text()?, self.text()?);
        let shape = self.list(Self::u64)?;
        let mut entry = Entry { name, dtype, shape, blocks: Vec::new(), grid: None };
        if is_tiled(&entry.dtype) {
            let blocks_at = self.at;
            entry.grid = self.grid(&entry.shape)?;
            if entry.grid.is_some() {
                return Ok(entry);
            }
            self.at = blocks_at;
        }
        entry.blocks = self.list(|f| f.block(entry.shape.len()))?;
        Ok(entry)
    }

    /// Reads the next blocks, if they form a grid.
    fn grid(&mut self, shape: &[u64]) -> Result<Option<Grid>> {
        let mut grid = TileList::new(shape);
        for _ in 0..self.u32()? {
            if !grid.push(&self.block(shape.len())?) {
                return Ok(None);
            }
        }
        Ok(grid.finish())
    }

    fn block(&mut self, rank: usize) -> Result<Block> {
        let numbers = |f: &mut Self| (0..rank).map(|_| f.u64()).collect::<Result<Vec<u64>>>();
        let region = Region { origin: numbers(self)?, shape: numbers(self)? };
        let (storage, offset) = (StorageId(self.u32()?), self.u64()?);
        let strides = numbers(self)?.into_iter().map(u64::cast_signed).collect();
        Ok(Block { region, storage, offset, strides })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn parse(bytes: &[u8]) -> Result<Index> {
        let read = |at: u64, len: u64| {
            let part = bytes.get(at as usize..).and_then(|rest| rest.get(..len as usize));
            part.map(<[u8]>::to_vec).ok_or_else(|| Error::malformed("too short"))
        };
        let mut fields = Fields::open(bytes.len() as u64, &read)?;
        let mut storages = Vec::new();
        let index = Index::parse(&mut fields, &|_, _| false, &mut |_, stored, at| {
            assert_eq!(Fields::stored_at(at, &read)?, stored);
            storages.push(stored);
            Ok(())
        })?;
        Ok(Index { storages, ..index })
    }

    #[test]
    fn an_index_comes_back_and_its_damage_is_malformed() {
        let bytes = crate::sample().remove("sample.trial").unwrap();
        assert_eq!(parse(&bytes).unwrap().to_bytes().unwrap(), bytes);
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len]).unwrap_err().kind(), ErrorKind::Malformed);
            // An attacker would add a correct CRC to the truncated index.
            let mut cut = bytes[..len].to_vec();
            cut.extend(crc32c::crc32c(&cut).to_le_bytes());
            assert!(parse(&cut).is_err() || len == bytes.len() - 4, "{len}");
        }
    }
}
