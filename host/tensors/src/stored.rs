//! Stored bytes: the storages of a catalog. A storage can be read at any position, regardless of
//! where its bytes are. Its bytes are checked against the digests that the format stores.
//!
//! If a reader decodes its own types, such as quantized blocks, it declares a long tensor as joined
//! pieces. If a read needs a whole piece, the piece is decoded directly into the buffer. If a read
//! ends inside a piece, the decoded piece is kept for the next read. Only a few pieces are kept at
//! a time.

use crate::cast::{CastChain, CastLosses, ReadObserver};
use rayon::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, size, windows};
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{
    ByteSink, Catalog, Checksum, Context, Digest, DigestAlgorithm, Error, ErrorKind, FileId, FileRange,
    JoinedRanges, Result, Source, Storage, StorageId, StorageLocation, StorageRange, Tensor, check_range,
    hex,
};

/// A function that creates an unnamed temporary file, next to the output or in the folder for
/// temporary files.
pub type Spill = Box<dyn Fn() -> Result<File> + Send + Sync>;

/// The storages of an input's catalog or of a part of the catalog.
pub struct Stored<'a> {
    input: &'a TensorInput,
    session: &'a Session,
    catalog: &'a Catalog,
    decoded: Arc<DecodedStorages>,
    spill: Spill,
}

/// The storages of a catalog that have been decoded so far. This set may outlive the [`Stored`]
/// that filled it, so that an open model decodes each storage only once.
pub struct DecodedStorages {
    by_storage: HashMap<StorageId, LazyResult<Decoded>>,
    /// Number of bytes of decoded storages that are in memory.
    held: AtomicU64,
    /// Recently decoded short storages that are parts of joined storages.
    pieces: RecentPieces,
}

/// Maximum length in bytes of a piece. A piece is an encoded part of a joined storage. A piece is
/// decoded when it is read, and the decoded bytes are kept only for a short time.
pub const MAX_PIECE: u64 = 4 << 20;

/// A value that is computed on first use, or the error that occurred. If the computation was
/// canceled, the next call tries again.
struct LazyResult<T>(Mutex<Option<Result<Arc<T>>>>);

impl<T> Default for LazyResult<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> LazyResult<T> {
    fn get_or_compute(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone();
        }
        let made = make().map(Arc::new);
        if !made.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled) {
            *known = Some(made.clone());
        }
        made
    }
}

/// A piece that is decoded on first use.
type Piece = Arc<LazyResult<Vec<u8>>>;

/// Recently decoded pieces. They are kept because a read often ends inside a piece, and the next
/// read continues in that piece.
#[derive(Default)]
struct RecentPieces(Mutex<VecDeque<(StorageId, Piece)>>);

impl RecentPieces {
    /// Returns the piece for a storage. Drops the oldest piece if more than `max` pieces would be
    /// kept.
    fn get(&self, id: StorageId, max: usize) -> Piece {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, piece)) = recent.iter().find(|(known, _)| *known == id) {
            return piece.clone();
        }
        if recent.len() >= max {
            recent.pop_front();
        }
        let piece = Piece::default();
        recent.push_back((id, piece.clone()));
        piece
    }
}

impl DecodedStorages {
    /// Creates a set in which no storage has been decoded yet.
    #[must_use]
    pub fn new(catalog: &Catalog) -> Self {
        let is_encoded = |storage: &Storage| matches!(storage.location, StorageLocation::Encoded { .. });
        let encoded = (0..).zip(catalog.storages()).filter(|(_, storage)| is_encoded(storage));
        let by_storage = encoded.map(|(id, _)| (StorageId(id), LazyResult::default())).collect();
        Self { by_storage, held: AtomicU64::new(0), pieces: RecentPieces::default() }
    }
}

enum Decoded {
    Memory(Vec<u8>),
    Spilled(File),
}

impl Decoded {
    /// Reads decoded bytes. The caller must have checked the range.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::Memory(bytes) => copy_from(bytes, offset, buffer),
            Self::Spilled(file) => file.read_exact_at(buffer, offset)?,
        }
        Ok(())
    }
}

