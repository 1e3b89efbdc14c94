//! An open shard. The table of sample offsets is checked before any sample is read.
//!
//! ```text
//! u32 n | u32 offset of each sample, and of the end | configuration | samples
//! ```

use super::compressed::Decompressed;
use crate::codec::Codec;
use crate::hash::Verifier;
use crate::index::{File, Shard};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::records::FileCursor;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Minimum size of a split in bytes.
const SPLIT: u64 = 8 << 20;
/// Maximum number of bytes that are hashed in one step.
const HASHED: usize = 1 << 20;

/// A shard whose file exists and has the length that the index specifies.
pub(super) struct OpenShard {
    source: Arc<dyn Source>,
    name: String,
    file: FileId,
    codec: Option<Codec>,
    shard: Shard,
    is_verified: bool,
}

/// Consecutive samples of a shard.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) samples: Range<u64>,
    /// Offset of the samples in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl OpenShard {
    /// Opens a shard in a folder. Uses the uncompressed file if it exists, and the compressed file
    /// otherwise.
    pub(super) fn new(
        source: &Arc<dyn Source>,
        folder: &str,
        shard: Shard,
        is_verified: bool,
    ) -> Result<Self> {
        let path = |file: &File| format!("{folder}{}", file.basename);
        let plain = path(&shard.raw);
        let (name, codec, declared) = match &shard.zip {
            Some((codec, zip)) if !source.contains(&plain)? => (path(zip), Some(*codec), zip),
            _ => (plain, None, &shard.raw),
        };
        if !source.contains(&name)? {
            return Err(Error::malformed("a shard that the index lists is missing").file(name));
        }
        let file = source.open(&name)?;
        let len = source.len(file);
        if len != declared.bytes {
            let error = Error::malformed("the length of a shard differs from the index").file(name);
            return Err(error.expected(format!("{} bytes", declared.bytes)).found(len));
        }
        Ok(Self { source: source.clone(), name, file, codec, shard, is_verified })
    }

    pub(super) fn file_name(&self) -> &str {
        &self.name
    }

    /// Divides the samples into parts, which become splits.
    pub(super) fn parts(&self, limits: &Limits) -> Result<Vec<Part>> {
        let len = self.source.len(self.file);
        if self.codec.is_some() {
            return Ok(vec![Part { samples: 0..self.shard.samples, offset: 0, bytes: len }]);
        }
        let mut cursor = FileCursor::new(&self.source, &self.name, limits)?;
        let mut table = self.table(u32::from_le_bytes(cursor.array()?), len)?;
        let mut parts = Vec::new();
        let (mut first, mut start) = (0, table.next(cursor.array()?)?);
        for sample in 1..=self.shard.samples {
            let end = table.next(cursor.array()?)?;
            if end - start >= SPLIT || sample == self.shard.samples {
                parts.push(Part { samples: first..sample, offset: start, bytes: end - start });
                (first, start) = (sample, end);
            }
        }
        if parts.is_empty() {
            parts.push(Part { samples: 0..0, offset: start, bytes: 0 });
        }
        table.end()?;
        Ok(parts)
    }

    /// Returns a checker for the table of a shard that has `count` samples and `len` bytes.
    fn table(&self, count: u32, len: u64) -> Result<Table<'_>> {
        let samples = self.shard.samples;
        if u64::from(count) != samples {
            let error = Error::malformed("the number of samples in a shard differs from the index");
            return Err(error.file(&self.name).offset(0).expected(samples).found(count));
        }
        // The sum cannot overflow, because the number of samples fits in 32 bits.
        let head = 4 + 4 * (samples + 1);
        if head > len {
            let error = Error::malformed("a shard ends within its table").file(&self.name);
            return Err(error.expected(format!("{head} bytes")).found(len));
        }
        Ok(Table { shard: self, at: 4, min: head, max: len })
    }

    /// Compares the hashes of the file with those in the index.
    fn verify(&self) -> Result<()> {
        let declared = match (&self.shard.zip, self.codec) {
            (Some((_, zip)), Some(_)) => &zip.hashes,
            _ => &self.shard.raw.hashes,
        };
        let mut verifier = Verifier::new(declared);
        if verifier.is_empty() {
            return Ok(());
        }
        let len = self.source.len(self.file);
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(HASHED).min(HASHED)];
        let mut offset = 0;
        while offset < len {
            let part = usize::try_from(len - offset).unwrap_or(HASHED).min(HASHED);
            self.source.read_at(self.file, offset, &mut buffer[..part])?;
            verifier.update(&buffer[..part]);
            offset += part as u64;
        }
        verifier.finish().map_err(|error| error.file(&self.name))
    }

    /// Opens a compressed shard at sample `first`. Also returns the offsets of this sample and all
    /// later samples.
    fn decompressed(
        &self,
        codec: Codec,
        first: u64,
        is_verified: bool,
        limits: &Limits,
    ) -> Result<(Decompressed, Vec<u32>)> {
        let declared = &self.shard.raw;
        let verifier = is_verified.then(|| Verifier::new(&declared.hashes));
        let mut input = Decompressed::new(&self.source, self.file, codec, declared.bytes, verifier, limits)?;
        let count = u32::from_le_bytes(*input.take(4)?.first_chunk().unwrap_or(&[0; 4]));
        let mut table = self.table(count, declared.bytes)?;
        let bytes = input.take(4 * (self.shard.samples + 1))?;
        let (offsets, _) = bytes.as_chunks();
        offsets.iter().try_for_each(|offset| table.next(*offset).map(drop))?;
        table.end()?;
        let skipped = usize::try_from(first).unwrap_or(usize::MAX);
        let offsets: Vec<u32> =
            offsets.iter().skip(skipped).map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let begin = offsets.first().copied().map_or(declared.bytes, u64::from);
        input.skip(begin.saturating_sub(input.offset()))?;
        Ok((input, offsets))
    }
}

