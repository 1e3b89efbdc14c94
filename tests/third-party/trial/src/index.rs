//! An index says where everything is. The crate's documentation has its bytes.

use tensorferry_sdk::{
    Block, ByteOrder, DtypeInfo, Error, Node, NodeKind, Region, Result, StorageId, StorageRange, Value,
};

/// What an index begins with.
pub(crate) const MAGIC: &[u8; 8] = b"TRIALIDX";

/// What the file says, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) files: Vec<DataFile>,
    pub(crate) dtypes: Vec<DtypeInfo>,
    pub(crate) storages: Vec<Stored>,
    /// They are numbered after the others.
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

/// A storage, as it lies in a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    /// Bytes in the data file.
    pub(crate) stored_len: u64,
    /// Bytes when decoded.
    pub(crate) len: u64,
    pub(crate) is_encoded: bool,
    pub(crate) byte_order: ByteOrder,
    /// CRC-32C of the bytes in the data file.
    pub(crate) crc: u32,
}

/// A storage that is made of ranges of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) byte_order: ByteOrder,
    pub(crate) ranges: Vec<StorageRange>,
}

/// A tensor; its storages count from 0 in this index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) blocks: Vec<Block>,
}

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

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let body_len = bytes.len().saturating_sub(4);
        let (body, crc) = bytes.split_at(body_len);
        if !body.starts_with(MAGIC) {
            return Err(Error::malformed("not an index of a trial checkpoint")
                .offset(0)
                .expected("TRIALIDX"));
        }
        let found = crc32c::crc32c(body);
        if crc != found.to_le_bytes() {
            return Err(Error::malformed("the crc32c of the index is wrong")
                .offset(body_len as u64)
                .expected(format!("{found:08x}"))
                .found(format!("{crc:02x?}")));
        }
        let mut fields = Fields { bytes: body, at: MAGIC.len() };
        let index = Self {
            files: fields.list(|f| Ok(DataFile { name: f.text()?, len: f.u64()? }))?,
            dtypes: fields.list(|f| {
                let name = f.text()?;
                let (elements, bytes, swap_unit) = (f.u32()?, f.u32()?, f.u32()?);
                DtypeInfo::extension(&name, elements, bytes, swap_unit)
                    .map_err(|e| Error::malformed(e.message()).offset(f.at as u64))
            })?,
            storages: fields.list(Fields::stored)?,
            joined: fields.list(|f| {
                let byte_order = f.byte_order()?;
                let range = |f: &mut Fields<'_>| {
                    let storage = StorageId(f.u32()?);
                    Ok(StorageRange { storage, offset: f.u64()?, len: f.u64()? })
                };
                Ok(Joined { byte_order, ranges: f.list(range)? })
            })?,
            tensors: fields.list(Fields::tensor)?,
            aliases: fields.list(|f| Ok((f.text()?, f.u32()?)))?,
            metadata: fields.list(|f| Ok((f.text()?, f.value()?)))?,
            attributes: fields.list(|f| Ok((f.text()?, f.text()?, f.value()?)))?,
            origin: fields.text()?,
        };
        if fields.at < body.len() {
            return Err(Error::malformed("bytes follow the index").offset(fields.at as u64));
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
    let len =
        u32::try_from(len).map_err(|_| Error::unsupported("more of something than a trial index counts"))?;
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

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let part = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let part = part.ok_or_else(|| {
            Error::malformed("the index ends too early")
                .offset(self.at as u64)
                .expected(format!("{len} bytes"))
        })?;
        self.at += len;
        Ok(part)
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
                .offset(self.at as u64 - 1)
                .found(other)),
        }
    }

    fn byte_order(&mut self) -> Result<ByteOrder> {
        Ok(if self.flag()? { ByteOrder::Big } else { ByteOrder::Little })
    }

    fn text(&mut self) -> Result<String> {
        let len = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let offset = self.at as u64;
        let text = std::str::from_utf8(self.take(len)?);
        Ok(text.map_err(|_| Error::malformed("a text of the index is not UTF-8").offset(offset))?.to_owned())
    }

    /// The items grow one by one: a count that is a lie ends where the bytes do.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn value(&mut self) -> Result<Value> {
        let (offset, count) = (self.at as u64, self.u32()?);
        let wrong = |why: String| Error::malformed("not a value").offset(offset).found(why);
        // Those that are nobody's child yet.
        let mut open: Vec<Value> = Vec::new();
        for _ in 0..count {
            let (kind, class) = (NodeKind(self.u32()?), self.text()?);
            let len = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
            let bytes = self.take(len)?;
            let children = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
            let first = open.len().checked_sub(children);
            let first = first.ok_or_else(|| wrong(format!("a node with {children} children")))?;
            let node = Node { class: class.into(), ..Node::scalar(kind, bytes) };
            let value = Value::of(node, open.drain(first..)).map_err(|error| wrong(error.to_string()))?;
            open.push(value);
        }
        match open.pop() {
            Some(value) if open.is_empty() => Ok(value),
            _ => Err(wrong("nodes that nothing holds together".to_owned())),
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

    fn tensor(&mut self) -> Result<Entry> {
        let (name, dtype) = (self.text()?, self.text()?);
        let shape = self.list(Self::u64)?;
        let rank = shape.len();
        let blocks = self.list(|f| {
            let numbers = |f: &mut Self| (0..rank).map(|_| f.u64()).collect::<Result<Vec<u64>>>();
            let region = Region { origin: numbers(f)?, shape: numbers(f)? };
            let (storage, offset) = (StorageId(f.u32()?), f.u64()?);
            let strides = numbers(f)?.into_iter().map(u64::cast_signed).collect();
            Ok(Block { region, storage, offset, strides })
        })?;
        Ok(Entry { name, dtype, shape, blocks })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn an_index_comes_back_and_its_damage_is_malformed() {
        let bytes = crate::sample().remove("sample.trial").unwrap();
        assert_eq!(Index::parse(&bytes).unwrap().to_bytes().unwrap(), bytes);
        for len in 0..bytes.len() {
            assert_eq!(Index::parse(&bytes[..len]).unwrap_err().kind(), ErrorKind::Malformed);
            // Once more past the CRC, as an attacker would.
            let mut cut = bytes[..len].to_vec();
            cut.extend(crc32c::crc32c(&cut).to_le_bytes());
            assert!(Index::parse(&cut).is_err() || len == bytes.len() - 4, "{len}");
        }
    }
}
