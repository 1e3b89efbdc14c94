//! Copies encoded storages that an output file contains completely. Each storage is decoded
//! directly into its file, without a buffer for the whole storage or a temporary file. Storages
//! that are short, also read elsewhere, byte-swapped or checked are copied in windows instead.

use super::ranges::RangeSums;
use super::{Fill, Placement, StorageRead};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tensorferry_core::context::windows::WINDOW_BYTES;
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{ByteSink, Context, Layout, Result, Storage, StorageId, StorageLocation};
use tensorferry_tensors::stored::{Stored, contributing_storages};

/// Minimum size in bytes. Shorter storages are copied in windows, because a separate write for each
/// storage would cost more time than it saves.
const MIN_BYTES: u64 = 256 << 10;

/// An encoded storage, and the location of its decoded bytes in an output file.
pub(super) struct DecodedExtent {
    file: usize,
    to: u64,
    len: u64,
    storage: StorageId,
}

/// Removes from all files' placements the encoded storages that are written completely, and returns
/// these storages. Storages that are read more than once, for example by `others`, remain in the
/// placements, because they are decoded once and kept.
pub(super) fn take(
    files: &mut [Vec<Placement<'_>>],
    stored: &Stored<'_>,
    others: impl Iterator<Item = StorageId>,
) -> Vec<DecodedExtent> {
    let is_encoded = |storage: &Storage| matches!(storage.location, StorageLocation::Encoded { .. });
    if !stored.catalog().storages().iter().any(is_encoded) {
        return Vec::new();
    }
    let read = files.iter().flatten().filter_map(|placement| match &placement.fill {
        Fill::Read(read) => Some(read.storage),
        _ => None,
    });
    let mut uses: HashMap<StorageId, u64> = HashMap::new();
    for storage in read.chain(others).flat_map(|storage| contributing_storages(stored.catalog(), storage)) {
        *uses.entry(storage).or_default() += 1;
    }
    let mut extents = Vec::new();
    for (file, placements) in files.iter_mut().enumerate() {
        placements.retain(|placement| {
            let Fill::Read(StorageRead { storage, from: 0, swap_unit: 1, tally: None }) = placement.fill
            else {
                return true;
            };
            let is_whole = stored
                .storage(storage)
                .is_ok_and(|it| is_encoded(it) && it.len == placement.len && it.digest.is_none());
            let is_taken = is_whole && placement.len >= MIN_BYTES && uses.get(&storage) == Some(&1);
            if is_taken {
                extents.push(DecodedExtent { file, to: placement.to, len: placement.len, storage });
            }
            !is_taken
        });
    }
    extents
}

/// Decodes all storages into their files, starting with the longest. One thread decodes each
/// storage, so a long storage at the end would leave the other threads idle.
pub(super) fn copy_all(
    extents: &[DecodedExtent],
    stored: &Stored<'_>,
    layout: &Layout,
    files: &[OutputBytes],
    outputs: &RangeSums,
) -> Result<()> {
    let mut longest: Vec<&DecodedExtent> = extents.iter().collect();
    longest.sort_by_key(|extent| Reverse(extent.len));
    // Buffers for the decoding threads. Each thread uses one buffer.
    let buffers = Mutex::<Vec<Vec<u8>>>::default();
    let buffers = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
    longest.into_par_iter().with_max_len(1).try_for_each(|extent| {
        stored.session().check_cancelled()?;
        let mut buffer = buffers().pop().unwrap_or_default();
        let copied = extent.copy(stored, &files[extent.file], outputs, &mut buffer);
        buffers().push(buffer);
        copied.map_err(|error| error.file(layout.files()[extent.file].path.clone()))
    })
}

impl DecodedExtent {
    /// Decodes a storage into its file. `buffer` collects the bytes of each write.
    fn copy(
        &self,
        stored: &Stored<'_>,
        file: &OutputBytes,
        outputs: &RangeSums,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        buffer.clear();
        let mut sink = ExtentSink { extent: self, stored, file, outputs, buffer, taken: 0 };
        stored.decode_into(self.storage, &mut sink)?;
        sink.flush()
    }
}

/// Writes decoded bytes to their position in a file.
struct ExtentSink<'a> {
    extent: &'a DecodedExtent,
    stored: &'a Stored<'a>,
    file: &'a OutputBytes,
    outputs: &'a RangeSums,
    buffer: &'a mut Vec<u8>,
    /// Number of bytes received so far, including the bytes in the buffer.
    taken: u64,
}

impl ExtentSink<'_> {
    fn flush(&mut self) -> Result<()> {
        let session = self.stored.session();
        session.check_cancelled()?;
        let end = self.extent.to + self.taken;
        let start = end - self.buffer.len() as u64;
        self.file.write_all_at(self.buffer, start)?;
        self.outputs.add_window(self.extent.file, start, self.buffer, std::slice::from_ref(&(start..end)))?;
        session.count(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }
}

