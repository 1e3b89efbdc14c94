//! A deflated layout describes a zip archive with compressed entries. The entries are compressed in
//! parallel, and each entry is a separate segment of the output file. The compressed lengths are
//! known only after compression, so the local headers and the directory are deferred.
//!
//! The headers have the same fields as in `layout.rs`, but the compression method is 8. There is no
//! padding, because compressed data is not memory-mapped. The length of a deferred segment must be
//! known before compression starts. Therefore, all entries get zip64 fields if the archive could
//! need them at its maximum size.

use crate::layout::{
    DOS_DATE, FLAG_UTF8, IN_ZIP64, VERSION_STORED, VERSION_ZIP64, narrow, push_u16, push_zip64, tail,
};
use flate2::{Compress, Compression, FlushCompress, Status};
use tensorferry_sdk::{
    ByteSink, DeferredId, Digests, Encoded, EncodedId, Error, LayoutSink, OutputId, Result, SealSink,
    TensorId,
};

const DEFLATE: u16 = 8;
/// Length of the compressor's output buffer in bytes.
const BUFFER: usize = 64 << 10;

/// A compressed archive under construction.
pub struct DeflatedLayout<'a> {
    layout: &'a mut dyn LayoutSink,
    file: OutputId,
    is_wide: bool,
    entries: Vec<DeflatedEntry>,
}

/// The information that is needed to fill in the headers after the entries have been compressed.
#[derive(Debug)]
pub struct DeflatedPlan {
    is_wide: bool,
    entries: Vec<DeflatedEntry>,
    directory: DeferredId,
}

#[derive(Debug)]
struct DeflatedEntry {
    name: Box<str>,
    /// Length in bytes before compression.
    len: u64,
    header: DeferredId,
    segment: EncodedId,
}

/// An entry's header fields whose values are known only after compression.
struct EntryFields {
    crc: u32,
    stored: u64,
    len: u64,
    offset: u64,
}

impl<'a> DeflatedLayout<'a> {
    /// Starts an archive in `file`. `entries` contains the name and uncompressed length of each
    /// entry that will be added.
    pub fn new<'n>(
        layout: &'a mut dyn LayoutSink,
        file: OutputId,
        entries: impl IntoIterator<Item = (&'n str, u64)>,
    ) -> Self {
        // Per entry: 46 bytes and the name in the directory, 30 bytes and the name before the
        // entry, and 32 + 20 bytes of zip64 fields. The first 0x1000 bytes cover the end records.
        let max = entries.into_iter().fold(0x1000_u64, |max, (name, len)| {
            max.saturating_add(max_stored_len(len)).saturating_add(128 + 2 * name.len() as u64)
        });
        Self { layout, file, is_wide: max >= IN_ZIP64.into(), entries: Vec::new() }
    }

    /// Adds an entry of `len` bytes that contains a tensor. Returns the ID that is later passed to
    /// [`TensorPlan::encode`](tensorferry_sdk::TensorPlan::encode), which must use a [`Deflater`].
    pub fn entry(&mut self, name: &str, len: u64, tensor: TensorId) -> Result<EncodedId> {
        let nothing = EntryFields { crc: 0, stored: 0, len: 0, offset: 0 };
        let header =
            self.layout.deferred(self.file, local_header(name, &nothing, self.is_wide)?.len() as u64)?;
        let (segment, _) = self.layout.encoded(self.file, Encoded::tensors([tensor]))?;
        self.entries.push(DeflatedEntry { name: name.into(), len, header, segment });
        Ok(segment)
    }

    /// Adds the directory and the end record to the layout.
    pub fn finish(self) -> Result<DeflatedPlan> {
        let mut directory = Vec::new();
        let nothing = EntryFields { crc: 0, stored: 0, len: 0, offset: 0 };
        for entry in &self.entries {
            push_central_header(&entry.name, &nothing, self.is_wide, &mut directory)?;
        }
        directory.extend(tail(self.entries.len() as u64, 0, 0, self.is_wide));
        let directory = self.layout.deferred(self.file, directory.len() as u64)?;
        Ok(DeflatedPlan { is_wide: self.is_wide, entries: self.entries, directory })
    }
}

impl DeflatedPlan {
    /// Writes the headers, which contain the locations and checksums of the entries. Fails if an
    /// entry was not encoded with a [`Deflater`].
    pub fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink) -> Result<()> {
        let (mut directory, mut offset) = (Vec::new(), 0);
        for entry in &self.entries {
            let place = digests.encoded(entry.segment)?;
            let crc = place.note.try_into().map_err(|_| Error::plugin("an entry without its CRC"))?;
            let facts =
                EntryFields { crc: u32::from_le_bytes(crc), stored: place.len, len: entry.len, offset };
            output.deferred(entry.header, &local_header(&entry.name, &facts, self.is_wide)?)?;
            push_central_header(&entry.name, &facts, self.is_wide, &mut directory)?;
            offset = place.offset + place.len;
        }
        let tail = tail(self.entries.len() as u64, directory.len() as u64, offset, self.is_wide);
        directory.extend(tail);
        output.deferred(self.directory, &directory)
    }
}

