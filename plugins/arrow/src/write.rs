//! The writer. Each piece of a file contains one or more record batches. In the file format, the
//! dictionaries and the index of all batches follow the pieces.

mod encode;
mod footer;
mod join;

use crate::options::{Form, WriteOptions};
use encode::Encoder;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan, RecordWriter, ShardFiles};
use tensorferry_sdk::{ByteSink, Context, LossSink, Result, Target};

pub(crate) struct Writer(pub(crate) WriteOptions);

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let name = target.file_or("data.arrow");
        let max = context.limits().header_bytes;
        let encoder = Encoder::new(schema, self.0.form_of(name), &self.0.ipc, max)?;
        // Hugging Face's `datasets` library names shards in the same way.
        let files = ShardFiles::named(self.0.sharding, name, &crate::SUFFIXES);
        Ok(Box::new(Plan { files, group: self.0.group, encoder }))
    }
}

struct Plan {
    files: ShardFiles,
    group: Group,
    encoder: Encoder,
}

impl RecordPlan for Plan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn group(&self) -> Group {
        self.files.group(self.group)
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(self.encoder.head())
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        self.encoder.encode(batches, output)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        match self.encoder.form() {
            Form::Stream => output.write(&footer::END),
            Form::File => footer::write(&self.encoder, pieces, output),
        }
    }
}
