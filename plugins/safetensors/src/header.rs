//! The header of a file: the dtype, shape and data range of each tensor, and the metadata.
//!
//! [`Header::read`] enforces the rules of `SafeTensors::read_metadata` and `Metadata::validate` in
//! the `safetensors` library. It also enforces two rules from the format description: the header
//! starts with `{`, and its keys are unique.

use crate::entries::{Entries, Entry};
use std::collections::BTreeMap;
use tensorferry_hub::json::{self, ParseState};
use tensorferry_sdk::{DtypeInfo, Error, FileId, Limits, Result, Source};

/// Size in bytes of the field that contains the header's length. It is also the alignment of the
/// header.
pub(crate) const WORD: usize = 8;
/// Maximum length of a header. It equals `MAX_HEADER_SIZE` in the `safetensors` library.
pub(crate) const MAX_LEN: u64 = 100_000_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Offset of the tensor data in the file.
    pub(crate) data_offset: u64,
    pub(crate) data_len: u64,
    /// The tensors in the order of their data. If several tensors start at the same offset, at most
    /// one of them is not empty. The empty tensors come first, sorted by name.
    pub(crate) tensors: Vec<Entry>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Header {
    /// Reads and checks the header of a file. Memory use is bounded by the length of the file.
    pub(crate) fn read(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Self> {
        let header = json_len(source, file).and_then(|len| {
            let data_offset = WORD as u64 + len;
            let bytes = source.read_vec(file, WORD as u64, len, limits)?;
            let scope = ParseState::new(limits);
            let (tensors, metadata) = json::parse(&bytes, WORD as u64, &scope, Entries(&scope))?;
            let mut header =
                Self { data_offset, data_len: source.len(file) - data_offset, tensors, metadata };
            header.tensors.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
            header.check()?;
            Ok(header)
        });
        header.map_err(|error| error.file(source.name(file)))
    }

    fn check(&self) -> Result<()> {
        let mut names: Vec<&str> = self.tensors.iter().map(|tensor| &*tensor.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::malformed("duplicate tensor name").tensor(twice[0]));
        }
        for tensor in &self.tensors {
            tensor
                .check_length()
                .map_err(|e| e.tensor(&*tensor.name).offset(self.file_offset(tensor.begin)))?;
        }
        let mut end = 0;
        for tensor in &self.tensors {
            if tensor.begin != end {
                let fault =
                    if tensor.begin < end { "a tensor overlaps" } else { "there is a gap before a tensor" };
                return Err(Error::malformed(fault)
                    .tensor(&*tensor.name)
                    .offset(self.file_offset(tensor.begin))
                    .expected(format!("data_offsets from {end}"))
                    .found(tensor.begin));
            }
            end = tensor.end;
        }
        if end != self.data_len {
            let fault = if end > self.data_len {
                "the data is truncated"
            } else {
                "there are bytes after the last tensor"
            };
            return Err(Error::malformed(fault)
                .offset(self.file_offset(end.min(self.data_len)))
                .expected(format!("{end} bytes of data"))
                .found(self.data_len));
        }
        Ok(())
    }

    fn file_offset(&self, data_offset: u64) -> u64 {
        self.data_offset.saturating_add(data_offset)
    }
}

impl Entry {
    fn check_length(&self) -> Result<()> {
        let info = self.dtype.info().ok_or_else(|| Error::plugin("the dtype has no description"))?;
        let len = byte_len(info, &self.shape)?;
        if self.end.checked_sub(self.begin) == Some(len) {
            return Ok(());
        }
        Err(Error::malformed("the data_offsets of a tensor do not match its shape")
            .expected(format!("{len} bytes for {} {:?}", info.name(), self.shape))
            .found(format!("data_offsets {:?}", [self.begin, self.end])))
    }
}

/// Returns the size of a tensor in bytes. Like the `safetensors` library, this multiplies the
/// dimensions in order, so an overflow is an error unless a zero dimension precedes it.
pub(crate) fn byte_len(info: &DtypeInfo, shape: &[u64]) -> Result<u64> {
    let elements = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim));
    let elements = elements.ok_or_else(|| {
        Error::malformed("the product of a tensor's dimensions does not fit in 64 bits")
            .found(format!("shape {shape:?}"))
    })?;
    info.bytes_of(elements)
}

