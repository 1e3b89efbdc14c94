//! Writes records as lines of JSON. If the input's format defines a JSON form for its records, that
//! form is used. Otherwise, each record becomes a plain object, as in a conversion to JSON lines.

use super::flow::{Flow, batches};
use super::rows::Rows;
use arrow_array::RecordBatch;
use arrow_json::writer::LineDelimited;
use arrow_json::{Writer, WriterBuilder};
use std::io::Write;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::records::json::{JsonEncoders, NonFinite};
use tensorferry_sdk::records::{ScanRequest, from_stream};
use tensorferry_sdk::{ByteSink, Context, Error, Result, arrow_array};

/// Writes at most `limit` records in order, one per line. Returns the number of records written. If
/// the input contains an error, the batches before the error are still written.
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

/// Writes the rows of a split as plain objects.
fn write_objects(
    rows: &Rows<'_>,
    split: usize,
    most: u64,
    output: &mut dyn Write,
    session: &Session,
) -> Result<u64> {
    let mut writer = Objects::new(output);
    let mut written = 0;
    let scan = ScanRequest { limit: Some(most), ..batches().into() };
    for batch in rows.set.scan(split, &scan).map_err(|e| rows.place(e))? {
        session.check_cancelled()?;
        let batch = batch.map_err(|error| rows.place(from_stream(error)))?;
        let taken = usize::try_from(most - written).unwrap_or(usize::MAX).min(batch.num_rows());
        writer.write(&batch.slice(0, taken))?;
        written += taken as u64;
        if written == most {
            break;
        }
    }
    writer.finish()?;
    Ok(written)
}

/// Writes all rows of a flow as plain objects, one per line.
pub fn write_flow(flow: &mut dyn Flow, output: &mut dyn Write, session: &Session) -> Result<()> {
    let mut writer = Objects::new(output);
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        writer.write(&batch)?;
    }
    writer.finish()
}

struct Objects<'a> {
    output: &'a mut dyn Write,
    /// Buffer for the text of the current batch.
    writer: Writer<Vec<u8>, LineDelimited>,
    encoders: JsonEncoders,
}

impl<'a> Objects<'a> {
    fn new(output: &'a mut dyn Write) -> Self {
        let encoders = JsonEncoders::new(NonFinite::Quoted);
        let builder =
            WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(encoders.clone()));
        Self { output, writer: builder.build(Vec::new()), encoders }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|e| Error::unsupported(e.to_string()))?;
        self.encoders.check_batch(batch)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let text = self.writer.get_mut();
        self.output.write_all(text)?;
        text.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.writer.finish().map_err(|e| Error::io(e.to_string()))?;
        self.flush()
    }
}

/// A sink that adds a line break after each record that a format writes.
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
    use arrow_array::{
        ArrayRef, BinaryArray, Float32Array, ListArray, TimestampMicrosecondArray, types::Float32Type,
    };

    fn lines(columns: Vec<(&str, ArrayRef)>) -> Result<String> {
        let mut output = Vec::new();
        let mut writer = Objects::new(&mut output);
        writer.write(
            &RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
                .unwrap(),
        )?;
        writer.finish()?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn bytes_floats_and_times_are_as_in_json_lines() {
        let times = |zone: &str| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone(zone))
        };
        let lists = [Some(vec![Some(f32::NEG_INFINITY), None]), None];
        let written = lines(vec![
            ("a", times("UTC")),
            ("b", times("Europe/Zurich")),
            ("c", times("+02:00")),
            ("d", Arc::new(BinaryArray::from(vec![&b"yz"[..], b""]))),
            ("e", Arc::new(Float32Array::from(vec![f32::NAN, f32::INFINITY]))),
            ("f", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists))),
        ]);
        assert_eq!(
            written.unwrap(),
            "{\"a\":\"1970-01-01T00:00:00Z\",\"b\":\"1970-01-01T00:00:00Z\",\"c\":\"1970-01-01T00:00:00Z\",\
             \"d\":\"eXo=\",\"e\":\"NaN\",\"f\":[\"-Infinity\",null]}\n\
             {\"a\":null,\"b\":null,\"c\":null,\"d\":\"\",\"e\":\"Infinity\",\"f\":null}\n"
        );
        assert!(lines(vec![("t", Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX])))]).is_err());
    }
}
