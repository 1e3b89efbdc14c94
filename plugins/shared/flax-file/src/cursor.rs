//! A cursor reads the headers of msgpack values. It reads a few kilobytes of the file at a time,
//! and skips the elements of arrays between the headers.

use rmp::Marker;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Number of bytes per read.
const WINDOW: u64 = 8 << 10;

/// A position in a file, with a window of buffered bytes.
pub(crate) struct Cursor<'a> {
    source: &'a dyn Source,
    file: FileId,
    len: u64,
    position: u64,
    window: Vec<u8>,
    start: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the beginning of a file.
    pub(crate) fn new(source: &'a dyn Source, file: FileId) -> Self {
        Self { source, file, len: source.len(file), position: 0, window: Vec::new(), start: 0 }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes from the cursor to the end of the file.
    pub(crate) fn rest(&self) -> u64 {
        self.len - self.position
    }

    /// Checks that at least `len` bytes remain in the file. In the error message, `what` describes
    /// the value that has this length.
    pub(crate) fn check_remaining(&self, len: u64, what: &str) -> Result<()> {
        if len <= self.rest() {
            return Ok(());
        }
        Err(Error::malformed(format!("{what} reaches past the end of the file"))
            .offset(self.position)
            .expected(format!("at most {} bytes", self.rest()))
            .found(len))
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.check_remaining(len, "a value")?;
        self.position += len;
        Ok(())
    }

    /// Reads the next `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.check_remaining(N as u64, "a value")?;
        let inside = self.position.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let held = inside.and_then(|at| self.window.get(at..at + N));
        if let Some(held) = held {
            bytes.copy_from_slice(held);
        } else {
            let len = WINDOW.min(self.rest());
            self.window.resize(usize::try_from(len).unwrap_or_default(), 0);
            self.start = self.position;
            self.source.read_at(self.file, self.position, &mut self.window)?;
            bytes.copy_from_slice(&self.window[..N]);
        }
        self.position += N as u64;
        Ok(bytes)
    }

    /// Reads the first byte of the next value, which determines the value's type.
    pub(crate) fn marker(&mut self) -> Result<Marker> {
        Ok(Marker::from_u8(self.bytes::<1>()?[0]))
    }

    /// Reads a length of one, two or four bytes.
    pub(crate) fn length(&mut self, bytes: u8) -> Result<u64> {
        Ok(match bytes {
            1 => u64::from(self.bytes::<1>()?[0]),
            2 => u64::from(u16::from_be_bytes(self.bytes()?)),
            _ => u64::from(u32::from_be_bytes(self.bytes()?)),
        })
    }

    /// Reads `len` bytes into memory.
    pub(crate) fn vec(&mut self, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        self.check_remaining(len, "a value")?;
        let bytes = self.source.read_vec(self.file, self.position, len, limits)?;
        self.position += len;
        Ok(bytes)
    }

    /// Reads `len` bytes as a UTF-8 string.
    pub(crate) fn text(&mut self, len: u64, limits: &Limits) -> Result<String> {
        let at = self.position;
        String::from_utf8(self.vec(len, limits)?).map_err(|error| {
            let at = at + error.utf8_error().valid_up_to() as u64;
            Error::malformed("a string is not UTF-8").offset(at)
        })
    }

    /// If the marker starts a string, reads its length.
    pub(crate) fn text_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.length(1)?,
            Marker::Str16 => self.length(2)?,
            Marker::Str32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// If the marker starts a byte string, reads its length.
    pub(crate) fn bin_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::Bin8 => self.length(1)?,
            Marker::Bin16 => self.length(2)?,
            Marker::Bin32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// If the marker starts a list, reads its number of items.
    pub(crate) fn list_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixArray(len) => len.into(),
            Marker::Array16 => self.length(2)?,
            Marker::Array32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// If the marker starts an integer, reads it.
    pub(crate) fn integer(&mut self, marker: Marker) -> Result<Option<i128>> {
        Ok(Some(match marker {
            Marker::FixPos(value) => value.into(),
            Marker::FixNeg(value) => value.into(),
            Marker::U8 => u8::from_be_bytes(self.bytes()?).into(),
            Marker::U16 => u16::from_be_bytes(self.bytes()?).into(),
            Marker::U32 => u32::from_be_bytes(self.bytes()?).into(),
            Marker::U64 => u64::from_be_bytes(self.bytes()?).into(),
            Marker::I8 => i8::from_be_bytes(self.bytes()?).into(),
            Marker::I16 => i16::from_be_bytes(self.bytes()?).into(),
            Marker::I32 => i32::from_be_bytes(self.bytes()?).into(),
            Marker::I64 => i64::from_be_bytes(self.bytes()?).into(),
            _ => return Ok(None),
        }))
    }

    /// If the marker starts a float, reads it. Also returns whether the file stores the float in 32
    /// bits.
    pub(crate) fn float(&mut self, marker: Marker) -> Result<Option<(f64, bool)>> {
        Ok(Some(match marker {
            Marker::F32 => (f32::from_be_bytes(self.bytes()?).into(), true),
            Marker::F64 => (f64::from_be_bytes(self.bytes()?), false),
            _ => return Ok(None),
        }))
    }
}
