//! The bytes of a shard that is compressed as a whole, in order.

use crate::codec::Codec;
use crate::hash::Verifier;
use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// What a byte may become whatever the limits are.
const MOST_EXPANSION: u64 = 1000;

/// The bytes of a compressed shard.
pub(super) struct Decompressed {
    name: String,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// What it comes to, as the index says.
    said: u64,
    /// What it may come to.
    most: u64,
    header_bytes: u64,
    verifier: Option<Verifier>,
    window: Vec<u8>,
}

impl Decompressed {
    /// # Errors
    /// Malformed: what the codec says of the file's beginning.
    pub(super) fn new(
        name: &str,
        codec: Codec,
        bytes: SourceReader,
        len: u64,
        said: u64,
        verifier: Option<Verifier>,
        limits: &Limits,
    ) -> Result<Self> {
        let most = len.saturating_mul(MOST_EXPANSION).saturating_add(limits.expanded_bytes);
        let reader = codec.decompressed(bytes, len, said.min(most), limits.header_bytes);
        let reader = reader.map_err(|error| damaged(error).file(name))?;
        Ok(Self {
            name: name.to_owned(),
            reader,
            offset: 0,
            said,
            most,
            header_bytes: limits.header_bytes,
            verifier,
            window: Vec::new(),
        })
    }

    /// Where the next byte lies, once decompressed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes.
    ///
    /// # Errors
    /// Malformed: there are not so many, or they are damaged; a limit.
    pub(super) fn take(&mut self, len: u64) -> Result<&[u8]> {
        if len > self.header_bytes {
            return Err(Error::limit("too long to hold in memory")
                .file(&self.name)
                .offset(self.offset)
                .expected(format!("at most {} bytes, or --bound header_bytes=N", self.header_bytes))
                .found(len));
        }
        let mut window = std::mem::take(&mut self.window);
        // As long as what is there, and not as what is said.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut filled = 0;
        while filled < len {
            let end = (filled + CHUNK.max(filled)).min(len);
            if window.len() < end {
                window.resize(end, 0);
            }
            match self.fill(&mut window[filled..end])? {
                0 => return Err(self.cut(len - filled)),
                read => filled += read,
            }
        }
        self.window = window;
        Ok(&self.window[..len])
    }

    /// Goes past bytes.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let part = left.min(CHUNK as u64).min(self.header_bytes.max(1));
            self.take(part)?;
            left -= part;
        }
        Ok(())
    }

    /// Checks that nothing is left, and that the hashes are what the index says.
    ///
    /// # Errors
    /// Malformed.
    pub(super) fn end(&mut self) -> Result<()> {
        let begin = self.offset;
        if self.fill(&mut [0; 1])? != 0 || begin != self.said {
            let error = Error::malformed("a shard is not as long as the index says, once decompressed");
            return Err(error.file(&self.name).expected(self.said).found(format!("{begin} or more")));
        }
        match self.verifier.take() {
            Some(verifier) => verifier.finish().map_err(|error| error.file(&self.name)),
            None => Ok(()),
        }
    }

    fn cut(&self, wanted: usize) -> Error {
        let error = Error::malformed("the shard ends too early").file(&self.name).offset(self.offset);
        error.expected(format!("{wanted} more bytes"))
    }

    /// Fills a part of a buffer; 0 at the end.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(damaged(error).file(&self.name).offset(self.offset)),
                Ok(read) => break read,
            }
        };
        self.offset += read as u64;
        if self.offset > self.most {
            return Err(Error::limit("a compressed shard that holds too much")
                .file(&self.name)
                .expected(format!("at most {} bytes, or --bound expanded_bytes=N", self.most)));
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.update(&buffer[..read]);
        }
        Ok(read)
    }
}

/// What a codec's error means: the source's own, or that the file is damaged.
fn damaged(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(codec) => {
            Error::malformed(format!("a damaged compressed shard: {}", codec.to_string().escape_debug()))
        }
    }
}

/// Reads a file of a source in order.
pub(super) struct SourceReader {
    source: Arc<dyn Source>,
    file: FileId,
    offset: u64,
}

impl SourceReader {
    pub(super) fn new(source: Arc<dyn Source>, file: FileId) -> Self {
        Self { source, file, offset: 0 }
    }
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len(self.file).saturating_sub(self.offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        self.source.read_at(self.file, self.offset, &mut buffer[..len]).map_err(io::Error::other)?;
        self.offset += len as u64;
        Ok(len)
    }
}
