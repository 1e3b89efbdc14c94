//! The header of a file, which contains the metadata and each tensor's name, type, shape and data
//! offset.

use crate::cursor::Cursor;
use crate::metadata::{self, Budget};
use crate::types::GgmlType;
use crate::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_ALIGNMENT, MAX_DIMS};
use std::collections::{BTreeMap, HashSet};
use tensorferry_sdk::{ByteOrder, Error, FileId, Limits, Result, Source, Value};

#[derive(Debug)]
pub(crate) struct Header {
    /// Byte order of all numbers, including tensor data.
    pub(crate) byte_order: ByteOrder,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// Tensors in file order.
    pub(crate) tensors: Vec<Entry>,
    /// File offset of the data. It does not exceed the file's length.
    pub(crate) data_offset: u64,
}

/// A tensor entry of the header.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) ggml_type: GgmlType,
    /// Dimensions in row-major order: the last dimension varies fastest.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
    /// Offset of the tensor's data from the start of all data.
    pub(crate) offset: u64,
    /// File offset of this entry.
    at: u64,
}

/// Minimum size of a metadata entry in bytes. Such an entry has an empty key and the shortest
/// possible value.
const MIN_KEY_BYTES: u64 = 13;
/// Minimum size of a tensor entry in bytes. Such an entry has an empty name and no dimensions.
const MIN_TENSOR_BYTES: u64 = 24;

