//! A zip layout describes a zip archive as segments of an output file. Records are stored without
//! compression, and each payload starts at a multiple of 64 bytes. The central directory follows
//! the records.
//!
//! ```text
//! local header   30  "PK\3\4", version needed, flags 0x800 (UTF-8), method 0, time, date, crc,
//!                    compressed size, size, name length, extra length
//!   name
//!   extra 0x0001 20  if the size needs 64 bits: size, compressed size
//!   extra "FB"    4+ padding of 'Z' up to the alignment
//! payload
//! ...
//! central header 46  "PK\1\2", as above, and the local header's offset, for each record
//!   name
//!   extra 0x0001     whichever of size, compressed size and offset need 64 bits
//! end record     22  "PK\5\6", count, directory's length and offset; before it, if one of these
//!                    needs more bits, the zip64 end record (56) and its locator (20)
//! ```
//!
//! Sources: PKWARE's APPNOTE.TXT, and `caffe2/serialize/inline_container.cc` for "FB" and the
//! alignment. torch maps the file into memory and reads tensors in place. Sizes and checksums are
//! in the local headers. The checksum of a data record is known only after its bytes have been
//! copied, so the header of the record and the directory are deferred.

use tensorferry_sdk::{
    DeferredId, DigestAlgorithm, DigestId, Digests, Error, LayoutSink, OutputId, Result, SealSink,
};

/// Alignment of payloads in bytes. It is `kFieldAlignment` in torch.
const ALIGNMENT: u64 = 64;
/// The value of a 32-bit field whose actual number is in the zip64 extra field.
pub(crate) const IN_ZIP64: u32 = u32::MAX;
pub(crate) const VERSION_STORED: u16 = 20;
pub(crate) const VERSION_ZIP64: u16 = 45;
pub(crate) const FLAG_UTF8: u16 = 0x800;
/// The date of all entries: 1980-01-01, which is the earliest DOS date. A constant date ensures
/// that outputs do not depend on the clock.
pub(crate) const DOS_DATE: u16 = (1 << 5) | 1;

/// An archive under construction.
pub struct ZipLayout<'a> {
    layout: &'a mut dyn LayoutSink,
    file: OutputId,
    /// Prefix of all names: empty, or a folder.
    prefix: String,
    end: u64,
    records: Vec<PlannedRecord>,
}

/// The information that is needed to fill in the headers after the checksums are known.
#[derive(Debug)]
pub struct ZipPlan {
    records: Vec<PlannedRecord>,
    directory: DeferredId,
    directory_offset: u64,
}

#[derive(Debug)]
struct PlannedRecord {
    name: Box<str>,
    offset: u64,
    size: u64,
    crc: Crc,
}

#[derive(Debug, Clone, Copy)]
enum Crc {
    Known(u32),
    Asked { digest: DigestId, header: DeferredId },
}

impl<'a> ZipLayout<'a> {
    /// Starts an archive in `file`. If `root` is set, all records are in this folder.
    #[must_use]
    pub fn new(layout: &'a mut dyn LayoutSink, file: OutputId, root: Option<&str>) -> Self {
        let prefix = root.map(|root| format!("{root}/")).unwrap_or_default();
        Self { layout, file, prefix, end: 0, records: Vec::new() }
    }

    /// Adds a record whose bytes are known. Fails if the name is longer than 65,535 bytes, or if
    /// the length of the archive does not fit in 64 bits.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut sum = DigestAlgorithm::CRC32.start()?;
        sum.update(bytes);
        let crc =
            (*sum.digest().value).try_into().map_err(|_| Error::plugin("a CRC-32 must have four bytes"))?;
        let crc = u32::from_le_bytes(crc);
        let record = PlannedRecord {
            name: self.full_name(name),
            offset: self.end,
            size: bytes.len() as u64,
            crc: Crc::Known(crc),
        };
        let header = record.local_header(crc)?;
        self.layout.bytes(self.file, &header)?;
        self.layout.bytes(self.file, bytes)?;
        self.push(record, header.len())
    }

    /// Adds a record of `size` bytes. `payload` appends the bytes to the file and returns the
    /// offset of the first byte.
    pub fn data(
        &mut self,
        name: &str,
        size: u64,
        payload: impl FnOnce(&mut dyn LayoutSink, OutputId) -> Result<u64>,
    ) -> Result<()> {
        let mut record =
            PlannedRecord { name: self.full_name(name), offset: self.end, size, crc: Crc::Known(0) };
        let header_len = record.local_header(0)?.len();
        let header = self.layout.deferred(self.file, header_len as u64)?;
        let start = payload(&mut *self.layout, self.file)?;
        let digest = self.layout.digest(self.file, start..start + size, DigestAlgorithm::CRC32)?;
        record.crc = Crc::Asked { digest, header };
        self.push(record, header_len)
    }

    /// Adds the directory and the end record to the layout.
    pub fn finish(self) -> Result<ZipPlan> {
        let directory: u64 = self.records.iter().map(PlannedRecord::central_len).sum();
        let tail = tail(self.records.len() as u64, directory, self.end, false);
        let id = self.layout.deferred(self.file, directory + tail.len() as u64)?;
        Ok(ZipPlan { records: self.records, directory: id, directory_offset: self.end })
    }

    fn full_name(&self, name: &str) -> Box<str> {
        format!("{}{name}", self.prefix).into()
    }

    fn push(&mut self, record: PlannedRecord, header_len: usize) -> Result<()> {
        self.end = self
            .end
            .checked_add(header_len as u64)
            .and_then(|end| end.checked_add(record.size))
            .ok_or_else(|| Error::unsupported("the length of the archive does not fit in 64 bits"))?;
        self.records.push(record);
        Ok(())
    }
}

