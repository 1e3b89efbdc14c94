//! Writes archives that `torch.load(weights_only=True, mmap=True)` can read:
//!
//! ```text
//! <root>/data.pkl                the object, as a pickle of protocol 2
//! <root>/byteorder               "little"
//! <root>/...                     an additional record, if the writer has one
//! <root>/version                 "3\n"
//! <root>/data/0, 1, ...          the storages
//! ```
//!
//! Source: `torch/serialization.py`. The record `.format_version` is omitted. If that record
//! existed, torch would not read the headers. Instead, torch would assume that records are at the
//! offsets that its own zip writer would choose. The record `.data/serialization_id` is also
//! omitted, because torch only logs its content.

use tensorferry_sdk::{LayoutSink, OutputId, Result};
use tensorferry_zip::{ZipLayout, ZipPlan};

/// An archive that is appended to a file.
#[derive(Debug, Clone, Copy)]
pub struct WrittenArchive<'p> {
    /// Folder that contains all records.
    pub root: &'p str,
    /// Pickle of the object.
    pub pickle: &'p [u8],
    /// Name and bytes of an additional record, which torch does not read.
    pub own: Option<(&'p str, &'p [u8])>,
}

impl WrittenArchive<'_> {
    /// Lays out the archive. `storages` contains the length of each storage. The index of a storage
    /// in this list is its key. `append` appends the bytes of a storage to the file, and returns
    /// the offset of the first byte.
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
