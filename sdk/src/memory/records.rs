//! An in-memory host for rows. Use it to test formats that store records.

use crate::records::{Batches, PlacedPiece, RecordSet, WrittenFile, from_stream};
use crate::{Context, Format, Loss, Options, Result, Side, Source, Target};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// An opened record input, and the losses that its reader reported.
pub struct OpenedRecords {
    set: Box<dyn RecordSet>,
    losses: Vec<Loss>,
}

impl OpenedRecords {
    /// Returns the losses reported when the input was opened and when streams were read.
    ///
    /// # Errors
    /// Returns an error if the record set fails.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.losses.clone();
        self.set.losses(&mut losses)?;
        Ok(losses)
    }
}

impl Deref for OpenedRecords {
    type Target = dyn RecordSet;

    fn deref(&self) -> &Self::Target {
        &*self.set
    }
}

/// Opens `source` with a format's reader. The options in `given` override the default options.
///
/// # Errors
/// Returns an error if the reader fails.
pub fn open(
    format: &dyn Format,
    given: &[(String, String)],
    source: Arc<dyn Source>,
    context: &dyn Context,
) -> Result<OpenedRecords> {
    let options = Options::check(&format.describe().options, Side::Reader, given)?;
    let mut losses = Vec::new();
    let set = format.record_reader(&options)?.open(source, &mut losses, context)?;
    Ok(OpenedRecords { set, losses })
}

/// Reads the batches of each split in a set.
///
/// # Errors
/// Returns an error if a stream fails.
pub fn read(set: &dyn RecordSet, request: &Batches) -> Result<Vec<Vec<RecordBatch>>> {
    let split = |split| set.stream(split, request)?.map(|batch| batch.map_err(from_stream)).collect();
    (0..set.splits().len()).map(split).collect()
}

/// The files that a record writer wrote, and the losses that it reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOutput {
    /// Bytes of each data file, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Bytes of each sealed file, by name.
    pub sealed: BTreeMap<String, Vec<u8>>,
    /// Losses reported by the plan, followed by the losses of the pieces.
    pub losses: Vec<Loss>,
}

/// Writes pieces with a format's writer. Each piece consists of one or more batches. The options in
/// `given` override the default options. If the plan names its files in advance, the pieces are
/// distributed over them in turn. Otherwise, files are filled one at a time.
///
/// # Errors
/// Returns an error if the writer fails.
pub fn write(
    format: &dyn Format,
    given: &[(String, String)],
    schema: &SchemaRef,
    pieces: &[Vec<RecordBatch>],
    target: &Target,
    context: &dyn Context,
) -> Result<RecordOutput> {
    let options = Options::check(&format.describe().options, Side::Writer, given)?;
    let rows = pieces.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
    let mut losses = Vec::new();
    let plan = format.record_writer(&options)?.plan(schema, Some(rows), target, &mut losses, context)?;
    let mut written = Vec::new();
    let mut file = |number: usize, pieces: &[&Vec<RecordBatch>]| -> Result<()> {
        let mut bytes = Vec::new();
        plan.begin(number, &mut bytes)?;
        let mut placed = Vec::new();
        for batches in pieces {
            let offset = bytes.len() as u64;
            let note = plan.encode(batches, &mut bytes, &mut losses)?;
            let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            placed.push(PlacedPiece { offset, len: bytes.len() as u64 - offset, rows, note });
        }
        plan.finish(number, &placed, &mut bytes)?;
        written.push((placed, bytes));
        Ok(())
    };
    let all: Vec<&Vec<RecordBatch>> = pieces.iter().collect();
    if plan.roll().is_some() {
        // Write each piece to its own file, regardless of the plan's maximum file size, so that
        // even a small test covers several files.
        all.chunks(1)
            .chain(all.is_empty().then_some(&all[..]))
            .enumerate()
            .try_for_each(|(n, of)| file(n, of))?;
    } else {
        for number in 0..plan.files().len() {
            let of: Vec<_> = all.iter().copied().skip(number).step_by(plan.files().len()).collect();
            file(number, &of)?;
        }
    }
    let count = written.len();
    let mut files = BTreeMap::new();
    let mut finished = Vec::new();
    for (number, (pieces, bytes)) in written.into_iter().enumerate() {
        let name =
            if plan.roll().is_some() { plan.name(number, count)? } else { plan.files()[number].clone() };
        finished.push(WrittenFile { name: name.clone(), bytes: bytes.len() as u64, pieces });
        files.insert(name, bytes);
    }
    let mut sealed = BTreeMap::new();
    for (number, name) in plan.sealed().iter().enumerate() {
        let mut bytes = Vec::new();
        plan.seal(number, &finished, &mut bytes)?;
        sealed.insert(name.clone(), bytes);
    }
    Ok(RecordOutput { files, sealed, losses })
}
