//! Pairs, a format of rows that uses version 57 of arrow-rs. Each line is an integer, a tab, and a
//! string. Rows cross the plugin boundary as Arrow C streams, which are the same in all versions of
//! arrow-rs. Only the code that moves a schema or a stream is unsafe.

mod write;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tensorferry_sdk::records::{
    ArrowArrayStream, ArrowSchema, FileCursor, RecordReader, RecordSet, RecordWriter, Split, StreamSet,
};
use tensorferry_sdk::{
    Capabilities, Context, Description, Error, Format, LossSink, Options, Result, Source, export_plugin,
};

export_plugin!(Pairs);

struct Pairs;

impl Format for Pairs {
    fn describe(&self) -> Description {
        Description::new("pairs", "Numbers with texts")
            .suffixes([".pairs"])
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
    }

    fn record_reader(&self, _options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(Reader))
    }

    fn record_writer(&self, _options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
    ]))
}

struct Reader;

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (files, ()) = FileCursor::all(&source, ".pairs", context.limits(), |_| Ok(()))?;
        let len = |file: &FileCursor| source.open(file.file_name()).map(|id| source.len(id));
        let split = |file: &FileCursor| {
            Ok(Split { file: file.file_name().to_owned(), bytes: len(file)?, ..Split::default() })
        };
        let splits = files.iter().map(split).collect::<Result<Vec<_>>>()?;
        let mut schema =
            FFI_ArrowSchema::try_from(&*schema()).map_err(|error| Error::plugin(error.to_string()))?;
        // SAFETY: the pointer is valid, both types are the schema of the C data interface, and the
        // call moves the value out.
        let schema = unsafe { ArrowSchema::from_raw((&raw mut schema).cast()) };
        let lens: Vec<u64> = splits.iter().map(|split| split.bytes).collect();
        Ok(Box::new(StreamSet::new(schema, splits, move |split, _batches| {
            stream(files[split].clone(), lens[split])
        })?))
    }
}

/// Returns all rows of a file.
fn stream(mut file: FileCursor, len: u64) -> Result<ArrowArrayStream> {
    let name = file.file_name().to_owned();
    let bytes = file.take(len)?;
    let mut rows: (Vec<i64>, Vec<&str>) = Default::default();
    let mut offset = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let pair = str::from_utf8(line).ok().and_then(|line| line.strip_suffix('\n')?.split_once('\t'));
        let pair = pair.and_then(|(number, text)| Some((number.parse().ok()?, text)));
        let wrong = || {
            Error::malformed("a line is not a number, a tab, a text and a line break")
                .file(&name)
                .offset(offset)
        };
        let (number, text) = pair.ok_or_else(wrong)?;
        rows.0.push(number);
        rows.1.push(text);
        offset += line.len() as u64;
    }
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(rows.0)), Arc::new(StringArray::from(rows.1))];
    let batch =
        RecordBatch::try_new(schema(), columns).map_err(|error| Error::malformed(error.to_string()))?;
    let batches = RecordBatchIterator::new([Ok(batch)], schema());
    let mut stream = FFI_ArrowArrayStream::new(Box::new(batches));
    // SAFETY: the pointer is valid, both types are the stream of the C stream interface, and the
    // call moves the value out.
    Ok(unsafe { ArrowArrayStream::from_raw((&raw mut stream).cast()) })
}
