//! Copies a tensor that consists of many tiles, slab by slab.

use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{Result, TensorId};
use tensorferry_tensors::slabs::{DigestPolicy, SlabBuffers, Slabs};
use tensorferry_tensors::stored::Stored;
use tensorferry_tensors::tally::CastTally;

/// A tensor that is copied in slabs. A slab is created only when it is copied.
pub(super) struct TiledCopy<'a> {
    pub(super) file: usize,
    /// The offset of the tensor's part in the file.
    pub(super) base: u64,
    pub(super) tensor: TensorId,
    pub(super) slabs: Slabs<'a>,
}

impl TiledCopy<'_> {
    pub(super) fn copy(
        &self,
        number: usize,
        stored: &Stored<'_>,
        output: &OutputBytes,
        tally: &CastTally,
        buffers: &mut SlabBuffers,
    ) -> Result<()> {
        let write = &mut |to: u64, bytes: &[u8]| {
            stored.session().count(bytes.len() as u64);
            output.write_all_at(bytes, self.base + to)
        };
        let lost = self.slabs.copy(number, stored, DigestPolicy::Checked, buffers, write)?;
        tally.add(self.tensor, lost);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::{CopyTasks, FilePlacements, RangeSums, copy};
    use super::*;
    use std::path::PathBuf;
    use tensorferry_core::context::session::Session;
    use tensorferry_core::read::input::TensorInput;
    use tensorferry_core::read::source::FileSource;
    use tensorferry_sdk::{
        CatalogBuilder, CatalogSink, DigestAlgorithm, Dtype, Edges, Error, Grid, Layout, LayoutBuilder,
        LayoutSink, Limits, MemorySource, NothingToSeal, Order, Role, Storage, TensorPart, Tiles,
    };
    use tensorferry_tensors::logical::Logical;

    /// Creates a U8 tensor [rows, 600] in tiles of [2, 3], each with a digest. All elements of a
    /// row equal the row's number.
    fn input(rows: u64, wrong: Option<u64>) -> TensorInput {
        let (source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("made", &source, &limits);
        let storages = (0..rows / 2 * 200).map(|number| {
            let row = (number / 200 * 2).to_le_bytes()[0];
            let bytes = [row, row, row, row + 1, row + 1, row + 1];
            let mut sum = DigestAlgorithm::CRC32C.start().unwrap();
            sum.update(&bytes);
            let mut digest = sum.digest();
            if wrong == Some(number) {
                digest.value = [0; 4].into();
            }
            Some(builder.storage(Storage::inline(bytes).digest(digest)).unwrap())
        });
        let tiles = Tiles::Listed(storages.collect());
        let grid = Grid { tile: vec![2, 3], order: Order::C, edges: Edges::Clipped, tiles, fill: None };
        builder.tensor_of_tiles("t", Dtype::U8, &[rows, 600], grid).unwrap();
        let catalog = builder.finish().unwrap();
        TensorInput::in_memory(FileSource::of_files(PathBuf::new(), vec![String::new()]), catalog)
    }

    fn with<T>(input: &TensorInput, then: impl FnOnce(&Logical<'_>, &Layout, &Session) -> T) -> T {
        let session = Session::new(2, 1 << 20);
        let spill = Box::new(|| tempfile::tempfile().map_err(Error::from));
        let logical = Logical::new(Stored::new(input, &input.catalog, &session, spill));
        let mut layout = LayoutBuilder::new(&logical, &session);
        let file = layout.file("out", Role::Data).unwrap();
        layout.bytes(file, b"head").unwrap();
        layout.tensor(file, TensorPart::whole(TensorId(0))).unwrap();
        let layout = layout.finish().unwrap();
        then(&logical, &layout, &session)
    }

    #[test]
    fn a_plan_does_not_grow_with_the_tiles() {
        for rows in [2, 200] {
            with(&input(rows, None), |logical, layout, session| {
                let tally = CastTally::of(logical).unwrap();
                let filled = FilePlacements::plan(layout, logical, session, &tally).unwrap();
                let sources = RangeSums::of_storages(logical, filled.tiled.iter().map(|tiled| &tiled.slabs));
                let tasks = CopyTasks::new(&filled, layout, &[], session);
                // The file has one placement, which is the head. There are two groups of tasks: one
                // for the windows of the file, and one for the tiled tensor.
                assert_eq!((filled.files[0].len(), filled.tiled.len(), filled.gathers.len()), (1, 1, 0));
                assert_eq!((tasks.groups.len(), sources.wanted()), (2, 0));
            });
        }
    }

    #[test]
    fn tiles_are_copied_behind_what_lies_before_them() {
        let copied = |wrong| {
            with(&input(200, wrong), |logical, layout, session| {
                let files = [OutputBytes::Local(tempfile::tempfile().unwrap())];
                let run = || copy(layout, &NothingToSeal, logical, session, &files, None, false).map(drop);
                session.install(run)?;
                let mut bytes = vec![0; 4 + 200 * 600];
                files[0].read_exact_at(&mut bytes, 0).unwrap();
                Ok::<_, Error>(bytes)
            })
        };
        let bytes = copied(None).unwrap();
        assert_eq!(&bytes[..4], b"head");
        for (row, bytes) in (0_u64..).zip(bytes[4..].chunks(600)) {
            assert!(bytes.iter().all(|&byte| byte == row.to_le_bytes()[0]), "row {row}");
        }
        for wrong in [0, 12_345, 19_999] {
            assert_eq!(copied(Some(wrong)).unwrap_err().kind(), tensorferry_sdk::ErrorKind::Malformed);
        }
    }
}
