//! Records as lines of JSON: in the mapping of their own format where it has one, else as plain objects.

use super::flow::batches;
use super::rows::Rows;
use crate::context::session::Session;
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use std::io::Write;
use tensorferry_sdk::records::from_stream;
use tensorferry_sdk::{ByteSink, Context, Error, Result};

/// Writes the records, at most `limit`, in their order, one a line; gives how many they were.
///
/// # Errors
/// Whatever is wrong with the input; the records before it were written.
pub fn write_lines(
    rows: &Rows<'_>,
    limit: Option<u64>,
    output: &mut dyn Write,
    session: &Session,
) -> Result<u64> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut written = 0;
    for split in 0..rows.set.splits().len() {
        if left == 0 {
            break;
        }
        session.check_cancelled()?;
        let count =
            match rows.set.json(split, left, &mut Lines { output, session }).map_err(|e| rows.place(e))? {
                Some(count) => count,
                None => write_objects(rows, split, left, output, session)?,
            };
        written += count;
        left = left.saturating_sub(count);
    }
    Ok(written)
}

/// The rows of a split as plain objects.
fn write_objects(
    rows: &Rows<'_>,
    split: usize,
    most: u64,
    output: &mut dyn Write,
    session: &Session,
) -> Result<u64> {
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(std::io::BufWriter::new(output));
    let mut written = 0;
    for batch in rows.set.stream(split, &batches()).map_err(|e| rows.place(e))? {
        session.check_cancelled()?;
        let batch = batch.map_err(|error| rows.place(from_stream(error)))?;
        let taken = usize::try_from(most - written).unwrap_or(usize::MAX).min(batch.num_rows());
        writer.write(&batch.slice(0, taken)).map_err(|e| Error::unsupported(e.to_string()))?;
        written += taken as u64;
        if written == most {
            break;
        }
    }
    writer.finish().map_err(|e| Error::io(e.to_string()))?;
    Ok(written)
}

/// Ends each line that a format writes.
struct Lines<'a> {
    output: &'a mut dyn Write,
    session: &'a Session,
}

impl ByteSink for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.session.check_cancelled()?;
        self.output.write_all(bytes)?;
        self.output.write_all(b"\n")?;
        Ok(())
    }
}