impl ZipPlan {
    /// Writes the headers with the checksums. Fails if the host did not compute all of them.
    pub fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink) -> Result<()> {
        let mut directory = Vec::new();
        for record in &self.records {
            let crc = match record.crc {
                Crc::Known(crc) => crc,
                Crc::Asked { digest, header } => {
                    let crc = digests.crc(digest)?;
                    output.deferred(header, &record.local_header(crc)?)?;
                    crc
                }
            };
            record.push_central_header(crc, &mut directory)?;
        }
        let tail = tail(self.records.len() as u64, directory.len() as u64, self.directory_offset, false);
        directory.extend(tail);
        output.deferred(self.directory, &directory)
    }
}

impl PlannedRecord {
    /// Returns the local header of a record, with padding that aligns the payload.
    fn local_header(&self, crc: u32) -> Result<Vec<u8>> {
        let mut extra = Vec::new();
        let zip64 = self.size >= IN_ZIP64.into();
        if zip64 {
            push_zip64(&mut extra, &[self.size, self.size])?;
        }
        let unpadded = self.offset + 30 + self.name.len() as u64 + extra.len() as u64 + 4;
        let pad = unpadded.next_multiple_of(ALIGNMENT) - unpadded;
        extra.extend(b"FB");
        push_u16(&mut extra, pad)?;
        extra.resize(extra.len() + usize::try_from(pad).unwrap_or(0), b'Z');

        let mut header = b"PK\x03\x04".to_vec();
        self.push_common(crc, if zip64 { VERSION_ZIP64 } else { VERSION_STORED }, extra.len(), &mut header)?;
        header.extend(self.name.as_bytes());
        header.extend(extra);
        Ok(header)
    }

    fn push_central_header(&self, crc: u32, directory: &mut Vec<u8>) -> Result<()> {
        let wide = self.wide_fields();
        let mut extra = Vec::new();
        if !wide.is_empty() {
            push_zip64(&mut extra, &wide)?;
        }
        let version = if wide.is_empty() { VERSION_STORED } else { VERSION_ZIP64 };
        directory.extend(b"PK\x01\x02");
        directory.extend(version.to_le_bytes());
        self.push_common(crc, version, extra.len(), directory)?;
        // The following fields are zero: comment length, disk, internal attributes, external
        // attributes.
        directory.extend([0; 2 + 2 + 2 + 4]);
        directory.extend(narrow(self.offset).to_le_bytes());
        directory.extend(self.name.as_bytes());
        directory.extend(extra);
        Ok(())
    }

    fn central_len(&self) -> u64 {
        let wide = self.wide_fields().len() as u64;
        46 + self.name.len() as u64 + if wide == 0 { 0 } else { 4 + 8 * wide }
    }

    /// Writes the fields that occur in both kinds of headers: from the version needed to the length
    /// of the extra fields.
    fn push_common(&self, crc: u32, version: u16, extra_len: usize, header: &mut Vec<u8>) -> Result<()> {
        let (method, time) = (0_u16, 0_u16);
        for field in [version, FLAG_UTF8, method, time, DOS_DATE] {
            header.extend(field.to_le_bytes());
        }
        for field in [crc, narrow(self.size), narrow(self.size)] {
            header.extend(field.to_le_bytes());
        }
        push_u16(header, self.name.len() as u64)?;
        push_u16(header, extra_len as u64)
    }

    /// Returns the numbers in the zip64 field of a directory entry, in order: the sizes, then the
    /// offset.
    fn wide_fields(&self) -> Vec<u64> {
        let mut fields = Vec::new();
        if self.size >= IN_ZIP64.into() {
            fields.extend([self.size, self.size]);
        }
        if self.offset >= IN_ZIP64.into() {
            fields.push(self.offset);
        }
        fields
    }
}

