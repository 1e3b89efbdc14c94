//! Encodes headers in the same form as the `safetensors` library: compact JSON with the metadata
//! first, then the tensors in the order of their data. A header is padded with spaces so that the
//! data starts at a multiple of 8.

use crate::METADATA_KEY;
use crate::header::{MAX_LEN, WORD};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result};

/// A tensor to write. Its data directly follows the data of the previous tensor.
pub(crate) struct OutputTensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: &'a str,
    pub(crate) shape: &'a [u64],
    pub(crate) bytes: u64,
}

/// The JSON description of a tensor. The fields are in the same order as in `TensorInfo` of the
/// `safetensors` library.
#[derive(Serialize)]
struct Info<'a> {
    dtype: &'a str,
    shape: &'a [u64],
    data_offsets: (u64, u64),
}

/// Encodes the part of the file before the tensor data: the length of the header, then the header
/// itself.
pub(crate) fn encode(metadata: &BTreeMap<String, String>, tensors: &[OutputTensor<'_>]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; WORD];
    write_json(&mut bytes, metadata, tensors)
        .map_err(|e| Error::plugin(format!("cannot encode the header: {e}")))?;
    bytes.resize(bytes.len().next_multiple_of(WORD), b' ');
    let len = (bytes.len() - WORD) as u64;
    if len > MAX_LEN {
        return Err(Error::unsupported("the header is longer than safetensors allows")
            .expected(format!("at most {MAX_LEN} bytes"))
            .found(len)
            .hint("split the model with -o max_shard_size=SIZE"));
    }
    bytes[..WORD].copy_from_slice(&len.to_le_bytes());
    Ok(bytes)
}

fn write_json(
    bytes: &mut Vec<u8>,
    metadata: &BTreeMap<String, String>,
    tensors: &[OutputTensor<'_>],
) -> serde_json::Result<()> {
    let mut json = serde_json::Serializer::new(bytes);
    let mut map = json.serialize_map(None)?;
    if !metadata.is_empty() {
        map.serialize_entry(METADATA_KEY, metadata)?;
    }
    let mut begin: u64 = 0;
    for tensor in tensors {
        let end = begin.saturating_add(tensor.bytes);
        let info = Info { dtype: tensor.dtype, shape: tensor.shape, data_offsets: (begin, end) };
        map.serialize_entry(tensor.name, &info)?;
        begin = end;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_bytes_are_the_librarys() {
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        let tensor = OutputTensor { name: "a\n\"ü", dtype: "F32", shape: &[2, 1], bytes: 8 };
        let bytes = encode(&metadata, &[tensor]).unwrap();
        let json = "{\"__metadata__\":{\"format\":\"pt\"},\
                    \"a\\n\\\"ü\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
        assert_eq!(std::str::from_utf8(&bytes[8..]).unwrap().trim_end_matches(' '), json);
        assert_eq!(bytes[..8], (bytes.len() as u64 - 8).to_le_bytes());
        assert!(bytes.len().is_multiple_of(8));
    }

    #[test]
    fn no_tensors_and_no_metadata_are_an_empty_object() {
        assert_eq!(encode(&BTreeMap::new(), &[]).unwrap(), b"\x08\0\0\0\0\0\0\0{}      ");
    }
}
