//! Records as lines of JSON: in the mapping of their own format where it has one, else as plain objects.

use super::flow::{Flow, batches};
use super::rows::Rows;
use super::shown::in_known_zones;
use crate::context::session::Session;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_json::writer::LineDelimited;
use arrow_json::{Writer, WriterBuilder};
use arrow_schema::{ArrowError, FieldRef, Schema};
use std::io::Write;
use std::sync::Arc;
use tensorferry_sdk::records::{Scan, from_stream};
use tensorferry_sdk::{ByteSink, Context, Error, Result, arrow_array, arrow_schema};

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
    let mut writer = objects(output);
    let mut written = 0;
    let scan = Scan { limit: Some(most), ..batches().into() };
    for batch in rows.set.scan(split, &scan).map_err(|e| rows.place(e))? {
        session.check_cancelled()?;
        let batch = batch.map_err(|error| rows.place(from_stream(error)))?;
        let taken = usize::try_from(most - written).unwrap_or(usize::MAX).min(batch.num_rows());
        write_batch(&mut writer, &batch.slice(0, taken))?;
        written += taken as u64;
        if written == most {
            break;
        }
    }
    writer.finish().map_err(|e| Error::io(e.to_string()))?;
    Ok(written)
}

/// Writes all rows of a flow as plain objects, one a line.
///
/// # Errors
/// Whatever the flow gives; unsupported, for values that JSON has not.
pub fn write_flow(flow: &mut dyn Flow, output: &mut dyn Write, session: &Session) -> Result<()> {
    let mut writer = objects(output);
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        write_batch(&mut writer, &batch)?;
    }
    writer.finish().map_err(|e| Error::io(e.to_string()))
}

type Objects<'a> = Writer<std::io::BufWriter<&'a mut dyn Write>, LineDelimited>;

fn objects(output: &mut dyn Write) -> Objects<'_> {
    WriterBuilder::new().with_explicit_nulls(true).build(std::io::BufWriter::new(output))
}

fn write_batch(writer: &mut Objects<'_>, batch: &RecordBatch) -> Result<()> {
    let told = told(batch).map_err(|e| Error::unsupported(e.to_string()))?;
    writer.write(&told).map_err(|e| Error::unsupported(e.to_string()))
}

/// Rows whose times are in zones that can be written.
fn told(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<FieldRef> = batch.schema_ref().fields().iter().map(in_known_zone).collect();
    if fields.iter().zip(batch.schema_ref().fields()).all(|(told, own)| told == own) {
        return Ok(batch.clone());
    }
    let cast = |(column, field): (&ArrayRef, &FieldRef)| arrow_cast::cast(column, field.data_type());
    let columns = batch.columns().iter().zip(&fields).map(cast).collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn in_known_zone(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(in_known_zones(field.data_type())))
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::TimestampMicrosecondArray;
    use arrow_schema::{DataType, Field, TimeUnit};

    #[test]
    fn times_in_zones_of_names_and_of_offsets_are_written() {
        let column = |zone: &str| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone(zone))
        };
        let of = |zone: &str| DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        let fields = [("a", "UTC"), ("b", "Europe/Zurich"), ("c", "+02:00")];
        let schema = Schema::new(fields.map(|(name, zone)| Field::new(name, of(zone), true)).to_vec());
        let batch =
            RecordBatch::try_new(Arc::new(schema), fields.map(|(_, zone)| column(zone)).to_vec()).unwrap();
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
        writer.write(&told(&batch).unwrap()).unwrap();
        writer.finish().unwrap();
        assert_eq!(
            String::from_utf8(writer.into_inner()).unwrap(),
            "{\"a\":\"1970-01-01T00:00:00Z\",\"b\":\"1970-01-01T00:00:00Z\",\"c\":\"1970-01-01T02:00:00+02:00\"}\n\
             {\"a\":null,\"b\":null,\"c\":null}\n"
        );
    }
}
