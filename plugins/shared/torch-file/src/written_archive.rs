//! An archive that is written as `torch.load(weights_only=True, mmap=True)` takes it:
//!
//! ```text
//! <root>/data.pkl                the object, protocol 2
//! <root>/byteorder               "little"
//! <root>/...                     a record of the writer's own, where it has one
//! <root>/version                 "3\n"
//! <root>/data/0, 1, ...          the storages
//! ```
//!
//! Source: `torch/serialization.py`. There is no `.format_version`: with it torch computes offsets
//! without reading headers, as its own zip writer would have laid them. There is no
//! `.data/serialization_id` either: torch only logs it.

use tensorferry_sdk::{LayoutSink, OutputId, Result};
use tensorferry_zip::{ZipLayout, ZipPlan};

/// An archive that is laid out at a file's end.
#[derive(Debug, Clone, Copy)]
pub struct WrittenArchive<'p> {
    /// The folder in it that all records are in.
    pub root: &'p str,
    /// The object.
    pub pickle: &'p [u8],
    /// A record that torch does not read: its name and bytes.
    pub own: Option<(&'p str, &'p [u8])>,
}

impl WrittenArchive<'_> {
    /// Lays it out with storages of these lengths, by key; `append` appends the bytes of one to the file, and gives the offset
    /// of the first.
    ///
    /// # Errors
    /// What the layout says.
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