impl Header {
    /// Reads and checks a file's header. The memory use is bounded by the length of the file.
    pub(crate) fn read(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Self> {
        let cursor = &mut Cursor::new(source, file, limits);
        Self::parse(cursor, source.len(file)).map_err(|error| error.file(source.name(file)))
    }

    fn parse(cursor: &mut Cursor<'_>, file_len: u64) -> Result<Self> {
        cursor.order = byte_order(cursor)?;
        let tensors = cursor.count("tensors", MIN_TENSOR_BYTES)?;
        let keys = cursor.count("keys", MIN_KEY_BYTES)?;
        let metadata = read_metadata(cursor, keys)?;
        let alignment = alignment(&metadata)?;
        let tensors = read_tensors(cursor, tensors)?;
        // A file without tensors has no data, and no padding before the data.
        let end = if tensors.is_empty() { cursor.at() } else { cursor.at().next_multiple_of(alignment) };
        let data_offset = end.min(file_len);
        let header = Self { byte_order: cursor.order, metadata, tensors, data_offset };
        header.check_places(alignment, file_len)?;
        Ok(header)
    }

    fn check_places(&self, alignment: u64, file_len: u64) -> Result<()> {
        let room = file_len - self.data_offset;
        for tensor in &self.tensors {
            let refuse = |why| Error::malformed(why).tensor(&*tensor.name).offset(tensor.at);
            if !tensor.offset.is_multiple_of(alignment) {
                return Err(refuse("a tensor's offset is not aligned")
                    .expected(format!("a multiple of {alignment}"))
                    .found(tensor.offset));
            }
            let end = tensor.offset.checked_add(tensor.bytes);
            if tensor.bytes > 0 && end.is_none_or(|end| end > room) {
                return Err(refuse("a tensor reaches past the end of the file")
                    .expected(format!("{} bytes of data from {}", tensor.bytes, tensor.offset))
                    .found(format!("{room} bytes of data")));
            }
        }
        let mut held: Vec<&Entry> = self.tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
        held.sort_by_key(|tensor| tensor.offset);
        match held.windows(2).find(|pair| pair[1].offset < pair[0].offset + pair[0].bytes) {
            None => Ok(()),
            Some(pair) => Err(Error::malformed("the data of two tensors overlaps")
                .tensor(&*pair[1].name)
                .offset(pair[1].at)
                .expected(format!("at least {}, after {:?}", pair[0].offset + pair[0].bytes, pair[0].name))
                .found(pair[1].offset)),
        }
    }
}

/// Detects the byte order from the first bytes. The magic is the same in both byte orders, but the
/// version is not.
pub(crate) fn byte_order(cursor: &mut Cursor<'_>) -> Result<ByteOrder> {
    let magic = cursor.take(MAGIC.len() as u64)?;
    if magic != MAGIC {
        let found = format!("{:?}", magic.escape_ascii().to_string());
        return Err(Error::malformed("not a GGUF file").offset(0).expected("\"GGUF\"").found(found));
    }
    let at = cursor.at();
    let version = cursor.u32()?;
    let (version, order) = match version & 0xffff {
        0 => (version.swap_bytes(), ByteOrder::Big),
        _ => (version, ByteOrder::Little),
    };
    match version {
        2 | 3 => Ok(order),
        _ => Err(Error::malformed("unknown GGUF version").offset(at).expected("2 or 3").found(version)),
    }
}

fn read_metadata(cursor: &mut Cursor<'_>, keys: u64) -> Result<BTreeMap<String, Value>> {
    let mut budget = Budget::new(cursor.limits());
    let mut metadata = BTreeMap::new();
    for _ in 0..keys {
        let at = cursor.at();
        let key = cursor.name()?;
        let value =
            metadata::read(cursor, &mut budget).map_err(|error| error.context(format!("key {key:?}")))?;
        if metadata.contains_key(&key) {
            return Err(Error::malformed("duplicate metadata key").offset(at).found(format!("{key:?}")));
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// Returns the alignment of tensor offsets.
fn alignment(metadata: &BTreeMap<String, Value>) -> Result<u64> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else { return Ok(DEFAULT_ALIGNMENT.into()) };
    valid_alignment(value).map(u64::from).ok_or_else(|| {
        Error::malformed(format!("{ALIGNMENT_KEY} is not a valid alignment"))
            .expected(format!("an unsigned 32-bit power of two, at most {MAX_ALIGNMENT}"))
            .found(format!("{} {value:?}", value.root().class))
    })
}

/// Returns the alignment in a metadata value, or `None` if it is not valid.
pub(crate) fn valid_alignment(value: &Value) -> Option<u32> {
    let number = (&*value.root().class == "U32").then(|| value.root().as_int())?;
    u32::try_from(number?).ok().filter(|number| number.is_power_of_two() && *number <= MAX_ALIGNMENT)
}

fn read_tensors(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<Entry>> {
    let max = cursor.limits().tensors;
    if count > max {
        return Err(Error::limit("too many tensors")
            .expected(format!("at most {max}"))
            .hint("raise the limit with --limit tensors=N")
            .found(count));
    }
    let (mut tensors, mut names) = (Vec::new(), HashSet::new());
    for _ in 0..count {
        let at = cursor.at();
        let name = cursor.name()?;
        let entry = read_tensor(cursor, name.clone(), at).map_err(|error| error.tensor(&*name))?;
        if !names.insert(name) {
            return Err(Error::malformed("duplicate tensor name").tensor(entry.name).offset(at));
        }
        tensors.push(entry);
    }
    Ok(tensors)
}

fn read_tensor(cursor: &mut Cursor<'_>, name: String, at: u64) -> Result<Entry> {
    let dims_at = cursor.at();
    let rank = cursor.u32()?;
    if rank > MAX_DIMS {
        return Err(Error::malformed("a tensor has too many dimensions")
            .offset(dims_at)
            .expected(format!("at most {MAX_DIMS}"))
            .found(rank));
    }
    let mut shape = (0..rank).map(|_| cursor.u64()).collect::<Result<Vec<u64>>>()?;
    shape.reverse();
    let type_at = cursor.at();
    let ggml_type = GgmlType::of_code(cursor.u32()?).map_err(|error| error.offset(type_at))?;
    let bytes = ggml_type.bytes_of(&shape).map_err(|error| error.offset(dims_at))?;
    Ok(Entry { name, ggml_type, shape, bytes, offset: cursor.u64()?, at })
}
