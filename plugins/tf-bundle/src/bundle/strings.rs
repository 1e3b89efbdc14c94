//! Reads an entry that contains strings: the lengths, the checksum of the lengths, and the strings.

use super::entry::DataRange;
use std::ops::Range;
use tensorferry_proto::masked_crc;
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{ByteOrder, Error, Limits, Result, Source, crc32c_append};

/// The strings of an entry, with checked lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Strings {
    range: DataRange,
    count: u64,
    /// The offset of the first string in the file.
    texts: u64,
    /// The checksum of the bytes before the first string. This checksum covers the lengths in
    /// fixed-width form; see [`append_length`].
    crc: u32,
}

impl Strings {
    /// Reads and checks the lengths of `count` strings.
    pub(super) fn check(
        source: &dyn Source,
        range: DataRange,
        count: u64,
        byte_order: ByteOrder,
    ) -> Result<Self> {
        Self::check_lengths(source, range, count, byte_order)
            .map_err(|error| error.file(source.name(range.file)).offset(range.offset))
    }

    fn check_lengths(
        source: &dyn Source,
        range: DataRange,
        count: u64,
        byte_order: ByteOrder,
    ) -> Result<Self> {
        // Each length occupies at least one byte, and the checksum of the lengths occupies four
        // bytes.
        if range.len.checked_sub(4).is_none_or(|room| room < count) {
            return Err(Error::malformed("the entry is too short for its strings")
                .expected(format!("{count} lengths and a checksum of 4 bytes"))
                .found(format!("{} bytes", range.len)));
        }
        let end = range.offset + range.len;
        let mut wire = Wire::of_file(source, range.file);
        let mut rest = range.offset..end;
        let (mut crc, mut total) = (0, Some(0_u64));
        for _ in 0..count {
            let len = wire.varint(&mut rest)?;
            total = total.and_then(|total| total.checked_add(len));
            crc = append_length(crc, len, byte_order);
        }
        let stored: [u8; 4] = wire.fixed(&mut rest)?;
        let expected = match byte_order {
            ByteOrder::Little => u32::from_le_bytes(stored),
            ByteOrder::Big => u32::from_be_bytes(stored),
        };
        if masked_crc::unmask(expected) != crc {
            return Err(Error::malformed("the checksum of the string lengths does not match")
                .expected(format!("masked crc32c {expected:#010x}"))
                .found(format!("{:#010x}", masked_crc::mask(crc))));
        }
        let texts = rest.start;
        if total != Some(end - texts) {
            return Err(Error::malformed(
                "the lengths of the strings do not add up to the size of the entry",
            )
            .expected(format!("{} bytes of strings", end - texts))
            .found(total.map_or("more than fits in 64 bits".to_owned(), |total| total.to_string())));
        }
        let strings = Self { range, count, texts, crc: crc32c_append(crc, &stored) };
        if texts == end {
            strings.check_crc(source, strings.crc)?;
        }
        Ok(strings)
    }

    /// Returns the size of the decoded strings in bytes, including the u64 length before each
    /// string.
    pub(super) fn logical_len(&self) -> Result<u64> {
        let lengths = self.count.checked_mul(8);
        lengths
            .and_then(|lengths| lengths.checked_add(self.text_len()))
            .ok_or_else(|| Error::malformed("the length of the strings does not fit in 64 bits"))
    }

    /// Returns the bytes of the only string in an entry. The entry must contain exactly one string.
    pub(super) fn only(&self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = source.read_vec(self.range.file, self.texts, self.text_len(), limits)?;
        self.check_crc(source, crc32c_append(self.crc, &bytes))?;
        Ok(bytes)
    }

    /// Returns a reader of the strings.
    pub(super) fn texts<'a>(&'a self, source: &'a dyn Source) -> Texts<'a> {
        let Self { range, texts, .. } = *self;
        Texts {
            strings: self,
            source,
            wires: [(); 2].map(|()| Wire::of_file(source, range.file)),
            lengths: range.offset..texts,
            next: texts,
            crc: self.crc,
        }
    }

    fn text_len(&self) -> u64 {
        self.range.offset + self.range.len - self.texts
    }

    fn check_crc(&self, source: &dyn Source, crc: u32) -> Result<()> {
        if crc == self.range.crc {
            return Ok(());
        }
        Err(Error::malformed("the checksum of the strings does not match")
            .file(source.name(self.range.file))
            .offset(self.range.offset)
            .expected(format!("crc32c {:#010x}", self.range.crc))
            .found(format!("{crc:#010x}")))
    }
}

/// Reads the strings of an entry in order.
pub(super) struct Texts<'a> {
    strings: &'a Strings,
    source: &'a dyn Source,
    /// A reader for the lengths and a reader for the strings.
    wires: [Wire<'a>; 2],
    /// The range of the lengths that have not been read yet.
    lengths: Range<u64>,
    /// The offset of the next string in the file.
    next: u64,
    crc: u32,
}

impl Texts<'_> {
    /// Passes the next string to `output` in pieces: its length as a `u64`, then its bytes.
    pub(super) fn next(&mut self, output: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let [lengths, texts] = &mut self.wires;
        let len = lengths.varint(&mut self.lengths)?;
        output(&len.to_le_bytes())?;
        let text = self.next..self.next.saturating_add(len);
        self.next = text.end;
        texts.each_chunk(&text, &mut |piece| {
            self.crc = crc32c_append(self.crc, piece);
            output(piece)
        })
    }

    /// Verifies the checksum of the entry after all strings have been read.
    pub(super) fn finish(self) -> Result<()> {
        self.strings.check_crc(self.source, self.crc)
    }
}

/// Adds a length to a checksum. The checksum covers the length as a fixed-width number in the byte
/// order of the bundle, not as the stored varint. The number occupies four bytes, or eight if
/// necessary.
pub(crate) fn append_length(crc: u32, len: u64, byte_order: ByteOrder) -> u32 {
    match (u32::try_from(len), byte_order) {
        (Ok(len), ByteOrder::Little) => crc32c_append(crc, &len.to_le_bytes()),
        (Ok(len), ByteOrder::Big) => crc32c_append(crc, &len.to_be_bytes()),
        (Err(_), ByteOrder::Little) => crc32c_append(crc, &len.to_le_bytes()),
        (Err(_), ByteOrder::Big) => crc32c_append(crc, &len.to_be_bytes()),
    }
}
