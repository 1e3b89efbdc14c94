//! A cursor walks over a file's headers: it reads a few bytes here and there, and passes over the elements between.

use rmp::Marker;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes that are read at once.
const WINDOW: u64 = 8 << 10;

/// A place in a file.
pub(crate) struct Cursor<'a> {
    source: &'a dyn Source,
    file: FileId,
    len: u64,
    place: u64,
    window: Vec<u8>,
    start: u64,
}

impl<'a> Cursor<'a> {
    /// The beginning of a file.
    pub(crate) fn new(source: &'a dyn Source, file: FileId) -> Self {
        Self { source, file, len: source.len(file), place: 0, window: Vec::new(), start: 0 }
    }

    /// The next byte's offset.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// How many bytes follow.
    pub(crate) fn rest(&self) -> u64 {
        self.len - self.place
    }

    /// That so many bytes follow, which a value claims.
    pub(crate) fn claim(&self, len: u64, what: &str) -> Result<()> {
        if len <= self.rest() {
            return Ok(());
        }
        Err(Error::malformed(format!("{what} reaches past the file's end"))
            .offset(self.place)
            .expected(format!("at most {} bytes", self.rest()))
            .found(len))
    }

    /// Passes over so many bytes.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.claim(len, "a value")?;
        self.place += len;
        Ok(())
    }

    /// The next bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.claim(N as u64, "a value")?;
        let inside = self.place.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let held = inside.and_then(|at| self.window.get(at..at + N));
        if let Some(held) = held {
            bytes.copy_from_slice(held);
        } else {
            let len = WINDOW.min(self.rest());
            self.window.resize(usize::try_from(len).unwrap_or_default(), 0);
            self.start = self.place;
            self.source.read_at(self.file, self.place, &mut self.window)?;
            bytes.copy_from_slice(&self.window[..N]);
        }
        self.place += N as u64;
        Ok(bytes)
    }

    /// The next value's first byte.
    pub(crate) fn marker(&mut self) -> Result<Marker> {
        Ok(Marker::from_u8(self.bytes::<1>()?[0]))
    }

    /// A length in one, two or four bytes.
    pub(crate) fn length(&mut self, bytes: u8) -> Result<u64> {
        Ok(match bytes {
            1 => u64::from(self.bytes::<1>()?[0]),
            2 => u64::from(u16::from_be_bytes(self.bytes()?)),
            _ => u64::from(u32::from_be_bytes(self.bytes()?)),
        })
    }

    /// So many bytes, held in memory.
    pub(crate) fn vec(&mut self, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        self.claim(len, "a value")?;
        let bytes = self.source.read_vec(self.file, self.place, len, limits)?;
        self.place += len;
        Ok(bytes)
    }

    /// So many bytes as text.
    pub(crate) fn text(&mut self, len: u64, limits: &Limits) -> Result<String> {
        let at = self.place;
        String::from_utf8(self.vec(len, limits)?).map_err(|error| {
            let at = at + error.utf8_error().valid_up_to() as u64;
            Error::malformed("a text is not UTF-8").offset(at)
        })
    }

    /// The length of a text, if the marker is one's.
    pub(crate) fn text_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.length(1)?,
            Marker::Str16 => self.length(2)?,
            Marker::Str32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// The length of a run of bytes, if the marker is one's.
    pub(crate) fn bin_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::Bin8 => self.length(1)?,
            Marker::Bin16 => self.length(2)?,
            Marker::Bin32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// How many items a list has, if the marker is one's.
    pub(crate) fn list_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixArray(len) => len.into(),
            Marker::Array16 => self.length(2)?,
            Marker::Array32 => self.length(4)?,
            _ => return Ok(None),
        }))
    }

    /// An integer, if the marker is one's.
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

    /// A float, if the marker is one's, and whether it has 32 bits.
    pub(crate) fn float(&mut self, marker: Marker) -> Result<Option<(f64, bool)>> {
        Ok(Some(match marker {
            Marker::F32 => (f32::from_be_bytes(self.bytes()?).into(), true),
            Marker::F64 => (f64::from_be_bytes(self.bytes()?), false),
            _ => return Ok(None),
        }))
    }
}
