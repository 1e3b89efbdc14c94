//! Reads protobuf messages that may be as long as their file. A message is a range of a file or of
//! memory. A field with a length is returned as the range of its content.
//!
//! The reader checks each length against the enclosing range before using the length. It never
//! recurses. To read a nested message, the caller reads the range of that message. As in all
//! protobuf readers, groups (types 3 and 4) are skipped. The format is described in
//! [`tensorferry_proto::wire`].

use std::ops::Range;
use tensorferry_proto::wire::{
    MAX_HEAD_BYTES, MAX_VARINT_BYTES, WireError, take_array, take_exact_varint, take_tag,
};
use tensorferry_sdk::{Error, FileId, Result, Source};

/// Number of bytes per read from a file. Most fields are close together, but the contents of
/// tensors between them are skipped. A larger window would mostly read more of the skipped
/// contents.
const WINDOW: u64 = 16 << 10;
/// Number of bytes per read of a long range.
const CHUNK: u64 = 64 << 10;
/// Maximum nesting depth of groups, which is the same as in protobuf's own readers.
const MAX_GROUP_DEPTH: usize = 100;

/// A reader of the messages in one file or one byte slice.
pub struct Wire<'a> {
    input: Input<'a>,
    window: Vec<u8>,
    window_start: u64,
}

#[derive(Clone, Copy)]
enum Input<'a> {
    File { source: &'a dyn Source, file: FileId },
    Memory { bytes: &'a [u8], name: &'a str },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub number: u32,
    /// Offset of the field's tag.
    pub at: u64,
    pub value: Value,
}

/// The content of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer, boolean or enumeration.
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// The range of a string, a message or packed scalars.
    Bytes(Range<u64>),
    /// A group, which is skipped.
    Group,
}

/// The data that follows a field number: the value, or the length of the content.
enum FieldStart {
    Whole(Value),
    Len(u64),
    GroupStart,
    GroupEnd,
    Unknown(u32),
}

impl<'a> Wire<'a> {
    /// Creates a reader for the messages in a file.
    pub fn of_file(source: &'a dyn Source, file: FileId) -> Self {
        Self::new(Input::File { source, file })
    }

    /// Creates a reader for messages in memory. Errors contain `name` as the file name. They do not
    /// contain an offset, because offsets in `bytes` are not offsets in the file.
    pub fn of_memory(bytes: &'a [u8], name: &'a str) -> Self {
        Self::new(Input::Memory { bytes, name })
    }

    fn new(input: Input<'a>) -> Self {
        Self { input, window: Vec::new(), window_start: 0 }
    }

    /// Creates another reader of the same bytes. The new reader has a separate window, so that the
    /// caller can alternate between two positions.
    pub fn reopen(&self) -> Self {
        Self::new(self.input)
    }