impl<'a> Stored<'a> {
    /// Returns the storages of `catalog`, which is the input's catalog or a part of it.
    #[must_use]
    pub fn new(input: &'a TensorInput, catalog: &'a Catalog, session: &'a Session, spill: Spill) -> Self {
        Self { input, session, catalog, decoded: Arc::new(DecodedStorages::new(catalog)), spill }
    }

    /// Reuses the storages in `decoded` that have already been decoded.
    #[must_use]
    pub fn with_decoded(self, decoded: Arc<DecodedStorages>) -> Self {
        Self { decoded, ..self }
    }

    #[must_use]
    pub fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        self.session
    }

    /// Creates an unnamed temporary file.
    pub fn spill(&self) -> Result<File> {
        (self.spill)()
    }

    /// Returns a storage of the catalog, or a plugin error if the ID is unknown.
    pub fn storage(&self, id: StorageId) -> Result<&Storage> {
        self.catalog.storage(id).ok_or_else(|| Error::plugin(format!("no storage {}", id.0)))
    }

    /// Fills `buffer` with bytes of a storage that start at `offset`.
    pub fn read(&self, id: StorageId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let storage = self.storage(id)?;
        check_range("", storage.len, offset, buffer.len() as u64)?;
        match &storage.location {
            StorageLocation::Cast(_) => {
                let mut observer = ReadObserver { owned: 0..0, see: &mut |_, _, _| Ok(()) };
                self.read_observed(id, offset, buffer, &mut observer).map(drop)
            }
            StorageLocation::Joined(joined) => {
                each_range(joined, offset, buffer, |range, part| self.read_range(range, part))
            }
            StorageLocation::File { file, offset: start } => {
                self.input.source.read_at(*file, start + offset, buffer)
            }
            StorageLocation::Inline(bytes) => {
                copy_from(bytes, offset, buffer);
                Ok(())
            }
            StorageLocation::Encoded { handle } => self.decoded(id, *handle, storage)?.read(offset, buffer),
            StorageLocation::Computed(computed) => {
                computed.0.compute(&|input, from, part| self.read(input, from, part), offset, buffer)
            }
        }
    }

    /// Fills `buffer` with a range of a joined storage. Short encoded pieces are decoded, and the
    /// decoded bytes are kept only briefly.
    fn read_range(&self, range: StorageRange, buffer: &mut [u8]) -> Result<()> {
        let storage = self.storage(range.storage)?;
        match storage.location {
            StorageLocation::Encoded { handle } if storage.len <= MAX_PIECE && storage.digest.is_none() => {
                if range.offset == 0 && range.len == storage.len {
                    let mut sink = SliceSink { buffer, taken: 0, expected: storage.len };
                    self.input.decode(handle, &mut sink, self.session)?;
                    return self.check_decoded(sink.taken, storage.len);
                }
                let pieces = &self.decoded.pieces;
                let piece = pieces.get(range.storage, 2 * self.session.threads + 2);
                let decoded = piece.get_or_compute(|| {
                    let mut bytes = vec![0; size(storage.len)];
                    let mut sink = SliceSink { buffer: &mut bytes, taken: 0, expected: storage.len };
                    self.input.decode(handle, &mut sink, self.session)?;
                    self.check_decoded(sink.taken, storage.len)?;
                    Ok(bytes)
                })?;
                copy_from(&decoded, range.offset, buffer);
                Ok(())
            }
            _ => self.read(range.storage, range.offset, buffer),
        }
    }

    /// Reads a storage, as [`read`](Self::read) does, and passes the stored bytes to an observer.
    /// If the storage is a cast, returns how many values changed in each way.
    pub fn read_observed(
        &self,
        id: StorageId,
        offset: u64,
        buffer: &mut [u8],
        observer: &mut ReadObserver<'_>,
    ) -> Result<CastLosses> {
        if let Some(chain) = self.chain(id)? {
            check_range("", self.storage(id)?.len, offset, buffer.len() as u64)?;
            return chain.read(|from, stored| self.read(chain.of, from, stored), offset, buffer, observer);
        }
        let inside = |byte: u64| byte.saturating_sub(offset).min(buffer.len() as u64);
        let owned = inside(observer.owned.start)..inside(observer.owned.end);
        if let StorageLocation::Joined(joined) = &self.storage(id)?.location {
            check_range("", self.storage(id)?.len, offset, buffer.len() as u64)?;
            let mut at = 0;
            each_range(joined, offset, buffer, |range, part| {
                let there = |byte: u64| range.offset + byte.saturating_sub(at).min(range.len);
                let owned = there(owned.start)..there(owned.end);
                at += range.len;
                if matches!(self.storage(range.storage)?.location, StorageLocation::Encoded { .. }) {
                    return self.read_range(range, part);
                }
                let mut observer = ReadObserver { owned, see: &mut *observer.see };
                self.read_observed(range.storage, range.offset, part, &mut observer).map(drop)
            })?;
        } else {
            self.read(id, offset, buffer)?;
        }
        (observer.see)(id, offset + owned.start, &buffer[size(owned.start)..size(owned.end)])?;
        Ok(CastLosses::default())
    }

    /// Returns the conversion for a storage that is a cast, or `None` for other storages.
    pub fn chain(&self, id: StorageId) -> Result<Option<CastChain>> {
        match &self.storage(id)?.location {
            StorageLocation::Cast(cast) => CastChain::of(cast, self.storage(cast.of)?.byte_order).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the source that contains the files of the storages.
    #[must_use]
    pub fn source(&self) -> &'a FileSource {
        &self.input.source
    }

    /// Returns the file and the offset of a storage's bytes, or `None` if no file contains them
    /// unchanged.
    #[must_use]
    pub fn place_in_file(&self, id: StorageId) -> Option<(FileId, u64)> {
        match &self.catalog.storage(id)?.location {
            StorageLocation::File { file, offset } => Some((*file, *offset)),
            _ => None,
        }
    }

    /// Returns the file and the offset of a storage's bytes as
    /// [`place_in_file`](Self::place_in_file) does, but with the file's descriptor.
    #[must_use]
    pub fn in_file(&self, id: StorageId) -> Option<(Arc<File>, u64)> {
        let (file, offset) = self.place_in_file(id)?;
        Some((self.input.source.descriptor(file).ok()?, offset))
    }

    /// Adds the file ranges that contain `len` bytes of a storage, starting at `offset`. Bytes that
    /// must be decoded or computed are skipped.
    pub fn add_file_ranges(&self, id: StorageId, offset: u64, len: u64, ranges: &mut Vec<FileRange>) {
        let Some(storage) = self.catalog.storage(id) else { return };
        match &storage.location {
            StorageLocation::File { file, offset: start } => {
                ranges.push(FileRange { file: *file, offset: start + offset, len });
            }
            StorageLocation::Joined(joined) => {
                for range in joined.within(offset, len) {
                    self.add_file_ranges(range.storage, range.offset, range.len, ranges);
                }
            }
            StorageLocation::Cast(cast) => {
                let (stored, read) = cast.widths();
                let first = cast.start + offset / read * stored;
                let past = cast.start + (offset + len).div_ceil(read) * stored;
                self.add_file_ranges(cast.of, first, past - first, ranges);
            }
            StorageLocation::Encoded { .. } | StorageLocation::Inline(_) | StorageLocation::Computed(_) => {}
        }
    }

    /// Returns the error for a storage whose bytes do not match their digest.
    #[must_use]
    pub fn mismatch(&self, id: StorageId, expected: &Digest, found: &Digest) -> Error {
        let error =
            Error::malformed(format!("the {} of the stored bytes is wrong", expected.algorithm.name()))
                .expected(hex(&expected.value))
                .found(hex(&found.value));
        let error = match self.tensor_in(id) {
            Some(name) => error.tensor(name),
            None => error,
        };
        match self.catalog.storage(id).map(|storage| &storage.location) {
            Some(StorageLocation::File { file, offset }) => {
                error.file(self.input.source.name(*file)).offset(*offset)
            }
            _ => error,
        }
    }

    /// Returns the name of the first tensor that has bytes in a storage.
    fn tensor_in(&self, id: StorageId) -> Option<&str> {
        let lies_in = |tensor: &&Tensor| {
            tensor
                .storages()
                .flat_map(|storage| contributing_storages(self.catalog, storage))
                .any(|storage| storage == id)
        };
        self.catalog.tensors().iter().find(lies_in).map(|tensor| tensor.name.as_str())
    }

    /// Reads storages and checks them against the digests that the format stores. An error contains
    /// the file, the offset, and the expected and actual digests.
    pub fn check_digests(&self, ids: &[StorageId]) -> Result<()> {
        ids.par_iter().try_for_each(|&id| {
            let storage = self.storage(id)?;
            let Some(expected) = &storage.digest else { return Ok(()) };
            self.session.will_check(storage.len);
            let read = |offset, buffer: &mut [u8]| {
                self.session.check_cancelled()?;
                self.session.checked(buffer.len() as u64);
                self.read(id, offset, buffer)
            };
            let found = checksum(0..storage.len, expected.algorithm, read)?.digest();
            if found == *expected { Ok(()) } else { Err(self.mismatch(id, expected, &found)) }
        })
    }

    fn decoded(&self, id: StorageId, handle: u64, storage: &Storage) -> Result<Arc<Decoded>> {
        let slot = self.decoded.by_storage.get(&id);
        let slot = slot.ok_or_else(|| Error::plugin(format!("storage {} is not encoded", id.0)))?;
        slot.get_or_compute(|| {
            let decoded = self.decode(handle, storage)?;
            if let Some(expected) = &storage.digest {
                let read = |offset, buffer: &mut [u8]| decoded.read(offset, buffer);
                let found = checksum(0..storage.len, expected.algorithm, read)?.digest();
                if found != *expected {
                    return Err(self.mismatch(id, expected, &found));
                }
            }
            Ok(decoded)
        })
    }

    fn decode(&self, handle: u64, storage: &Storage) -> Result<Decoded> {
        let before = self.decoded.held.fetch_add(storage.len, Ordering::Relaxed);
        let mut sink = DecodeSink { expected: storage.len, taken: 0, memory: Vec::new(), file: None };
        if before.saturating_add(storage.len) > self.session.held_bytes() {
            self.decoded.held.fetch_sub(storage.len, Ordering::Relaxed);
            sink.file = Some(self.spill()?);
        }
        self.input.decode(handle, &mut sink, self.session)?;
        self.check_decoded(sink.taken, storage.len)?;
        Ok(match sink.file {
            Some(file) => Decoded::Spilled(file),
            None => Decoded::Memory(sink.memory),
        })
    }

    /// Decodes a storage into `output`, and does not keep the decoded bytes. Does not check the
    /// digest of the storage.
    pub fn decode_into(&self, id: StorageId, output: &mut dyn ByteSink) -> Result<()> {
        let storage = self.storage(id)?;
        let StorageLocation::Encoded { handle } = storage.location else {
            return Err(Error::plugin(format!("storage {} is not encoded", id.0)));
        };
        let mut sink = CountedSink { output, taken: 0, expected: storage.len };
        self.input.decode(handle, &mut sink, self.session)?;
        self.check_decoded(sink.taken, storage.len)
    }

    fn check_decoded(&self, taken: u64, expected: u64) -> Result<()> {
        if taken == expected {
            return Ok(());
        }
        let error = self.input.format.attribute_error(length_mismatch(taken, expected));
        Err(error.file(self.input.source.entry_path().display().to_string()))
    }
}

