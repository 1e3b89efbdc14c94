//! Sources made of bytes, read and written by the format in memory.

use tensorferry_flax::Flax;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{CatalogSink, MemoryContext, MemorySource, Result, Source, Target};

#[path = "../../../torch-file/tests/common/facts.rs"]
pub(crate) mod facts;

/// Reads a source, and hands it on.
pub(crate) fn with_view<T>(source: &dyn Source, check: impl FnOnce(&MemoryView<'_>) -> T) -> Result<T> {
    let context = MemoryContext::default();
    let view = MemoryView::read(&Flax, &[], source, &context)?;
    Ok(check(&view))
}

/// Writes what `fill` makes.
pub(crate) fn write(
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    options: &[(&str, &str)],
    path: &str,
) -> Result<MemoryOutput> {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::made("model", &source, &context, fill)?;
    memory::write(&Flax, &memory::pairs(options), &view, &Target::File(path.to_owned()), &context)
}

/// Reads a file and writes it again.
pub(crate) fn again(bytes: &[u8], options: &[(&str, &str)]) -> Result<MemoryOutput> {
    with_view(&MemorySource::file("in.msgpack", bytes), |view| {
        let context = MemoryContext::default();
        memory::write(&Flax, &memory::pairs(options), view, &Target::File("out.msgpack".to_owned()), &context)
    })?
}
