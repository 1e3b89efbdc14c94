//! Reads and writes arrays. An array is stored as a msgpack extension that contains a header and
//! the elements.

use crate::cursor::Cursor;
use crate::{ARRAY, SCALAR, SCALAR_CLASS, dtype};
use rmp::encode::{write_array_len, write_bin_len, write_ext_meta, write_str, write_uint};
use tensorferry_sdk::{
    CatalogSink, Dtype, Error, FileId, Limits, Node, Result, Storage, StorageRange, TensorId, element_count,
};

/// Maximum number of dimensions, which is also numpy's maximum.
const MAX_DIMENSIONS: u64 = 64;
/// Maximum length in bytes of a dtype name. No known dtype has a longer name.
const MAX_NAME_BYTES: u64 = 64;

/// An array in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Offset of the extension in the file, for error messages.
    pub place: u64,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// Offset and length of the elements. If the array is chunked, there is one entry per chunk.
    pub ranges: Vec<(u64, u64)>,
    pub is_scalar: bool,
}

impl Array {
    /// Reads an array from the next `len` bytes at the cursor. These bytes are the payload of an
    /// extension.
    pub(crate) fn read(
        cursor: &mut Cursor<'_>,
        place: u64,
        kind: i8,
        len: u64,
        limits: &Limits,
    ) -> Result<Self> {
        let end = cursor.position() + len;
        let wrong = |cursor: &Cursor<'_>, what: &str| {
            let error = Error::malformed(format!("an array's {what}")).offset(cursor.position());
            error.expected("a list of shape, dtype name and bytes")
        };
        let marker = cursor.marker()?;
        if cursor.list_len(marker)? != Some(3) {
            return Err(wrong(cursor, "payload is not a list of three items"));
        }
        let marker = cursor.marker()?;
        let rank = cursor.list_len(marker)?.ok_or_else(|| wrong(cursor, "shape is not a list"))?;
        if rank > MAX_DIMENSIONS {
            let error = Error::malformed("an array has too many dimensions").offset(place);
            return Err(error.expected(format!("at most {MAX_DIMENSIONS}")).found(rank));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let marker = cursor.marker()?;
            let dim = cursor.integer(marker)?.and_then(|dim| u64::try_from(dim).ok());
            shape.push(dim.ok_or_else(|| wrong(cursor, "dimension is not a whole number"))?);
        }
        let marker = cursor.marker()?;
        let name_len = cursor.text_len(marker)?.ok_or_else(|| wrong(cursor, "dtype is not a string"))?;
        if name_len > MAX_NAME_BYTES {
            return Err(wrong(cursor, "dtype's name is too long").found(format!("{name_len} bytes")));
        }
        let dtype = dtype::parse(&cursor.text(name_len, limits)?).map_err(|error| error.offset(place))?;
        let marker = cursor.marker()?;
        let bytes = cursor.bin_len(marker)?.ok_or_else(|| wrong(cursor, "elements are not bytes"))?;
        let start = cursor.position();
        if start.checked_add(bytes) != Some(end) {
            let error = Error::malformed("an array's elements and its extension end at different offsets");
            return Err(error.offset(place).expected(end).found(format!("{bytes} bytes at {start}")));
        }
        let expected = bytes_of(dtype, &shape).map_err(|error| error.offset(place))?;
        if expected != bytes {
            let error = Error::malformed("an array's shape and its elements disagree").offset(place);
            return Err(error.expected(format!("{expected} bytes for shape {shape:?}")).found(bytes));
        }
        cursor.skip(bytes)?;
        let is_scalar = kind == SCALAR && shape.is_empty();
        Ok(Self { place, dtype, shape, ranges: vec![(start, bytes)], is_scalar })
    }

    /// Adds the array to the catalog as a tensor, and returns the tensor's node.
    pub fn tensor(&self, file: FileId, name: &str, catalog: &mut dyn CatalogSink) -> Result<Node> {
        let mut describe = || -> Result<TensorId> {
            let mut storages = Vec::with_capacity(self.ranges.len());
            for &(offset, len) in &self.ranges {
                let storage = catalog.storage(Storage::file(file, offset, len))?;
                storages.push(StorageRange { storage, offset: 0, len });
            }
            let storage = match &*storages {
                [one] => one.storage,
                _ => catalog.storage(Storage::joined(storages))?,
            };
            catalog.tensor(name, self.dtype, &self.shape, storage, 0)
        };
        let id = describe().map_err(|error| error.tensor(name).offset(self.place))?;
        let class = if self.is_scalar { SCALAR_CLASS } else { "" };
        Ok(Node { class: class.into(), ..Node::tensor(id) })
    }
}

/// Returns the length of an array in bytes.
pub fn bytes_of(dtype: Dtype, shape: &[u64]) -> Result<u64> {
    let info = dtype.info().ok_or_else(|| Error::plugin("unknown dtype"))?;
    info.bytes_of(element_count(shape)?)
}

/// Returns the encoded bytes that precede the elements of an array.
pub fn header(dtype: &str, shape: &[u64], bytes: u64, is_scalar: bool) -> Result<Vec<u8>> {
    let too_long = || Error::unsupported("the array is too long for one msgpack value").found(bytes);
    let mut inner = Vec::new();
    encoded(write_array_len(&mut inner, 3))?;
    encoded(write_array_len(&mut inner, u32::try_from(shape.len()).map_err(|_| too_long())?))?;
    for &dim in shape {
        encoded(write_uint(&mut inner, dim))?;
    }
    encoded(write_str(&mut inner, dtype))?;
    encoded(write_bin_len(&mut inner, u32::try_from(bytes).map_err(|_| too_long())?))?;
    let whole = bytes.checked_add(inner.len() as u64).and_then(|whole| u32::try_from(whole).ok());
    let mut header = Vec::with_capacity(inner.len() + 6);
    encoded(write_ext_meta(
        &mut header,
        whole.ok_or_else(too_long)?,
        if is_scalar { SCALAR } else { ARRAY },
    ))?;
    header.extend(inner);
    Ok(header)
}

/// Converts an encoder error to a plugin error. In practice, the encoder writes to memory and does
/// not fail.
pub fn encoded<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<()> {
    result.map(drop).map_err(|error| Error::plugin(format!("cannot encode msgpack: {error}")))
}
