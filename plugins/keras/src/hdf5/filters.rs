//! Decodes chunks by undoing, in reverse order, the filters that were applied to them. Even for
//! hostile input, the output is never longer than a chunk's declared length.

use flate2::{Decompress, FlushDecompress, Status};
use hdf5_reader::checksum::fletcher32;
use std::sync::Arc;
use tensorferry_sdk::{ByteSink, Context, EncodedStorage, Error, Result, Source};
use tensorferry_zip::Extent;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const LZF: u16 = 32000;
/// Known filters that ferry does not support, with their names for error messages.
const UNSUPPORTED_FILTERS: &[(u16, &str)] = &[
    (4, "szip"),
    (5, "nbit"),
    (6, "scaleoffset"),
    (307, "bzip2"),
    (32001, "blosc"),
    (32004, "lz4"),
    (32008, "bitshuffle"),
    (32013, "zfp"),
    (32015, "zstd"),
    (32026, "blosc2"),
];
/// Length of a checksum in bytes.
const CHECKSUM_LEN: usize = 4;

/// The filters of a dataset, in the order in which they were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filters(Vec<u16>);

impl Filters {
    pub(crate) fn new(ids: Vec<u16>) -> Result<Self> {
        if let Some(id) = ids.iter().find(|id| ![DEFLATE, SHUFFLE, FLETCHER32, LZF].contains(id)) {
            let name = UNSUPPORTED_FILTERS.iter().find(|(known, _)| known == id);
            let name = name.map_or(String::new(), |(_, name)| format!(" ({name})"));
            return Err(Error::unsupported(format!("the chunks use the filter {id}{name}"))
                .expected("deflate, shuffle, fletcher32 or lzf")
                .hint("rewrite the file with h5repack -f GZIP=1"));
        }
        let compressing = ids.iter().filter(|id| [DEFLATE, LZF].contains(id)).count();
        if compressing > 1 || ids.len() > 32 {
            return Err(
                Error::unsupported("the chunks are compressed more than once").found(format!("{ids:?}"))
            );
        }
        Ok(Self(ids))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a chunk with this mask was stored without any filter applied.
    pub(crate) fn are_skipped(&self, mask: u32) -> bool {
        (0..self.0.len()).all(|place| mask >> place & 1 == 1)
    }

    /// Decodes a chunk whose decoded length is `len` bytes.
    fn undo(&self, stored: Vec<u8>, mask: u32, width: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = stored;
        for (place, id) in self.0.iter().enumerate().rev() {
            if mask >> place & 1 == 1 {
                continue;
            }
            // If earlier filters appended checksums, undoing this filter yields the chunk together
            // with these checksums.
            let earlier = self.0.iter().take(place).enumerate();
            let sums = earlier.filter(|(at, id)| **id == FLETCHER32 && mask >> at & 1 == 0).count();
            let max = len + CHECKSUM_LEN * sums;
            bytes = match *id {
                DEFLATE => inflate(&bytes, max)?,
                SHUFFLE => unshuffle(&bytes, width),
                FLETCHER32 => check(bytes)?,
                _ => decompress_lzf(&bytes, max)?,
            };
        }
        if bytes.len() == len {
            return Ok(bytes);
        }
        Err(Error::malformed("a decoded chunk has the wrong length")
            .expected(format!("{len} bytes"))
            .found(format!("{} bytes", bytes.len())))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct EncodedChunk {
    pub(crate) stored: Extent,
    pub(crate) filters: Arc<Filters>,
    pub(crate) mask: u32,
    /// Bytes per element.
    pub(crate) width: u32,
    /// Length of the decoded chunk in bytes.
    pub(crate) len: u64,
}

impl EncodedStorage for EncodedChunk {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let stored = self.stored.read(source, context.limits())?;
        let (width, len) = (self.width as usize, usize::try_from(self.len).unwrap_or(usize::MAX));
        let chunk = self
            .filters
            .undo(stored, self.mask, width, len)
            .map_err(|error| error.file(source.name(self.stored.file)).offset(self.stored.offset))?;
        output.write(&chunk)
    }
}

fn too_long_error(max: usize) -> Error {
    Error::malformed("a decoded chunk is too long").expected(format!("{max} bytes"))
}

fn inflate(input: &[u8], max: usize) -> Result<Vec<u8>> {
    let mut inflater = Decompress::new(true);
    // A byte of deflate data expands to at most 1,032 bytes, so the input length bounds the buffer
    // size. The buffer has room for one byte more than allowed, to detect output that is too long.
    let room = (max + 1).min(input.len().saturating_mul(1032).saturating_add(64));
    let mut output = Vec::with_capacity(room);
    let status = inflater.decompress_vec(input, &mut output, FlushDecompress::Finish);
    let status = status.map_err(|error| Error::malformed(format!("invalid deflate data: {error}")))?;
    match status {
        _ if output.len() > max => Err(too_long_error(max)),
        Status::StreamEnd => Ok(output),
        _ => Err(Error::malformed("the deflate data of a chunk is truncated")),
    }
}

/// Undoes the shuffle filter, which groups the bytes of a chunk by their position within an
/// element.
fn unshuffle(input: &[u8], width: usize) -> Vec<u8> {
    if width < 2 {
        return input.to_vec();
    }
    let count = input.len() / width;
    let mut output = vec![0; count * width];
    for (place, plane) in input.chunks_exact(count.max(1)).take(width).enumerate() {
        for (element, &byte) in output.chunks_exact_mut(width).zip(plane) {
            element[place] = byte;
        }
    }
    // The shuffle filter does not reorder the bytes after the last whole element.
    output.extend_from_slice(&input[count * width..]);
    output
}

fn check(mut input: Vec<u8>) -> Result<Vec<u8>> {
    let Some(len) = input.len().checked_sub(CHECKSUM_LEN) else {
        return Err(Error::malformed("a chunk is shorter than its checksum"));
    };
    let sum = input.split_off(len);
    let sum = sum.iter().rev().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte));
    let found = fletcher32(&input);
    // In files written before HDF5 1.6.3, the two bytes of each half of the checksum are swapped.
    let swapped = (found & 0x00ff_00ff) << 8 | (found & 0xff00_ff00) >> 8;
    if sum == found || sum == swapped {
        return Ok(input);
    }
    Err(Error::malformed("wrong checksum of a chunk (fletcher32)")
        .expected(format!("{sum:08x}"))
        .found(format!("{found:08x}")))
}

