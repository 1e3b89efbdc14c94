//! Writes a legacy file, which is the stream format of torch before 1.6. The stream consists of
//! several pickles, followed by the storages. The module `legacy.rs` of `tensorferry_torch_file`
//! describes the layout.
//!
//! A legacy file cannot store metadata. The storages in a legacy file are not aligned, so torch
//! cannot memory-map the file.

use super::storages::StoragePlan;
use tensorferry_sdk::{CatalogView, Context, LayoutSink, Loss, LossKind, Result, Role};
use tensorferry_torch_file::PickleWriter;

/// The magic number 0x1950a86a20f9469cfc6c as little-endian bytes.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const PROTOCOL_VERSION: i64 = 1001;

/// Lays out a file that contains the object's pickle and the storages.
pub(super) fn write(
    object: &[u8],
    storages: &StoragePlan,
    path: &str,
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    let file = layout.file(path, Role::Data)?;
    for pickle in [pickled(|p| p.long(&MAGIC)), pickled(|p| p.int(PROTOCOL_VERSION)), system()?] {
        layout.bytes(file, &pickle)?;
    }
    layout.bytes(file, object)?;
    layout.bytes(file, &keys(storages.records.len())?)?;
    for record in &storages.records {
        layout.bytes(file, &record.elements().to_le_bytes())?;
        record.append(layout, file)?;
    }
    Ok(())
}

/// Adds a note that a legacy file cannot be memory-mapped, and reports the metadata as lost.
pub(super) fn report(
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<()> {
    context.note("a legacy file cannot be memory-mapped: torch.load(mmap=True) accepts only zip archives");
    for (key, _) in catalog.metadata() {
        let why = "a legacy file cannot store metadata; -o format=zip keeps it";
        layout.loss(Loss::new(LossKind::Metadata, key, why))?;
    }
    Ok(())
}

fn pickled(write: impl FnOnce(&mut PickleWriter)) -> Vec<u8> {
    let mut pickle = PickleWriter::new();
    write(&mut pickle);
    pickle.finish()
}

/// Pickles the information about the machine, which torch writes and never reads.
fn system() -> Result<Vec<u8>> {
    let mut pickle = PickleWriter::new();
    pickle.empty_dict();
    pickle.mark();
    pickle.text("protocol_version")?;
    pickle.int(PROTOCOL_VERSION);
    pickle.text("little_endian")?;
    pickle.bool(true);
    pickle.text("type_sizes")?;
    pickle.empty_dict();
    pickle.mark();
    for (name, size) in [("short", 2), ("int", 4), ("long", 4)] {
        pickle.text(name)?;
        pickle.int(size);
    }
    pickle.set_items();
    pickle.set_items();
    Ok(pickle.finish())
}

/// Pickles the storages' keys, in order.
fn keys(count: usize) -> Result<Vec<u8>> {
    let mut pickle = PickleWriter::new();
    pickle.empty_list();
    pickle.mark();
    for key in 0..count {
        pickle.unique_text(&key.to_string())?;
    }
    pickle.appends();
    Ok(pickle.finish())
}