    /// Returns the range of all bytes.
    pub fn whole(&self) -> Range<u64> {
        0..match self.input {
            Input::File { source, file } => source.len(file),
            Input::Memory { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Reads the first field of `rest`, which is the remainder of a message. Advances `rest` past
    /// the field.
    pub fn next(&mut self, rest: &mut Range<u64>) -> Result<Option<Field>> {
        if rest.is_empty() {
            return Ok(None);
        }
        let at = rest.start;
        let (number, head) = self.head(rest)?;
        let value = match head {
            FieldStart::Whole(value) => value,
            FieldStart::Len(len) => Value::Bytes(self.content(rest, len)?),
            FieldStart::GroupStart => {
                self.skip_group(rest, number)?;
                Value::Group
            }
            FieldStart::GroupEnd => {
                return Err(self.malformed(at, "the end of a protobuf group without its start"));
            }
            FieldStart::Unknown(other) => {
                let error = self.malformed(at, "unknown protobuf field type");
                return Err(error.expected("0 to 5").found(other));
            }
        };
        Ok(Some(Field { number, at, value }))
    }

    /// Reads the first field of `rest` up to the start of its content. Returns the field's number.
    fn head(&mut self, rest: &mut Range<u64>) -> Result<(u32, FieldStart)> {
        self.take(rest, MAX_HEAD_BYTES, |bytes| {
            let (number, wire_type) = take_tag(bytes, take_exact_varint)?;
            let head = match wire_type {
                0 => FieldStart::Whole(Value::Varint(take_exact_varint(bytes)?)),
                1 => FieldStart::Whole(Value::Fixed64(u64::from_le_bytes(take_array(bytes)?))),
                2 => FieldStart::Len(take_exact_varint(bytes)?),
                3 => FieldStart::GroupStart,
                4 => FieldStart::GroupEnd,
                5 => FieldStart::Whole(Value::Fixed32(u32::from_le_bytes(take_array(bytes)?))),
                other => FieldStart::Unknown(other),
            };
            Ok((number, head))
        })
    }

    /// Removes the next `len` bytes from `rest`, and returns their range.
    fn content(&self, rest: &mut Range<u64>, len: u64) -> Result<Range<u64>> {
        let left = rest.end - rest.start;
        if len > left {
            return Err(self.too_short(rest.start, left).expected(format!("{len} bytes")));
        }
        let start = rest.start;
        rest.start += len;
        Ok(start..rest.start)
    }

    /// Skips the rest of the group with this number, without recursion.
    fn skip_group(&mut self, rest: &mut Range<u64>, number: u32) -> Result<()> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let at = rest.start;
            match self.head(rest)? {
                (_, FieldStart::Whole(_)) => {}
                (_, FieldStart::Len(len)) => {
                    self.content(rest, len)?;
                }
                (number, FieldStart::GroupStart) if open.len() < MAX_GROUP_DEPTH => open.push(number),
                (number, FieldStart::GroupEnd) if number == innermost => drop(open.pop()),
                _ => return Err(self.malformed(at, "protobuf groups do not match, or are nested too deeply")),
            }
        }
        Ok(())
    }

    /// Returns the content of the next length-delimited field with this number in `rest`. Advances
    /// `rest` past that field.
    pub fn next_of(&mut self, rest: &mut Range<u64>, number: u32) -> Result<Option<Range<u64>>> {
        while let Some(field) = self.next(rest)? {
            match field.value {
                Value::Bytes(range) if field.number == number => return Ok(Some(range)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the content of the last field with this number in a message. If the field is not
    /// repeated, the last occurrence is its value. Fails if a field with this number is not
    /// length-delimited.
    pub fn last(&mut self, message: &Range<u64>, number: u32) -> Result<Option<Range<u64>>> {
        let mut found = None;
        let mut rest = message.clone();
        while let Some(field) = self.next(&mut rest)? {
            if field.number == number {
                let Value::Bytes(range) = field.value else { return Err(self.wrong_type(field.at)) };
                found = Some(range);
            }
        }
        Ok(found)
    }

    /// Reads the varint at the start of `rest`. Packed scalars are consecutive varints.
    pub fn varint(&mut self, rest: &mut Range<u64>) -> Result<u64> {
        self.take(rest, MAX_VARINT_BYTES, take_exact_varint)
    }

    /// Reads the `N` bytes at the start of `rest`.
    pub fn fixed<const N: usize>(&mut self, rest: &mut Range<u64>) -> Result<[u8; N]> {
        self.take(rest, N, take_array)
    }

    /// Passes each value in a range of packed varints to `visit`.
    pub fn each_varint(
        &mut self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut rest = range.clone();
        while !rest.is_empty() {
            visit(self.varint(&mut rest)?)?;
        }
        Ok(())
    }

    /// Copies the bytes of a field, or returns an error if there are more than `max`.
    pub fn bytes(&mut self, range: &Range<u64>, max: u64) -> Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        if len > max {
            return Err(self
                .located(Error::limit("a field is too long to hold in memory"), range.start)
                .expected(format!("at most {max} bytes"))
                .found(len));
        }
        let len = usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))?;
        let mut bytes = Vec::with_capacity(len);
        self.each_chunk(range, &mut |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Reads a field as UTF-8, or returns an error if it has more than `max` bytes.
    pub fn text(&mut self, range: &Range<u64>, max: u64) -> Result<String> {
        let bytes = self.bytes(range, max)?;
        String::from_utf8(bytes).map_err(|error| {
            let found = String::from_utf8_lossy(error.as_bytes()).into_owned();
            self.malformed(range.start, "a string field is not UTF-8").found(format!("{found:?}"))
        })
    }

    /// Passes the bytes of a range to `visit` in consecutive chunks. The range may have any length.
    pub fn each_chunk(
        &mut self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut rest = range.clone();
        let mut buffer = Vec::new();
        while !rest.is_empty() {
            let left = rest.end - rest.start;
            let chunk = match self.input {
                // Long ranges bypass the window, so that the window keeps the fields around the
                // range.
                Input::File { source, file } if left > WINDOW => {
                    buffer.resize(usize::try_from(left.min(CHUNK)).unwrap_or(0), 0);
                    source.read_at(file, rest.start, &mut buffer)?;
                    &buffer[..]
                }
                _ => self.buffered(&rest, left)?,
            };
            visit(chunk)?;
            rest.start += chunk.len() as u64;
        }
        Ok(())
    }

    /// Calls `take` to read a value of at most `max` bytes at the start of `rest`, and advances
    /// `rest`.
    fn take<T>(
        &mut self,
        rest: &mut Range<u64>,
        max: usize,
        take: impl FnOnce(&mut &[u8]) -> Result<T, WireError>,
    ) -> Result<T> {
        let left = rest.end.saturating_sub(rest.start);
        let mut bytes = self.buffered(rest, left.min(max as u64))?;
        let before = bytes.len();
        let taken = take(&mut bytes);
        let len = (before - bytes.len()) as u64;
        taken.map_err(|broken| self.broken(broken, rest.start, len, left)).inspect(|_| rest.start += len)
    }

    /// Returns the bytes at the start of `rest`. Fails if there are fewer than `min` bytes.
    fn buffered(&mut self, rest: &Range<u64>, min: u64) -> Result<&[u8]> {
        let (bytes, start) = match self.input {
            Input::Memory { bytes, .. } => (bytes, 0),
            Input::File { source, file } => {
                let end = self.window_start + self.window.len() as u64;
                if rest.start < self.window_start || rest.start + min > end {
                    let len = WINDOW.min(source.len(file).saturating_sub(rest.start));
                    self.window.resize(usize::try_from(len).unwrap_or(0), 0);
                    self.window_start = rest.start;
                    source.read_at(file, rest.start, &mut self.window)?;
                }
                (&self.window[..], self.window_start)
            }
        };
        let bytes = usize::try_from(rest.start - start).ok().and_then(|from| bytes.get(from..));
        let bytes = bytes.unwrap_or_default();
        if (bytes.len() as u64) < min {
            return Err(self.too_short(rest.start, bytes.len() as u64).expected(format!("{min} bytes")));
        }
        let len = usize::try_from(rest.end - rest.start).map_or(bytes.len(), |len| len.min(bytes.len()));
        Ok(&bytes[..len])
    }

    /// Returns the error for a field at `at`, after `taken` of the `left` bytes have been read.
    fn broken(&self, broken: WireError, at: u64, taken: u64, left: u64) -> Error {
        match broken {
            WireError::Truncated => self.too_short(at + taken, left - taken),
            WireError::Tag(tag) => {
                self.malformed(at, "invalid protobuf field number").expected("1 to 536870911").found(tag >> 3)
            }
            WireError::Varint | WireError::Group | WireError::Text => {
                self.malformed(at + taken, "a varint is longer than 64 bits")
            }
        }
    }

    fn too_short(&self, offset: u64, left: u64) -> Error {
        self.malformed(offset, "a protobuf field reaches past the end of its message")
            .found(format!("{left} bytes"))
    }

    /// Returns a "malformed" error with the file and the offset.
    pub fn malformed(&self, offset: u64, message: &str) -> Error {
        self.located(Error::malformed(message), offset)
    }

    /// Returns the error for a field whose wire type does not match its number.
    pub fn wrong_type(&self, at: u64) -> Error {
        self.malformed(at, "a protobuf field has a type that its message does not allow")
    }

    /// Adds the file and the offset to an error.
    pub fn located(&self, error: Error, offset: u64) -> Error {
        match self.input {
            Input::File { source, file } => error.file(source.name(file)).offset(offset),
            Input::Memory { name, .. } => error.file(name),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;
    use tensorferry_sdk::MemorySource;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value)>> {
        let mut wire = Wire::of_memory(bytes, "x.pb");
        let mut rest = wire.whole();
        let mut fields = Vec::new();
        while let Some(field) = wire.next(&mut rest)? {
            fields.push((field.number, field.value));
        }
        Ok(fields)
    }

    #[test]
    fn each_type_is_read() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: varint 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0x80, // 2: eight bytes
            0x1a, 2, b'a', b'b', // 3: two bytes
            0x25, 4, 0, 0, 0, // 4: four bytes
            0x80, 0x01, 0, // 16: varint 0
            0x2b, 0x0a, 1, 7, 0x33, 0x34, 0x2c, // 5: a group of a field and another group
        ];
        let expected = vec![
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1 | 0x80 << 56)),
            (3, Value::Bytes(14..16)),
            (4, Value::Fixed32(4)),
            (16, Value::Varint(0)),
            (5, Value::Group),
        ];
        assert_eq!(fields(&bytes).unwrap(), expected);
    }

    #[test]
    fn lengths_and_types_are_checked() {
        for (bytes, word) in [
            (&[0x0a, 3, 1, 2][..], "past the end"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "past the end"),
            (&[0x08], "past the end"),
            (&[0x08, 0x80], "past the end"),
            (&[0x0d, 1, 2, 3], "past the end"),
            (&[0x0b, 0x08, 1], "past the end"),
            (&[0x0b, 0x14], "groups"),
            (&[0x0c], "without its start"),
            (&[0x0f], "unknown protobuf field type"),
            (&[0x00, 0x00], "invalid protobuf field number"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "64 bits"),
        ] {
            assert!(fields(bytes).unwrap_err().message().contains(word), "{bytes:?}");
        }
    }

    #[test]
    fn long_fields_of_files_are_skipped_and_read_by_place() {
        let content = vec![7; 100_000];
        let mut bytes = vec![0x0a, 0xa0, 0x8d, 0x06];
        bytes.extend(&content);
        bytes.extend([0x10, 5]);
        let source = MemorySource::file("x.pb", bytes.clone());
        let mut wire = Wire::of_file(&source, source.open("x.pb").unwrap());
        let mut rest = wire.whole();
        let first = wire.next(&mut rest).unwrap().unwrap();
        assert_eq!(first.value, Value::Bytes(4..100_004));
        let second = wire.next(&mut rest).unwrap().unwrap();
        assert_eq!((second.at, second.value), (100_004, Value::Varint(5)));
        assert!(wire.next(&mut rest).unwrap().is_none());
        assert_eq!(wire.bytes(&(4..100_004), 100_000).unwrap(), content);
        assert!(wire.bytes(&(4..100_004), 99_999).is_err());

        let short = MemorySource::file("x.pb", &bytes[..99]);
        let mut wire = Wire::of_file(&short, FileId(0));
        let error = wire.next(&mut (0..99)).unwrap_err().to_string();
        assert!(error.starts_with("x.pb: ") && error.contains("offset 4"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(fields) = fields(&bytes) {
                for (_, value) in fields {
                    if let Value::Bytes(range) = value {
                        prop_assert!(range.end <= bytes.len() as u64);
                    }
                }
            }
        }
    }
}
