//! The writer. Each batch uses the SDK's version of Arrow, and is converted to this crate's version
//! through a C stream.

use arrow_array::RecordBatchReader;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::types::Int64Type;
use std::io::Write;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::{DataType, SchemaRef};
use tensorferry_sdk::records::{RecordPlan, RecordWriter, c_stream};
use tensorferry_sdk::{ByteSink, Context, Error, LossSink, Result, Target};

pub(crate) struct Writer;

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        _losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        if types != [&DataType::Int64, &DataType::Utf8] {
            return Err(Error::unsupported("the columns are not one int64 and one text"));
        }
        let Target::File(name) = target else { return Err(Error::usage("one file")) };
        Ok(Box::new(Plan([name.clone()])))
    }
}

struct Plan([String; 1]);

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &self.0
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let mut stream = c_stream(&first.schema(), batches);
        // SAFETY: the pointer is valid, both types are the stream of the C stream interface, and
        // the call moves the value out.
        let stream = unsafe { ArrowArrayStreamReader::from_raw((&raw mut stream).cast()) };
        let stream = stream.map_err(|error| Error::plugin(error.to_string()))?;
        assert_eq!(stream.schema().fields().len(), 2, "the plan has checked it");
        let mut bytes = Vec::new();
        for batch in stream {
            let batch = batch.map_err(|error| Error::plugin(error.to_string()))?;
            let (numbers, texts) =
                (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            for (number, text) in numbers.iter().zip(texts) {
                let pair = number.zip(text).filter(|(_, text)| !text.contains('\n'));
                let (number, text) =
                    pair.ok_or_else(|| Error::unsupported("a null or a text with several lines"))?;
                writeln!(bytes, "{number}\t{text}").map_err(Error::from)?;
            }
        }
        output.write(&bytes)?;
        Ok(Vec::new())
    }
}
