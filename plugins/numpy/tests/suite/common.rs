//! Sources made of bytes, read and written by the format in memory.

use tensorferry_numpy::Numpy;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{CatalogSink, MemoryContext, Result, Source, Target};

#[path = "../../../torch-file/tests/common/facts.rs"]
pub(crate) mod facts;

/// An array of this header's dict and these elements, as numpy pads it.
pub(crate) fn array(dict: &str, elements: &[u8]) -> Vec<u8> {
    let width = (10 + dict.len() + 1).next_multiple_of(64) - 11;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(width + 1).unwrap().to_le_bytes());
    bytes.extend(format!("{dict:width$}\n").into_bytes());
    bytes.extend(elements);
    bytes
}

/// The dict of an array of this descr and shape.
pub(crate) fn dict(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
}

/// Reads a source under these options, and hands it on.
pub(crate) fn with_view<T>(
    source: &dyn Source,
    options: &[(&str, &str)],
    check: impl FnOnce(&MemoryView<'_>) -> T,
) -> Result<T> {
    let context = MemoryContext::default();
    let view = MemoryView::read(&Numpy, &memory::pairs(options), source, &context)?;
    Ok(check(&view))
}

/// Writes what `fill` makes.
pub(crate) fn write(
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    options: &[(&str, &str)],
    path: &str,
) -> Result<MemoryOutput> {
    let (source, context) = (tensorferry_sdk::MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::made("model", &source, &context, fill)?;
    memory::write(&Numpy, &memory::pairs(options), &view, &Target::File(path.to_owned()), &context)
}