/// Calls `each` for every range of a joined storage that overlaps the buffer, and passes the part
/// of the buffer for this range. The buffer represents the storage's bytes from `offset` on.
fn each_range(
    joined: &JoinedRanges,
    offset: u64,
    mut buffer: &mut [u8],
    mut each: impl FnMut(StorageRange, &mut [u8]) -> Result<()>,
) -> Result<()> {
    for range in joined.within(offset, buffer.len() as u64) {
        let (part, rest) = buffer.split_at_mut(size(range.len));
        each(range, part)?;
        buffer = rest;
    }
    Ok(())
}

/// Returns all storages that contribute bytes to a storage. These are the storage that contains its
/// stored bytes, and the storages from which that storage is joined or computed.
pub fn contributing_storages(catalog: &Catalog, id: StorageId) -> impl Iterator<Item = StorageId> + '_ {
    let stored = stored_bytes_of(catalog, id);
    let joined = match catalog.storage(stored).map(|storage| &storage.location) {
        Some(StorageLocation::Joined(joined)) => joined.ranges(),
        _ => &[],
    };
    let inputs = match catalog.storage(stored).map(|storage| &storage.location) {
        Some(StorageLocation::Computed(computed)) => computed.0.inputs(),
        _ => &[],
    };
    std::iter::once(stored).chain(joined.iter().map(|range| range.storage)).chain(inputs.iter().copied())
}

