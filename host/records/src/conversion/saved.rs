//! Writes records that the calling program provides as a stream of batches. The stream can be read
//! only once.

use crate::conversion::input::RecordInput;
use crate::conversion::output::write_records;
use crate::flow::{BATCH_ROWS, Flow, from_fn};
use crate::plain::plain_field;
use crate::steps::{FlowSource, Origin};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tensorferry_convert::OutputRequest;
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::report::Report;
use tensorferry_convert::request::Request;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::{Formats, holds_records};
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::records::{BatchStream, from_stream, nulls_in_keys};
use tensorferry_sdk::{
    CatalogBuilder, Context, Entry, Error, MemorySource, Result, arrow_array, arrow_schema,
};

/// Writes the batches of a stream to `request`'s output.
pub fn save_records(
    output: OutputRequest,
    batches: BatchStream,
    registry: &Formats,
    session: &Session,
) -> Result<Report> {
    let started = Instant::now();
    let watch = |_| ();
    let source = FileSource::of_files(output.path.clone(), vec![String::new()]);
    let request = Request { output, ..Request::default() };
    let context = ConversionContext::of(&request, source.reopen(), registry, session, &watch, started)?;
    let target = &context.target.format.description;
    if !holds_records(target) {
        let problem = Error::usage(format!("{} holds tensors, not records", target.id));
        return Err(problem.file(request.output.path.display().to_string()));
    }
    let none = MemorySource::new(Entry::Folder, Default::default());
    let catalog = CatalogBuilder::new("memory", &none, session.limits()).finish()?;
    let input = TensorInput::in_memory(source, catalog);
    let reading = context.reading(context.purpose(&input.format));
    let made =
        SingleUseStream { schema: plain_schema(&batches.schema()), batches: Mutex::new(Some(batches)) };
    let records = RecordInput {
        origin: Origin::Other(&made),
        records: None,
        steps: &[],
        format: &input.format,
        source: &input.source,
        losses: Vec::new(),
        session,
    };
    write_records(&context, &reading, &records, 0)?.commit()
}

/// A stream that can be read only once.
struct SingleUseStream {
    schema: SchemaRef,
    batches: Mutex<Option<BatchStream>>,
}

impl FlowSource for SingleUseStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>> {
        let mut pulled: Option<BatchStream> = None;
        let mut rest: Option<RecordBatch> = None;
        Ok(from_fn(self.schema.clone(), move || {
            loop {
                // A stream may return batches of any size, so large batches are divided.
                if let Some(batch) = rest.take().filter(|batch| batch.num_rows() > 0) {
                    let now = batch.num_rows().min(BATCH_ROWS);
                    rest = Some(batch.slice(now, batch.num_rows() - now));
                    return plain_batch(&batch.slice(0, now), &self.schema).map(Some);
                }
                let batches = match &mut pulled {
                    Some(batches) => batches,
                    none => none.insert(self.take()?),
                };
                match batches.next() {
                    Some(batch) => rest = Some(batch.map_err(failed)?),
                    None => return Ok(None),
                }
            }
        }))
    }
}

impl SingleUseStream {
    fn take(&self) -> Result<BatchStream> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        batches.ok_or_else(|| {
            Error::usage("a stream of records can be read only once, but this conversion needs it again")
        })
    }
}

/// Returns the error of a failed stream. For a failed stream, the Arrow C interface provides only a
/// message. The failure does not mean that a file is malformed.
fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::CDataInterface(text) => Error::usage(format!("the stream of records failed: {text}")),
        other => from_stream(other),
    }
}

/// Returns a schema in which each column has the type that files use. Views and runs are replaced,
/// because they are only in-memory representations. A dictionary type is kept, because it may be
/// part of the column's meaning, for example for categories.
fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> =
        schema.fields().iter().map(|field| plain_field(field, &kept_dictionary)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns the dictionary type to write. Writers that do not support dictionaries expand the
/// values, and report values that they cannot store.
fn kept_dictionary(keys: &DataType, values: DataType) -> DataType {
    if is_scalar(&values) { DataType::Dictionary(wide_enough(keys), Box::new(values)) } else { values }
}

/// Returns a dictionary key type that is wide enough to combine the different dictionaries of many
/// batches.
fn wide_enough(keys: &DataType) -> Box<DataType> {
    let is_narrow = matches!(keys, DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16);
    Box::new(if is_narrow { DataType::Int32 } else { keys.clone() })
}

fn is_scalar(data_type: &DataType) -> bool {
    let is_of_bytes = matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::FixedSizeBinary(_)
    );
    is_of_bytes || data_type.is_primitive()
}

fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let cast = |(column, field): (&ArrayRef, &FieldRef)| {
        arrow_cast::cast(&nulls_in_keys(column)?, field.data_type())
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(cast).collect::<Result<Vec<_>, _>>();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch =
        columns.and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options));
    batch.map_err(from_stream)
}
