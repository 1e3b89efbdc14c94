//! Writes archives for `torch.load(weights_only=True, mmap=True)`:
//!
//! ```text
//! <root>/data.pkl                the object, protocol 2
//! <root>/byteorder               "little"
//! <root>/...                     a record of the writer's own, if it has one
//! <root>/version                 "3\n"
//! <root>/data/0, 1, ...          the storages
//! ```
//!
//! Source: `torch/serialization.py`. `.format_version` is left out: with it torch computes offsets
//! as its own zip writer would place records, without reading headers. `.data/serialization_id` is
//! left out too, because torch only logs it.

use tensorferry_sdk::{LayoutSink, OutputId, Result};
use tensorferry_zip::{ZipLayout, ZipPlan};

/// An archive to be placed at the end of a file.
#[derive(Debug, Clone, Copy)]
pub struct WrittenArchive<'p> {
    /// Folder that contains all records.
    pub root: &'p str,
    /// Pickle of the object.
    pub pickle: &'p [u8],
    /// Name and bytes of a record that torch does not read.
    pub own: Option<(&'p str, &'p [u8])>,
}

impl WrittenArchive<'_> {
    /// Lays out the archive with storages of these lengths, by key. `append` appends the bytes of a
    /// storage to the file, and returns the offset of the first.
    pub fn lay_out(
        self,
        layout: &mut dyn LayoutSink,
        file: OutputId,
        storages: impl IntoIterator<Item = u64>,
        mut append: impl FnMut(usize, &mut dyn LayoutSink, OutputId) -> Result<u64>,
    ) -> Result<ZipPlan> {
        let mut archive = ZipLayout::new(layout, file, Some(self.root));
        archive.bytes("data.pkl", self.pickle)?;
        archive.bytes("byteorder", b"little")?;
        if let Some((name, bytes)) = self.own {
            archive.bytes(name, bytes)?;
        }
        archive.bytes("version", b"3\n")?;
        for (key, len) in storages.into_iter().enumerate() {
            archive.data(&format!("data/{key}"), len, |layout, file| append(key, layout, file))?;
        }
        archive.finish()
    }
}
