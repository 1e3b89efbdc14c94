//! Messages. A message consists of a flatbuffer and a body, whose layout the flatbuffer describes.
//! The reader checks the lengths before it allocates memory, and verifies the flatbuffer before it
//! uses it.

use super::experimental;
use crate::CONTINUATION;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{Footer, Message, MessageHeader, root_as_footer_with_opts, root_as_message_with_opts};
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, FileRange, Limits, Result, Source, check_range};

/// Maximum number of bytes that the verifier may visit in a flatbuffer, as a multiple of the
/// flatbuffer's length. In normal flatbuffers, only vtables are shared, so the ratio is less than
/// two.
const MAX_EXPANSION: usize = 8;
/// Number of bytes that the verifier may visit beyond the ratio, because short flatbuffers may
/// exceed it.
const EXTRA_BYTES: usize = 64 << 10;

#[derive(Clone)]
pub(super) struct SourceFile {
    source: Arc<dyn Source>,
    id: FileId,
}

impl SourceFile {
    pub(super) fn open(source: &Arc<dyn Source>, name: &str) -> Result<Self> {
        Ok(Self { id: source.open(name)?, source: source.clone() })
    }

    pub(super) fn name(&self) -> &str {
        self.source.name(self.id)
    }

    pub(super) fn len(&self) -> u64 {
        self.source.len(self.id)
    }

    pub(super) fn read(&self, offset: u64, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        self.source.read_vec(self.id, offset, len, limits)
    }

    pub(super) fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_at(self.id, offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(self.id, offset, buffer)
    }

    /// Returns the bytes of short ranges, each of which is an offset and a length.
    pub(super) fn read_ranges(&self, ranges: &[(u64, u64)]) -> Result<Vec<Vec<u8>>> {
        let ranges: Vec<FileRange> =
            ranges.iter().map(|&(offset, len)| FileRange { file: self.id, offset, len }).collect();
        let len = |range: &FileRange| usize::try_from(range.len).unwrap_or(usize::MAX);
        let mut bytes = vec![0; ranges.iter().map(len).sum()];
        self.source.read_ranges(&ranges, &mut bytes)?;
        let mut rest = bytes.as_slice();
        let part = |range| {
            let (part, others) = rest.split_at(len(range));
            rest = others;
            part.to_vec()
        };
        Ok(ranges.iter().map(part).collect())
    }

    /// Reads the flatbuffer of a message. Converts a message from Arrow 0.17.0 to the form that
    /// later releases use.
    pub(super) fn message(&self, place: &MessageExtent, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = self.read(place.metadata, place.metadata_len, limits)?;
        let rebuilt = experimental::with_compression(&parse(&bytes)?)?;
        Ok(rebuilt.unwrap_or(bytes))
    }

    /// Reads the body of a message into memory with the alignment that the Arrow library requires.
    pub(super) fn body(&self, place: &MessageExtent, limits: &Limits) -> Result<Buffer> {
        check_range(self.name(), self.len(), place.body, place.body_len)?;
        if place.body_len > limits.header_bytes {
            return Err(Error::limit("a message is too long to hold in memory")
                .hint("pass --limit header_bytes=N to allow more")
                .offset(place.body)
                .expected(format!("at most {} bytes", limits.header_bytes))
                .found(place.body_len));
        }
        let len =
            usize::try_from(place.body_len).map_err(|_| Error::limit("too long for the address space"))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.source.read_at(self.id, place.body, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// Location of a message in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageExtent {
    /// Offset of the message's first byte.
    pub(super) offset: u64,
    /// Offset of the flatbuffer.
    pub(super) metadata: u64,
    pub(super) metadata_len: u64,
    pub(super) body: u64,
    pub(super) body_len: u64,
}

impl MessageExtent {
    /// Returns the offset of the first byte after the message.
    pub(super) fn end(&self) -> u64 {
        self.body + self.body_len
    }
}

/// The result of looking for a message at an offset.
pub(super) enum NextMessage {
    /// A message. The fields are the offset and the length of its metadata.
    Message { metadata: u64, metadata_len: u64 },
    /// The end of the stream. The field is the offset after the end mark.
    End(u64),
}

/// Reads the start of the message at `offset`, which must be less than `end`.
pub(super) fn next(file: &SourceFile, offset: u64, end: u64) -> Result<NextMessage> {
    let cut = |len| check_range(file.name(), end, offset, len);
    if offset == end {
        return Ok(NextMessage::End(end));
    }
    cut(4)?;
    let first: [u8; 4] = file.array(offset)?;
    let (length, metadata) = if first == CONTINUATION {
        cut(8)?;
        (file.array(offset + 4)?, offset + 8)
    } else {
        (first, offset + 4)
    };
    match i32::from_le_bytes(length) {
        0 => Ok(NextMessage::End(metadata)),
        length => {
            let left = end - metadata;
            let metadata_len = u64::try_from(length).ok().filter(|len| *len <= left);
            let wrong =
                || Error::malformed("the metadata of a message has an impossible length").offset(offset);
            let metadata_len = metadata_len
                .ok_or_else(|| wrong().expected(format!("at most {left} bytes")).found(length))?;
            Ok(NextMessage::Message { metadata, metadata_len })
        }
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message_with_opts(&options(bytes), bytes).map_err(|error| refused("message", bytes, &error))
}

pub(super) fn parse_footer(bytes: &[u8]) -> Result<Footer<'_>> {
    root_as_footer_with_opts(&options(bytes), bytes).map_err(|error| refused("footer", bytes, &error))
}

/// Returns whether the bytes are the flatbuffer of a schema message.
pub(crate) fn is_schema(bytes: &[u8]) -> bool {
    parse(bytes).is_ok_and(|message| message.header_type() == MessageHeader::Schema)
}

fn options(bytes: &[u8]) -> VerifierOptions {
    let max = bytes.len().saturating_mul(MAX_EXPANSION).saturating_add(EXTRA_BYTES);
    VerifierOptions { max_apparent_size: max, ..VerifierOptions::default() }
}

fn refused(what: &str, bytes: &[u8], error: &InvalidFlatbuffer) -> Error {
    match error {
        InvalidFlatbuffer::ApparentSizeTooLarge => {
            let max = options(bytes).max_apparent_size;
            Error::limit(format!("shared tables of the {what} expand to too many bytes"))
                .expected(format!("at most {max} bytes from {} bytes", bytes.len()))
        }
        other => {
            let why = crate::fault::one_line(&format!("{other:.200}"));
            Error::malformed(format!("the {what} is not a valid flatbuffer: {why}"))
        }
    }
}