/// Returns the maximum stored length of an entry. Incompressible data is stored in blocks, with an
/// overhead of five bytes per block.
fn max_stored_len(len: u64) -> u64 {
    len.saturating_add(len / 1000).saturating_add(64)
}

fn local_header(name: &str, facts: &EntryFields, is_wide: bool) -> Result<Vec<u8>> {
    let mut extra = Vec::new();
    if is_wide {
        push_zip64(&mut extra, &[facts.len, facts.stored])?;
    }
    let mut header = b"PK\x03\x04".to_vec();
    push_common(name, facts, is_wide, extra.len(), &mut header)?;
    header.extend(name.as_bytes());
    header.extend(extra);
    Ok(header)
}

fn push_central_header(
    name: &str,
    facts: &EntryFields,
    is_wide: bool,
    directory: &mut Vec<u8>,
) -> Result<()> {
    let mut extra = Vec::new();
    if is_wide {
        push_zip64(&mut extra, &[facts.len, facts.stored, facts.offset])?;
    }
    directory.extend(b"PK\x01\x02");
    directory.extend(version(is_wide).to_le_bytes());
    push_common(name, facts, is_wide, extra.len(), directory)?;
    // The following fields are zero: comment length, disk, internal attributes, external
    // attributes.
    directory.extend([0; 2 + 2 + 2 + 4]);
    directory.extend(if is_wide { IN_ZIP64 } else { narrow(facts.offset) }.to_le_bytes());
    directory.extend(name.as_bytes());
    directory.extend(extra);
    Ok(())
}

fn push_common(
    name: &str,
    facts: &EntryFields,
    is_wide: bool,
    extra_len: usize,
    header: &mut Vec<u8>,
) -> Result<()> {
    let time = 0_u16;
    for field in [version(is_wide), FLAG_UTF8, DEFLATE, time, DOS_DATE] {
        header.extend(field.to_le_bytes());
    }
    header.extend(facts.crc.to_le_bytes());
    for size in [facts.stored, facts.len] {
        header.extend(if is_wide { IN_ZIP64 } else { narrow(size) }.to_le_bytes());
    }
    push_u16(header, name.len() as u64)?;
    push_u16(header, extra_len as u64)
}

fn version(is_wide: bool) -> u16 {
    if is_wide { VERSION_ZIP64 } else { VERSION_STORED }
}

/// A compressor that writes to a sink. It uses zlib's default level, like `numpy.savez_compressed`.
pub struct Deflater<'a> {
    output: &'a mut dyn ByteSink,
    compress: Compress,
    buffer: Vec<u8>,
    crc: crc32fast::Hasher,
}

impl<'a> Deflater<'a> {
    pub fn new(output: &'a mut dyn ByteSink) -> Self {
        let compress = Compress::new(Compression::default(), false);
        Self { output, compress, buffer: vec![0; BUFFER], crc: crc32fast::Hasher::new() }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let before = self.compress.total_in();
            self.step(rest, FlushCompress::None)?;
            let used = usize::try_from(self.compress.total_in() - before).unwrap_or(rest.len());
            rest = rest.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the stream. Returns the CRC-32 as the note that is passed to the plan.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        while self.step(&[], FlushCompress::Finish)? != Status::StreamEnd {}
        Ok(self.crc.finalize().to_le_bytes().to_vec())
    }

    fn step(&mut self, input: &[u8], flush: FlushCompress) -> Result<Status> {
        let before = self.compress.total_out();
        let status = self.compress.compress(input, &mut self.buffer, flush);
        let status = status.map_err(|e| Error::plugin(format!("deflate: {e}")))?;
        let made = usize::try_from(self.compress.total_out() - before).unwrap_or(usize::MAX);
        self.output.write(self.buffer.get(..made).unwrap_or_default())?;
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn headers_are_as_long_as_was_reserved() {
        let nothing = EntryFields { crc: 0, stored: 0, len: 0, offset: 0 };
        let long = EntryFields { crc: 7, stored: 5 << 32, len: 6 << 32, offset: 7 << 32 };
        let header = local_header("a.npy", &long, true).unwrap();
        assert_eq!(header.len(), local_header("a.npy", &nothing, true).unwrap().len());
        assert_eq!((&header[18..26], &header[35..39]), (&[0xff; 8][..], &[1, 0, 16, 0][..]));
        assert_eq!(header[39..47], (6_u64 << 32).to_le_bytes());
        let mut central = Vec::new();
        push_central_header("a.npy", &long, true, &mut central).unwrap();
        assert_eq!(central[central.len() - 8..], (7_u64 << 32).to_le_bytes());
        assert_eq!(local_header("a.npy", &nothing, false).unwrap().len(), 35);
    }

    #[test]
    fn what_cannot_be_compressed_fits_what_was_reckoned() {
        let noise = tensorferry_test_kit::random::bytes(300_000, 1);
        for len in [0, 1, 1000, 300_000] {
            let mut output = Vec::new();
            let mut deflater = Deflater::new(&mut output);
            deflater.write(&noise[..len]).unwrap();
            deflater.finish().unwrap();
            assert!(output.len() as u64 <= max_stored_len(len as u64), "{len}: {}", output.len());
        }
    }
}
