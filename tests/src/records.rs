//! Rows read and written by a plugin's format in memory, the way a host does it.

use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{Batches, PlacedPiece, from_stream};
use tensorferry_sdk::{Context, Format, MemoryContext, Options, Result, Side, Source, Target};

/// Rows, split by split.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The schema of all.
    pub schema: SchemaRef,
    /// The batches of each split.
    pub splits: Vec<Vec<RecordBatch>>,
}

/// Reads a source with a format under its default options.
///
/// # Errors
/// Whatever the format says.
pub fn read(format: &dyn Format, source: Arc<dyn Source>, context: &dyn Context) -> Result<Rows> {
    let options = Options::check(&format.describe().options, Side::Reader, &[])?;
    let set = format.record_reader(&options)?.open(source, context)?;
    let mut splits = Vec::new();
    for split in 0..set.splits().len() {
        let stream = set.stream(split, &Batches::default())?;
        splits.push(stream.map(|batch| batch.map_err(from_stream)).collect::<Result<_>>()?);
    }
    Ok(Rows { schema: set.schema(), splits })
}

/// Writes rows, each split a piece, dealt over the files in turn: the files by name.
///
/// # Errors
/// Whatever the format says.
pub fn write(
    format: &dyn Format,
    rows: &Rows,
    target: &Target,
    options: &[(&str, &str)],
) -> Result<BTreeMap<String, Vec<u8>>> {
    let given: Vec<_> = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let options = Options::check(&format.describe().options, Side::Writer, &given)?;
    let plan = format.record_writer(&options)?.plan(&rows.schema, None, target, &MemoryContext::default())?;
    let mut files = BTreeMap::new();
    for (file, name) in plan.files().iter().enumerate() {
        let (mut bytes, mut placed) = (Vec::new(), Vec::new());
        plan.begin(file, &mut bytes)?;
        for batches in rows.splits.iter().skip(file).step_by(plan.files().len()) {
            let offset = bytes.len() as u64;
            let note = plan.encode(file, batches, &mut bytes)?.note;
            let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            placed.push(PlacedPiece { offset, len: bytes.len() as u64 - offset, rows, note });
        }
        plan.finish(file, &placed, &mut bytes)?;
        files.insert(name.clone(), bytes);
    }
    Ok(files)
}
