//! A wire walker goes through the fields of a protobuf message without holding it: the message is a
//! range of a file or of memory, and a field that has a length is given as the range of its content.
//!
//! ```text
//! message   field*
//! field     varint (number << 3 | type), then by type
//!           0  varint           1  8 bytes, little-endian
//!           2  varint n, n bytes (strings, messages, packed scalars)
//!           5  4 bytes, little-endian
//! varint    groups of 7 bits, lowest first; the top bit says that another byte follows; at most 10
//! ```
//!
//! Types 3 and 4 (groups) are in none of TensorFlow's messages and are refused, as are 6 and 7. A
//! length is checked against the enclosing range before anything is read by it. How deep to go is the
//! caller's: walking a sub-message is walking its range.
//!
//! Source: the encoding's description at protobuf.dev/programming-guides/encoding.

use std::ops::Range;
use tensorferry_sdk::{Error, FileId, Result, Source};

/// Bytes that are read from a file at once. Fields lie close together but for tensors' contents,
/// which are skipped: a larger window would read more of those.
const WINDOW: u64 = 16 << 10;
/// Bytes that are read and given at once where a range is gone through as a whole.
const CHUNK: u64 = 64 << 10;
/// A varint of 64 bits has no more bytes.
const MOST_VARINT_BYTES: u32 = 10;

/// Walks messages in one file, or in one piece of memory.
pub(crate) struct Wire<'a> {
    place: Place<'a>,
    window: Vec<u8>,
    window_start: u64,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    File { source: &'a dyn Source, file: FileId },
    Memory { bytes: &'a [u8], name: &'a str },
}

/// One field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its number.
    pub(crate) number: u32,
    /// Where its tag begins.
    pub(crate) at: u64,
    /// What it holds.
    pub(crate) value: Value,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// An integer, a boolean, an enumeration.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Where a string, a message or packed scalars lie.
    Bytes(Range<u64>),
}

impl<'a> Wire<'a> {
    /// A walker of a file's messages.
    pub(crate) fn of_file(source: &'a dyn Source, file: FileId) -> Self {
        Self::new(Place::File { source, file })
    }

    /// A walker of messages in memory; `name` is the file that errors name. Offsets are those in
    /// `bytes`, which errors do not show: they are no offsets of the file.
    pub(crate) fn of_memory(bytes: &'a [u8], name: &'a str) -> Self {
        Self::new(Place::Memory { bytes, name })
    }

    fn new(place: Place<'a>) -> Self {
        Self { place, window: Vec::new(), window_start: 0 }
    }

    /// All bytes that there are.
    pub(crate) fn whole(&self) -> Range<u64> {
        0..match self.place {
            Place::File { source, file } => source.len(file),
            Place::Memory { bytes, .. } => bytes.len() as u64,
        }
    }