/// Checker for a table of offsets.
struct Table<'a> {
    shard: &'a OpenShard,
    /// Position in the file of the table's next offset.
    at: u64,
    /// Minimum and maximum value of the next offset.
    min: u64,
    max: u64,
}

impl Table<'_> {
    fn next(&mut self, bytes: [u8; 4]) -> Result<u64> {
        let offset = u32::from_le_bytes(bytes).into();
        if !(self.min..=self.max).contains(&offset) {
            let error = Error::malformed("a sample does not follow the previous one within the file");
            let error = error.file(&self.shard.name).offset(self.at);
            return Err(error.expected(format!("{} to {}", self.min, self.max)).found(offset));
        }
        (self.min, self.at) = (offset, self.at + 4);
        Ok(offset)
    }

    /// Checks that the last offset is the end of the shard.
    fn end(&self) -> Result<()> {
        if self.min == self.max {
            return Ok(());
        }
        let error = Error::malformed("the last sample does not end at the end of the shard");
        Err(error.file(&self.shard.name).offset(self.at - 4).expected(self.max).found(self.min))
    }
}

/// Iterator over the samples of a part.
pub(super) struct Samples {
    shard: Arc<OpenShard>,
    input: Input,
    /// End offsets of the remaining samples.
    offsets: std::vec::IntoIter<u32>,
    begin: u64,
    number: u64,
    is_whole: bool,
}

enum Input {
    Plain(FileCursor),
    Compressed(Box<Decompressed>),
}

/// A sample of a shard. Samples are numbered from the start of the shard.
pub(super) struct Sample<'a> {
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl Samples {
    /// Opens the samples of a part, except the first `skip` samples. If the whole part is read,
    /// checks the hashes. In an uncompressed shard, opening the first part checks the hashes of the
    /// whole file.
    pub(super) fn new(
        shard: &Arc<OpenShard>,
        part: &Part,
        skip: u64,
        is_whole: bool,
        limits: &Limits,
    ) -> Result<Self> {
        let is_verified = is_whole && skip == 0 && shard.is_verified;
        if is_verified && part.samples.start == 0 {
            shard.verify()?;
        }
        let first = part.samples.start + skip.min(part.samples.end - part.samples.start);
        let count = part.samples.end - first;
        let (input, offsets) = match shard.codec {
            None => {
                let table = shard.source.read_vec(shard.file, 4 + 4 * first, 4 * (count + 1), limits)?;
                let offsets = offsets(&table);
                let cursor = FileCursor::new(&shard.source, &shard.name, limits)?;
                let begin = offsets.first().copied().unwrap_or_default();
                (Input::Plain(cursor.part(begin.into(), shard.source.len(shard.file))), offsets)
            }
            Some(codec) => {
                let (input, offsets) = shard.decompressed(codec, first, is_verified, limits)?;
                (Input::Compressed(Box::new(input)), offsets)
            }
        };
        let mut offsets = offsets.into_iter();
        let begin = offsets.next().unwrap_or_default().into();
        Ok(Self { shard: shard.clone(), input, offsets, begin, number: first, is_whole })
    }

    pub(super) fn next(&mut self) -> Result<Option<Sample<'_>>> {
        let Some(end) = self.offsets.next() else {
            return self.end().map(|()| None);
        };
        let (number, offset) = (self.number, self.begin);
        let len = u64::from(end).checked_sub(offset);
        let len = len.ok_or_else(|| {
            Error::malformed("a sample ends before it begins").file(&self.shard.name).record(number)
        })?;
        (self.begin, self.number) = (end.into(), number + 1);
        let bytes = match &mut self.input {
            Input::Plain(file) => file.take(len),
            Input::Compressed(file) => file.take(len),
        };
        let bytes = bytes.map_err(|error| error.file(&self.shard.name).record(number).offset(offset))?;
        Ok(Some(Sample { number, offset, bytes }))
    }

    fn end(&mut self) -> Result<()> {
        match &mut self.input {
            Input::Compressed(file) if self.is_whole => file.end(),
            _ => Ok(()),
        }
    }
}

fn offsets(table: &[u8]) -> Vec<u32> {
    let (offsets, _) = table.as_chunks();
    offsets.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
