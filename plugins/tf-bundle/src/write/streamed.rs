//! Writes the data file of those tensors whose lengths and checksums are known only once they are written:
//! tensors of strings. Bytes that are copied from another bundle come with them.

use super::entry::Carried;
use super::strings::{self, Written};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::{
    ByteSink, CatalogView, Error, FileId, LayoutSink, OutputId, Result, Role, Source, TensorId, element_count,
};

/// How much of another file is held at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// A stretch of the file.
#[derive(Debug, Clone)]
pub(super) enum Streamed {
    Strings(TensorId),
    Carried(Carried),
}

/// The file.
pub(super) struct StreamedShard {
    /// Its number among the shards.
    pub(super) number: usize,
    /// Its id in the layout.
    pub(super) file: OutputId,
    stretches: Vec<Streamed>,
    /// What was written for each of them, once it was.
    written: Mutex<Vec<(u64, Written)>>,
}

impl StreamedShard {
    /// Plans the file.
    pub(super) fn plan(
        path: &str,
        number: usize,
        stretches: Vec<Streamed>,
        layout: &mut dyn LayoutSink,
    ) -> Result<Self> {
        let tensors: Vec<TensorId> = stretches
            .iter()
            .filter_map(|stretch| match stretch {
                Streamed::Strings(tensor) => Some(*tensor),
                Streamed::Carried(_) => None,
            })
            .collect();
        let file = layout.streamed_file(path, Role::Data, &tensors)?;
        Ok(Self { number, file, stretches, written: Mutex::default() })
    }

    /// Writes the file.
    pub(super) fn stream(&self, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<()> {
        let mut offset = 0;
        let mut all = Vec::with_capacity(self.stretches.len());
        for stretch in &self.stretches {
            let written = match stretch {
                Streamed::Strings(tensor) => write_strings(*tensor, catalog, output)?,
                Streamed::Carried(carried) => carry(carried, output)?,
            };
            all.push((offset, written));
            offset += written.len;
        }
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(())
    }

    /// Where a stretch begins, and what was written for it.
    ///
    /// # Errors
    /// A plugin error, if the file was not streamed.
    pub(super) fn written(&self, stretch: usize) -> Result<(u64, Written)> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(stretch).copied().ok_or_else(|| Error::plugin("a data file was not streamed"))
    }
}

fn write_strings(tensor: TensorId, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<Written> {
    let view = catalog.tensor(tensor);
    let read = |offset: u64, buffer: &mut [u8]| catalog.read(tensor, offset, buffer);
    let count = element_count(view.shape)?;
    strings::write(count, view.bytes, &read, output).map_err(|error| error.tensor(view.name))
}

/// Copies bytes as they lie; the length and the checksum stay.
fn carry(Carried { source, range }: &Carried, output: &mut dyn ByteSink) -> Result<Written> {
    copy(&**source, range.file, range.offset..range.offset + range.len, output)?;
    Ok(Written { len: range.len, crc: range.crc })
}

/// Copies bytes of a file, a window of them at a time.
pub(crate) fn copy(
    source: &dyn Source,
    file: FileId,
    range: Range<u64>,
    output: &mut dyn ByteSink,
) -> Result<()> {
    let mut window = Vec::new();
    let mut offset = range.start;
    while offset < range.end {
        let len = (range.end - offset).min(WINDOW_BYTES);
        window.resize(usize::try_from(len).unwrap_or(0), 0);
        source.read_at(file, offset, &mut window)?;
        output.write(&window)?;
        offset += len;
    }
    Ok(())
}