    /// The first field of what is `rest` of a message; `rest` begins behind it then.
    ///
    /// # Errors
    /// Malformed, if a field reaches past the message's end, or is of no known type; i/o.
    pub(crate) fn next(&mut self, rest: &mut Range<u64>) -> Result<Option<Field>> {
        if rest.is_empty() {
            return Ok(None);
        }
        let at = rest.start;
        let tag = self.varint(rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| {
            self.malformed(at, "no protobuf field has this number").expected("1 to 536870911").found(tag >> 3)
        })?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint(rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed(rest)?)),
            2 => {
                let len = self.varint(rest)?;
                Value::Bytes(self.take(rest, len)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed(rest)?)),
            other => {
                let error = self.malformed(at, "no TensorFlow message has a protobuf field of this type");
                return Err(error.expected("0, 1, 2 or 5").found(other));
            }
        };
        Ok(Some(Field { number, at, value }))
    }

    /// The content of the last field of this number in a message: of a field that is no list, it is the
    /// one that counts.
    ///
    /// # Errors
    /// Malformed, if a field of this number has no length; i/o.
    pub(crate) fn last(&mut self, message: &Range<u64>, number: u32) -> Result<Option<Range<u64>>> {
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

    /// The varint at the beginning of `rest`, as packed scalars have one after the other.
    ///
    /// # Errors
    /// Malformed, if it does not end there, or has more than 64 bits; i/o.
    pub(crate) fn varint(&mut self, rest: &mut Range<u64>) -> Result<u64> {
        let at = rest.start;
        let mut value = 0_u64;
        for index in 0..MOST_VARINT_BYTES {
            let [byte] = self.fixed(rest)?;
            if index + 1 == MOST_VARINT_BYTES && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed(at, "a varint has more than 64 bits"))
    }

    /// The `N` bytes at the beginning of `rest`.
    ///
    /// # Errors
    /// Malformed, if there are fewer; i/o.
    pub(crate) fn fixed<const N: usize>(&mut self, rest: &mut Range<u64>) -> Result<[u8; N]> {
        let range = self.take(rest, N as u64)?;
        let mut bytes = [0; N];
        self.copy(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// A copy of the bytes of a field, once it is known that there are at most `most`.
    ///
    /// # Errors
    /// A limit; i/o.
    pub(crate) fn bytes(&mut self, range: &Range<u64>, most: u64) -> Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        if len > most {
            return Err(self
                .located(Error::limit("a field is too long to hold in memory"), range.start)
                .expected(format!("at most {most} bytes"))
                .found(len));
        }
        let len = usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))?;
        let mut bytes = vec![0; len];
        self.copy(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// A field that is text.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes); malformed, if it is not UTF-8.
    pub(crate) fn text(&mut self, range: &Range<u64>, most: u64) -> Result<String> {
        let bytes = self.bytes(range, most)?;
        String::from_utf8(bytes).map_err(|error| {
            let found = String::from_utf8_lossy(error.as_bytes()).into_owned();
            self.malformed(range.start, "a string field is not UTF-8").found(format!("{found:?}"))
        })
    }

    /// Gives the bytes of a range piece by piece, in order, however long it is.
    ///
    /// # Errors
    /// Malformed past the end; i/o; what `visit` returns.
    pub(crate) fn each_chunk(
        &self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let mut offset = range.start;
        while offset < range.end {
            let len = usize::try_from(CHUNK.min(range.end - offset)).unwrap_or(0);
            match self.place {
                Place::Memory { bytes, .. } => {
                    let held = slice(bytes, 0, offset, len);
                    visit(held.ok_or_else(|| self.too_short(offset, len as u64, 0))?)?;
                }
                Place::File { source, file } => {
                    buffer.resize(len, 0);
                    source.read_at(file, offset, &mut buffer)?;
                    visit(&buffer)?;
                }
            }
            offset += len as u64;
        }
        Ok(())
    }

    /// Gives each of the varints that are packed in a range.
    ///
    /// # Errors
    /// Malformed, if the last one does not end with the range, or one has more than 64 bits; i/o; what
    /// `visit` returns.
    pub(crate) fn each_varint(
        &self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        self.each_chunk(range, &mut |chunk| {
            for &byte in chunk {
                if shift > 63 || (shift == 63 && byte > 1) {
                    return Err(self.malformed(range.start, "a packed varint has more than 64 bits"));
                }
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    visit(value)?;
                    (value, shift) = (0, 0);
                }
            }
            Ok(())
        })?;
        if shift == 0 {
            Ok(())
        } else {
            Err(self.malformed(range.start, "the last packed varint does not end"))
        }
    }

    /// How many varints are packed in a range.
    ///
    /// # Errors
    /// As [`each_varint`](Self::each_varint).
    pub(crate) fn count_varints(&self, range: &Range<u64>) -> Result<u64> {
        let mut count = 0;
        self.each_varint(range, &mut |_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Another walker of the same bytes, with a window of its own: for two places that are read in turn.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.place)
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// Malformed past the end; i/o.
    pub(crate) fn copy(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (source, file) = match self.place {
            Place::Memory { bytes, .. } => {
                let held = slice(bytes, 0, offset, buffer.len());
                buffer.copy_from_slice(held.ok_or_else(|| self.too_short(offset, buffer.len() as u64, 0))?);
                return Ok(());
            }
            Place::File { source, file } => (source, file),
        };
        if buffer.len() as u64 > WINDOW {
            return source.read_at(file, offset, buffer);
        }
        if slice(&self.window, self.window_start, offset, buffer.len()).is_none() {
            let len = WINDOW.min(source.len(file).saturating_sub(offset));
            self.window.clear();
            self.window.resize(usize::try_from(len).unwrap_or(0), 0);
            self.window_start = offset;
            source.read_at(file, offset, &mut self.window)?;
        }
        let held = slice(&self.window, self.window_start, offset, buffer.len());
        buffer.copy_from_slice(held.ok_or_else(|| self.too_short(offset, buffer.len() as u64, 0))?);
        Ok(())
    }

    /// An error of the input, with its place.
    pub(crate) fn malformed(&self, offset: u64, message: &str) -> Error {
        self.located(Error::malformed(message), offset)
    }

    /// The error of a field that has another type than its number says.
    pub(crate) fn wrong_type(&self, at: u64) -> Error {
        self.malformed(at, "a protobuf field has another type than TensorFlow gives it")
    }

    /// An error with its place.
    pub(crate) fn located(&self, error: Error, offset: u64) -> Error {
        match self.place {
            Place::File { source, file } => error.file(source.name(file)).offset(offset),
            Place::Memory { name, .. } => error.file(name),
        }
    }

    /// Cuts `len` bytes from the beginning of `rest`.
    fn take(&self, rest: &mut Range<u64>, len: u64) -> Result<Range<u64>> {
        let left = rest.end.saturating_sub(rest.start);
        if len > left {
            return Err(self.too_short(rest.start, len, left));
        }
        let taken = rest.start..rest.start + len;
        rest.start = taken.end;
        Ok(taken)
    }

    fn too_short(&self, offset: u64, len: u64, left: u64) -> Error {
        self.malformed(offset, "a protobuf field reaches past the end of its message")
            .expected(format!("{len} bytes"))
            .found(format!("{left} bytes"))
    }
}

/// `len` bytes at `offset`, where `bytes` begin at `start`.
fn slice(bytes: &[u8], start: u64, offset: u64, len: usize) -> Option<&[u8]> {
    let from = usize::try_from(offset.checked_sub(start)?).ok()?;
    bytes.get(from..from.checked_add(len)?)
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
        ];
        let expected = vec![
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1 | 0x80 << 56)),
            (3, Value::Bytes(14..16)),
            (4, Value::Fixed32(4)),
            (16, Value::Varint(0)),
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
            (&[0x0b, 0x0c], "of this type"),
            (&[0x00, 0x00], "this number"),
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
        assert!(error.contains("file \"x.pb\", offset 4"), "{error}");
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
