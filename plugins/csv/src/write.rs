//! The writer. A file begins with the names of its columns, and each piece of the file contains
//! consecutive rows. In a compressed file, the header and each piece are separate gzip members or
//! Zstandard frames.

mod encode;

use crate::dialect::Dialect;
use crate::options::WriteOptions;
use encode::Encoder;
use tensorferry_row_text::{Compression, shard_files};
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{RecordPlan, RecordWriter, ShardFiles};
use tensorferry_sdk::{ByteSink, Context, LossSink, Result, Target};

pub(crate) struct Writer(pub(crate) WriteOptions);

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let name = target.file_or("data.csv");
        let compression = self.0.compression.of_name(name)?;
        let dialect = Dialect::of(name, self.0.form.delimiter, self.0.form.quote);
        let (encoder, lost) = Encoder::new(schema, dialect, &self.0.null)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let head = if self.0.form.has_header { encoder.header()? } else { Vec::new() };
        let files = shard_files(name, self.0.sharding, &crate::SUFFIXES);
        Ok(Box::new(Plan { files, compression, encoder, head }))
    }
}

struct Plan {
    files: ShardFiles,
    compression: Compression,
    encoder: Encoder,
    head: Vec<u8>,
}

impl RecordPlan for Plan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        self.compression.write(&self.head, output)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let mut text = String::new();
        let lost = self.encoder.encode(batches, &mut text, self.compression.blocks(output))?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        self.compression.write(text.as_bytes(), output)?;
        Ok(Vec::new())
    }
}