/// Returns the storage that contains a storage's stored bytes. For a cast, this is the underlying
/// storage. For other storages, it is the storage itself.
#[must_use]
fn stored_bytes_of(catalog: &Catalog, id: StorageId) -> StorageId {
    match catalog.storage(id).map(|storage| &storage.location) {
        Some(StorageLocation::Cast(cast)) => cast.of,
        _ => id,
    }
}

struct DecodeSink {
    expected: u64,
    taken: u64,
    memory: Vec<u8>,
    file: Option<File>,
}

fn length_mismatch(taken: u64, expected: u64) -> Error {
    Error::plugin("decode returned a different number of bytes than the reader declared")
        .expected(expected)
        .found(format!("{taken}{}", if taken > expected { " or more" } else { "" }))
}

/// A sink that accepts at most the declared number of bytes, and passes them to another sink.
struct CountedSink<'a> {
    output: &'a mut dyn ByteSink,
    taken: u64,
    expected: u64,
}

impl ByteSink for CountedSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.taken > self.expected {
            return Err(length_mismatch(self.taken, self.expected));
        }
        self.output.write(bytes)
    }
}

/// A sink that writes decoded bytes directly into a buffer.
struct SliceSink<'a> {
    buffer: &'a mut [u8],
    taken: u64,
    expected: u64,
}

