//! Helpers that read and write rows in memory with a plugin's format, in the same way as a host.

use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::memory::records;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Context, Format, MemoryContext, Result, Source, Target};

/// Rows, divided into splits.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The schema of all splits.
    pub schema: SchemaRef,
    /// The batches of each split.
    pub splits: Vec<Vec<RecordBatch>>,
}

/// Reads a source with a format and its default options.
pub fn read(format: &dyn Format, source: Arc<dyn Source>, context: &dyn Context) -> Result<Rows> {
    let set = records::open(format, &[], source, context)?;
    Ok(Rows { schema: set.schema(), splits: records::read(&*set, &Batches::default())? })
}

/// Writes rows, and returns the files by name. Each split becomes a piece, and pieces are
/// distributed over the files round-robin.
pub fn write(
    format: &dyn Format,
    rows: &Rows,
    target: &Target,
    options: &[(&str, &str)],
) -> Result<BTreeMap<String, Vec<u8>>> {
    let given: Vec<_> = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let context = MemoryContext::default();
    Ok(records::write(format, &given, &rows.schema, &rows.splits, target, &context)?.files)
}