/// Returns the length of a header's JSON. Checks that the length is valid and that the JSON starts
/// with `{`.
pub(crate) fn json_len(source: &dyn Source, file: FileId) -> Result<u64> {
    let file_len = source.len(file);
    let Some(room) = file_len.checked_sub(WORD as u64) else {
        return Err(Error::malformed("the file is too short for safetensors")
            .expected("at least 8 bytes")
            .found(file_len));
    };
    let mut word = [0; WORD];
    source.read_at(file, 0, &mut word)?;
    let len = u64::from_le_bytes(word);
    let max = room.min(MAX_LEN);
    if len > max {
        let than = if room < MAX_LEN { "its file" } else { "the format allows" };
        return Err(Error::malformed(format!("the header is longer than {than}"))
            .offset(0)
            .expected(format!("at most {max} bytes"))
            .found(len));
    }
    let mut first = *b" ";
    if len > 0 {
        source.read_at(file, WORD as u64, &mut first)?;
    }
    if first != *b"{" {
        return Err(Error::malformed("the header does not start with {").offset(WORD as u64));
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{ErrorKind, MemorySource};

    fn read(json: &str, data_len: usize) -> Result<Header> {
        read_bytes([&(json.len() as u64).to_le_bytes(), json.as_bytes(), &vec![7; data_len]].concat())
    }

    fn read_bytes(bytes: Vec<u8>) -> Result<Header> {
        let source = MemorySource::file("m", bytes);
        Header::read(&source, source.open("m")?, &Limits::default())
    }

    fn refusal(json: &str, data_len: usize) -> String {
        let error = read(json, data_len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        error.to_string()
    }

    #[test]
    fn tensors_come_in_the_order_of_their_data() {
        let header = read(
            r#"{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"__metadata__":{"k":"v"},
                "a":{"dtype":"F4","shape":[2,3],"data_offsets":[2,5]},
                "z":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},
                "y":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}   "#,
            5,
        )
        .unwrap();
        let names: Vec<&str> = header.tensors.iter().map(|t| &*t.name).collect();
        assert_eq!(names, ["b", "y", "z", "a"]);
        assert_eq!(header.metadata["k"], "v");
        assert_eq!(header.data_len, 5);
    }

    #[test]
    fn the_data_is_covered_once() {
        let two = |first: &str, second: &str| {
            format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
            )
        };
        assert!(read(&two("[4,8]", "[0,4]"), 8).is_ok());
        assert!(refusal(&two("[0,4]", "[3,7]"), 8).contains("overlaps (tensor \"b\""));
        assert!(refusal(&two("[0,4]", "[5,9]"), 9).contains("gap before a tensor"));
        assert!(
            refusal(&two("[0,4]", "[4,9]"), 9)
                .contains("expected 4 bytes for U8 [4], found data_offsets [4, 9]")
        );
        assert!(refusal(&two("[0,4]", "[8,4]"), 8).contains("do not match its shape"));
        assert!(refusal(&two("[0,4]", "[4,8]"), 7).contains("truncated"));
        assert!(refusal(&two("[0,4]", "[4,8]"), 9).contains("after the last tensor"));
        assert!(refusal(&two("[0,4]", "[-4,8]"), 8).contains("tensor \"b\""));
    }

    #[test]
    fn a_key_is_there_once() {
        let one = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
        assert!(refusal(&format!(r#"{{"a":{one},"a":{one}}}"#), 4).contains("duplicate tensor name"));
        assert!(refusal(r#"{"__metadata__":{},"__metadata__":{}}"#, 0).contains("is duplicated"));
        assert!(refusal(r#"{"__metadata__":{"a":"1","a":"1"}}"#, 0).contains("is duplicated"));
        let shapes = r#"{"a":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}}"#;
        assert!(refusal(shapes, 4).contains("is duplicated"));
    }

    #[test]
    fn metadata_is_text() {
        assert!(refusal(r#"{"__metadata__":{"a":1}}"#, 0).contains("expected a string"));
        assert!(refusal(r#"{"__metadata__":[]}"#, 0).contains("expected an object"));
        assert!(read(r#"{"__metadata__":null}"#, 0).is_ok());
    }

    #[test]
    fn products_do_not_overflow() {
        let shape =
            |shape: &str| format!(r#"{{"a":{{"dtype":"F64","shape":{shape},"data_offsets":[0,0]}}}}"#);
        assert!(refusal(&shape("[4294967296,4294967296]"), 0).contains("64 bits"));
        assert!(refusal(&shape("[2305843009213693952]"), 0).contains("64 bits"));
        assert!(refusal(&shape("[18446744073709551615,2,0]"), 0).contains("64 bits"));
        assert!(read(&shape("[18446744073709551615,0,2]"), 0).is_ok());
    }

    #[test]
    fn a_length_is_held_against_the_file() {
        assert!(
            read_bytes(u64::MAX.to_le_bytes().to_vec())
                .unwrap_err()
                .to_string()
                .contains("longer than its file")
        );
        let mut long = vec![b' '; 8 + 100_000_001];
        long[..8].copy_from_slice(&100_000_001_u64.to_le_bytes());
        assert!(read_bytes(long).unwrap_err().to_string().contains("than the format allows"));
        assert!(read_bytes(vec![0; 8]).unwrap_err().to_string().contains("start with {"));
        assert!(refusal(" {}", 0).contains("start with {"));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(1 << 16);
        assert!(refusal(&format!(r#"{{"a":{deep}"#), 0).contains("tensor \"a\""));
        assert!(refusal(&format!(r#"{{"a":{{"x":{deep}"#), 0).contains("recursion limit"));
        assert!(refusal(&format!(r#"{{"__metadata__":{deep}"#), 0).contains("an object"));
    }

    #[test]
    fn a_dtype_is_one_of_the_library() {
        let error = refusal(r#"{"t":{"dtype":"F99","shape":[],"data_offsets":[0,4]}}"#, 4);
        assert!(error.contains("unknown dtype \"F99\"") && error.contains("tensor \"t\""), "{error}");
        refusal(r#"{"t":{"dtype":"STR","shape":[],"data_offsets":[0,4]}}"#, 4);
        refusal(r#"{"t":{"shape":[],"data_offsets":[0,4]}}"#, 4);
    }
}
