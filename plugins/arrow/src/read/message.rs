//! A message is a flatbuffer and the bytes that it describes. Its lengths are looked at before anything is allocated,
//! and the flatbuffer is verified before it is believed.

use super::experimental;
use crate::CONTINUATION;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{Footer, Message, MessageHeader, root_as_footer_with_opts, root_as_message_with_opts};
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_range};

/// What a walk over all tables comes to, in bytes, is at most this many times the buffer's length. Where nothing is
/// shared but the tables' layouts it is less than twice.
const SHARED: usize = 8;
/// And so many bytes more, for short ones.
const FEW: usize = 64 << 10;

/// A file of a source.
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

    /// The flatbuffer of a message. That of Arrow 0.17.0 is returned as later releases write it.
    pub(super) fn message(&self, place: &Place, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = self.read(place.metadata, place.metadata_len, limits)?;
        let rebuilt = experimental::with_compression(&parse(&bytes)?)?;
        Ok(rebuilt.unwrap_or(bytes))
    }

    /// The body of a message, aligned as the library wants it.
    pub(super) fn body(&self, place: &Place, limits: &Limits) -> Result<Buffer> {
        check_range(self.name(), self.len(), place.body, place.body_len)?;
        if place.body_len > limits.header_bytes {
            return Err(Error::limit("a message that is too long to hold in memory")
                .offset(place.body)
                .expected(format!("at most {} bytes, or --bound header_bytes=N", limits.header_bytes))
                .found(place.body_len));
        }
        let len = usize::try_from(place.body_len).map_err(|_| Error::limit("too long for this machine"))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.source.read_at(self.id, place.body, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// Where a message lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its first byte.
    pub(super) offset: u64,
    /// Its flatbuffer.
    pub(super) metadata: u64,
    pub(super) metadata_len: u64,
    /// Its body.
    pub(super) body: u64,
    pub(super) body_len: u64,
}

impl Place {
    /// Behind its last byte.
    pub(super) fn end(&self) -> u64 {
        self.body + self.body_len
    }
}

/// What stands where a message would begin.
pub(super) enum Next {
    /// The length of its metadata, and where that begins.
    Message { metadata: u64, metadata_len: u64 },
    /// The mark of the end, and what lies behind it.
    End(u64),
}

/// Looks at what begins at `offset`, before `end`.
pub(super) fn next(file: &SourceFile, offset: u64, end: u64) -> Result<Next> {
    let cut = |len| check_range(file.name(), end, offset, len);
    if offset == end {
        return Ok(Next::End(end));
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
        0 => Ok(Next::End(metadata)),
        length => {
            let left = end - metadata;
            let metadata_len = u64::try_from(length).ok().filter(|len| *len <= left);
            let wrong = || Error::malformed("the length of a message's metadata cannot be").offset(offset);
            let metadata_len = metadata_len
                .ok_or_else(|| wrong().expected(format!("at most {left} bytes")).found(length))?;
            Ok(Next::Message { metadata, metadata_len })
        }
    }
}

/// The message whose flatbuffer this is.
pub(super) fn parse(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message_with_opts(&options(bytes), bytes).map_err(|error| refused("message", bytes, &error))
}

/// The footer whose flatbuffer this is.
pub(super) fn parse_footer(bytes: &[u8]) -> Result<Footer<'_>> {
    root_as_footer_with_opts(&options(bytes), bytes).map_err(|error| refused("footer", bytes, &error))
}

/// Whether this is the flatbuffer of a schema's message.
pub(crate) fn is_schema(bytes: &[u8]) -> bool {
    parse(bytes).is_ok_and(|message| message.header_type() == MessageHeader::Schema)
}

fn options(bytes: &[u8]) -> VerifierOptions {
    let most = bytes.len().saturating_mul(SHARED).saturating_add(FEW);
    VerifierOptions { max_apparent_size: most, ..VerifierOptions::default() }
}

fn refused(what: &str, bytes: &[u8], error: &InvalidFlatbuffer) -> Error {
    match error {
        InvalidFlatbuffer::ApparentSizeTooLarge => {
            let most = options(bytes).max_apparent_size;
            Error::limit(format!("the tables of a {what} are shared, and unfold into too much"))
                .expected(format!("at most {most} bytes for its {}", bytes.len()))
        }
        other => {
            let why = crate::fault::one_line(&format!("{other:.200}"));
            Error::malformed(format!("no flatbuffer of a {what}: {why}"))
        }
    }
}