/// Decodes LZF data. A byte below 32 starts a run of literals, and the length of the run is the
/// byte plus one. Any other byte starts a back reference: three bits encode its length, and
/// thirteen bits encode its distance. Both numbers are stored with an offset.
fn decompress_lzf(input: &[u8], max: usize) -> Result<Vec<u8>> {
    let cut = || Error::malformed("the lzf data of a chunk is truncated");
    let mut output = Vec::with_capacity(max.min(input.len().saturating_mul(128)));
    let mut input = input.iter();
    while let Some(&control) = input.next() {
        let control = usize::from(control);
        if control < 32 {
            let literals = input.as_slice().get(..=control).ok_or_else(cut)?;
            output.extend_from_slice(literals);
            input = input.as_slice().get(control + 1..).unwrap_or_default().iter();
        } else {
            let mut len = control >> 5;
            if len == 7 {
                len += usize::from(*input.next().ok_or_else(cut)?);
            }
            let back = (control & 31) << 8 | usize::from(*input.next().ok_or_else(cut)?);
            let start = output.len().checked_sub(back + 1);
            let start = start.ok_or_else(|| Error::malformed("lzf data refers to bytes before its start"))?;
            for at in start..start + len + 2 {
                output.push(output[at]);
            }
        }
        if output.len() > max {
            return Err(too_long_error(max));
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn bytes_come_back_by_elements() {
        assert_eq!(unshuffle(b"adgbehcfix", 3), b"abcdefghix");
        assert_eq!(unshuffle(b"", 4), b"");
        assert_eq!(unshuffle(b"ab", 4), b"ab");
    }

    #[test]
    fn lzf_copies_what_overlaps() {
        // The data contains the literals "ab", followed by a reference that copies six bytes from
        // two bytes back.
        assert_eq!(decompress_lzf(&[1, b'a', b'b', 4 << 5, 1], 8).unwrap(), b"abababab");
        assert!(decompress_lzf(&[1, b'a', b'b', 4 << 5, 1], 7).is_err());
        assert!(decompress_lzf(&[0, b'a', 1 << 5, 1], 99).is_err());
        assert!(decompress_lzf(&[3, b'a'], 99).is_err());
        assert!(decompress_lzf(&[7 << 5], 99).is_err());
    }

    #[test]
    fn a_chunk_is_as_long_as_it_is() {
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&[7; 1000]).unwrap();
        let stored = encoder.finish().unwrap();
        let filters = Filters::new(vec![DEFLATE]).unwrap();
        assert_eq!(filters.undo(stored.clone(), 0, 1, 1000).unwrap(), [7; 1000]);
        for wrong in [0, 1, 999, 1001, 5000] {
            assert!(filters.undo(stored.clone(), 0, 1, wrong).is_err(), "{wrong}");
        }
        assert_eq!(filters.undo(stored.clone(), 1, 1, stored.len()).unwrap(), stored);
        assert!(filters.undo(stored[..stored.len() - 5].to_vec(), 0, 1, 1000).is_err());
        assert!(Filters::new(vec![DEFLATE, SHUFFLE, DEFLATE]).is_err());
        assert!(Filters::new(vec![32015]).unwrap_err().to_string().contains("32015 (zstd)"));
    }
}