impl ByteSink for SliceSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let start = size(self.taken);
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        let room = self.buffer.get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len()));
        room.ok_or_else(|| length_mismatch(self.taken, self.expected))?.copy_from_slice(bytes);
        Ok(())
    }
}

impl ByteSink for DecodeSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.taken > self.expected {
            return Err(length_mismatch(self.taken, self.expected));
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(Error::from),
            None => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// Computes the checksum of a byte range, which is read window by window. Returns an error if the
/// algorithm is unknown.
pub fn checksum(
    range: Range<u64>,
    algorithm: DigestAlgorithm,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<Checksum> {
    let mut sum = algorithm.start()?;
    let mut buffer = vec![0; size(range.end - range.start).min(WINDOW_BYTES)];
    for (offset, len) in windows(range) {
        read(offset, &mut buffer[..len])?;
        sum.update(&buffer[..len]);
    }
    Ok(sum)
}

/// Copies a range of bytes to `buffer`. The caller must have checked the range.
fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) {
    let start = size(offset);
    buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_was_cancelled_is_made_again_and_nothing_else() {
        let (once, error) = (LazyResult::<u8>::default(), |kind| Error::new(kind, "ended"));
        assert!(once.get_or_compute(|| Err(error(ErrorKind::Cancelled))).is_err());
        assert_eq!(*once.get_or_compute(|| Ok(1)).unwrap(), 1);
        assert_eq!(*once.get_or_compute(|| Ok(2)).unwrap(), 1);
        let wrong = LazyResult::<u8>::default();
        assert!(wrong.get_or_compute(|| Err(error(ErrorKind::Malformed))).is_err());
        assert!(wrong.get_or_compute(|| Ok(1)).is_err());
    }
}