/// Returns the end record. If a number does not fit in its field, or if `is_wide` is set, the zip64
/// end record and its locator precede the end record.
pub(crate) fn tail(count: u64, directory_len: u64, directory_offset: u64, is_wide: bool) -> Vec<u8> {
    let mut tail = Vec::new();
    let short_count = u16::try_from(count).unwrap_or(u16::MAX);
    let wide = is_wide || directory_len >= IN_ZIP64.into() || directory_offset >= IN_ZIP64.into();
    if wide || short_count == u16::MAX {
        let zip64_end = directory_offset + directory_len;
        tail.extend(b"PK\x06\x06");
        // Length of the record, excluding the signature and this field.
        tail.extend(44_u64.to_le_bytes());
        tail.extend(VERSION_ZIP64.to_le_bytes());
        tail.extend(VERSION_ZIP64.to_le_bytes());
        tail.extend([0; 4 + 4]);
        for field in [count, count, directory_len, directory_offset] {
            tail.extend(field.to_le_bytes());
        }
        tail.extend(b"PK\x06\x07");
        tail.extend(0_u32.to_le_bytes());
        tail.extend(zip64_end.to_le_bytes());
        tail.extend(1_u32.to_le_bytes());
    }
    tail.extend(b"PK\x05\x06");
    tail.extend([0; 2 + 2]);
    tail.extend(short_count.to_le_bytes());
    tail.extend(short_count.to_le_bytes());
    tail.extend(narrow(directory_len).to_le_bytes());
    tail.extend(narrow(directory_offset).to_le_bytes());
    tail.extend([0; 2]);
    tail
}

pub(crate) fn push_zip64(extra: &mut Vec<u8>, fields: &[u64]) -> Result<()> {
    extra.extend(1_u16.to_le_bytes());
    push_u16(extra, 8 * fields.len() as u64)?;
    extra.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    Ok(())
}

pub(crate) fn push_u16(header: &mut Vec<u8>, value: u64) -> Result<()> {
    let value = u16::try_from(value)
        .map_err(|_| Error::unsupported("a field of a zip header does not fit in 16 bits"))?;
    header.extend(value.to_le_bytes());
    Ok(())
}

pub(crate) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(IN_ZIP64)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn record(offset: u64, size: u64) -> PlannedRecord {
        PlannedRecord { name: "archive/data/0".into(), offset, size, crc: Crc::Known(0) }
    }

    #[test]
    fn payloads_are_aligned_wherever_the_record_begins() {
        for offset in (0..200).chain([u64::from(u32::MAX), 1 << 40]) {
            for size in [0, 1, 0xffff_fffe, 0xffff_ffff, 1 << 33] {
                let header = record(offset, size).local_header(0).unwrap();
                assert_eq!((offset + header.len() as u64) % ALIGNMENT, 0);
                let extra = u16::from_le_bytes([header[28], header[29]]);
                assert_eq!(header.len(), 30 + "archive/data/0".len() + usize::from(extra));
            }
        }
    }

    #[test]
    fn wide_numbers_stand_in_the_zip64_field() {
        let header = record(0, 1 << 33).local_header(7).unwrap();
        assert_eq!(header[4..6], VERSION_ZIP64.to_le_bytes());
        assert_eq!(header[18..26], [0xff; 8]);
        let extra = &header[30 + "archive/data/0".len()..];
        assert_eq!(extra[..4], [1, 0, 16, 0]);
        assert_eq!(extra[4..12], (1_u64 << 33).to_le_bytes());
        assert_eq!(extra[20..22], *b"FB");

        let mut central = Vec::new();
        let far = record(1 << 40, 5);
        far.push_central_header(7, &mut central).unwrap();
        assert_eq!(central.len() as u64, far.central_len());
        assert_eq!(central[42..46], [0xff; 4]);
        assert_eq!(central[20..24], 5_u32.to_le_bytes());
        assert_eq!(central[central.len() - 12..][..4], [1, 0, 8, 0]);
        assert_eq!(central[central.len() - 8..], (1_u64 << 40).to_le_bytes());
    }

    #[test]
    fn the_end_record_is_wide_only_where_it_must_be() {
        assert_eq!(tail(65_534, 100, 1000, false).len(), 22);
        assert_eq!(tail(65_535, 100, 1000, false).len(), 98);
        assert_eq!(tail(3, 100, 0xffff_ffff, false).len(), 98);
        assert_eq!(tail(3, 100, 1000, true).len(), 98);
        let wide = tail(70_000, 100, 1000, false);
        assert_eq!(wide[24..32], 70_000_u64.to_le_bytes());
        assert_eq!(wide[56 + 8..56 + 16], 1100_u64.to_le_bytes());
        assert_eq!(wide[76 + 8..76 + 12], [0xff; 4]);
    }
}