impl ByteSink for ExtentSink<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(WINDOW_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            self.taken += now.len() as u64;
            if self.buffer.len() == WINDOW_BYTES {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::copy;
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tensorferry_core::context::session::Session;
    use tensorferry_core::read::input::TensorInput;
    use tensorferry_core::read::source::FileSource;
    use tensorferry_sdk::{
        CatalogBuilder, CatalogSink, DigestAlgorithm, Dtype, Error, ErrorKind, LayoutBuilder, LayoutSink,
        Limits, MemorySource, NothingToSeal, Role, Source, TensorDecoder, TensorId, TensorPart,
    };
    use tensorferry_tensors::content::Algorithm;
    use tensorferry_tensors::logical::Logical;

    const LEN: u64 = 3 * WINDOW_BYTES as u64 + 5;
    const PIECE: usize = 100_000;

    /// A decoder that decodes each storage to this number of bytes and counts the calls. Each byte
    /// equals the storage's handle.
    struct Repeated(u64, Arc<AtomicUsize>);

    impl TensorDecoder for Repeated {
        fn decode(
            &self,
            _: &dyn Source,
            handle: u64,
            output: &mut dyn ByteSink,
            _: &dyn Context,
        ) -> Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let bytes = vec![handle.to_le_bytes()[0]; usize::try_from(self.0).unwrap()];
            bytes.chunks(PIECE).try_for_each(|piece| output.write(piece))
        }
    }

    /// Copies tensors that are in these storages. Returns the output, the number of temporary files
    /// and the number of calls to the decoder. Storage 9 is not encoded.
    fn copied(storages: &[u64], given: u64, receipt: Option<Algorithm>) -> Result<(Vec<u8>, usize, usize)> {
        let (source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("made", &source, &limits);
        let made: Vec<StorageId> =
            (0..3).map(|n| builder.storage(Storage::encoded(n, LEN)).unwrap()).collect();
        let plain = builder.storage(Storage::inline([9; 7])).unwrap();
        for (number, &storage) in storages.iter().enumerate() {
            let (id, len) =
                if storage == 9 { (plain, 7) } else { (made[usize::try_from(storage).unwrap()], LEN) };
            builder.tensor(&format!("t{number}"), Dtype::U8, &[len], id, 0).unwrap();
        }
        let catalog = builder.finish().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let input =
            TensorInput::in_memory(FileSource::of_files(PathBuf::new(), vec![String::new()]), catalog)
                .decoded_by(Repeated(given, calls.clone()));
        // The memory budget is too small to keep any decoded bytes.
        let session = Session::new(2, 1 << 20);
        let spilled = Arc::new(AtomicUsize::new(0));
        let count = spilled.clone();
        let spill = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            tempfile::tempfile().map_err(Error::from)
        });
        let logical = Logical::new(Stored::new(&input, &input.catalog, &session, spill));
        let mut layout = LayoutBuilder::new(&logical, &session);
        let file = layout.file("out", Role::Data).unwrap();
        for (number, _) in (0..).zip(storages) {
            layout.tensor(file, TensorPart::whole(TensorId(number))).unwrap();
        }
        let len = expected(storages).len() as u64;
        layout.digest(file, 0..len, DigestAlgorithm::CRC32C).unwrap();
        let layout = layout.finish().unwrap();
        let files = [OutputBytes::Local(tempfile::tempfile().unwrap())];
        files[0].set_len(len).unwrap();
        let digests = session
            .install(|| copy(&layout, &NothingToSeal, &logical, &session, &files, receipt, false))?
            .digests;
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        files[0].read_exact_at(&mut bytes, 0).unwrap();
        let mut sum = DigestAlgorithm::CRC32C.start().unwrap();
        sum.update(&bytes);
        assert_eq!(digests, [sum.digest()]);
        Ok((bytes, spilled.load(Ordering::Relaxed), calls.load(Ordering::Relaxed)))
    }

    fn expected(storages: &[u64]) -> Vec<u8> {
        let of = |&storage: &u64| {
            vec![storage.to_le_bytes()[0]; if storage == 9 { 7 } else { usize::try_from(LEN).unwrap() }]
        };
        storages.iter().flat_map(of).collect()
    }

    #[test]
    fn what_lies_whole_in_the_file_is_decoded_once_into_its_place() {
        let storages = [0, 9, 2, 1];
        let (bytes, spilled, calls) = copied(&storages, LEN, None).unwrap();
        assert!(bytes == expected(&storages));
        assert_eq!((spilled, calls), (0, 3));
    }

    #[test]
    fn what_is_read_twice_is_decoded_once_and_held() {
        for (storages, receipt) in [([0, 0], None), ([0, 1], Some(Algorithm::Blake3))] {
            let (bytes, spilled, calls) = copied(&storages, LEN, receipt).unwrap();
            assert!(bytes == expected(&storages));
            let decoded = if storages[1] == 0 { 1 } else { 2 };
            assert_eq!((spilled, calls), (decoded, decoded));
        }
    }

    #[test]
    fn another_number_of_bytes_than_declared_is_the_plugins_fault() {
        for given in [0, LEN - 1, LEN + 1, 2 * LEN] {
            assert_eq!(copied(&[0, 1], given, None).unwrap_err().kind(), ErrorKind::Plugin, "{given}");
        }
    }
}
