//! The writer: a file begins with the names of its columns, pieces are runs of rows, and a compressed file is one member or frame
//! for each.

mod encode;

use crate::dialect::Dialect;
use crate::options::WriteOptions;
use encode::Encoder;
use tensorferry_row_text::Compression;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{RecordPlan, RecordWriter, ShardFiles, Sharding};
use tensorferry_sdk::{ByteSink, Context, LossSink, Result, Target};

/// Writes with these options.
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
        let name = match target {
            Target::File(name) => name,
            Target::Folder => "data.csv",
        };
        let compression = self.0.compression.of_name(name)?;
        let dialect = Dialect::of(name, self.0.form.delimiter, self.0.form.quote);
        let (encoder, lost) = Encoder::new(schema, dialect, &self.0.null)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let head = if self.0.form.has_header { encoder.header()? } else { Vec::new() };
        Ok(Box::new(Plan { files: files(name, self.0.sharding), compression, encoder, head }))
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
        let (text, lost) = self.encoder.encode(batches)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        self.compression.write(&text, output)?;
        Ok(Vec::new())
    }
}

/// `data.csv`, or with a number of shards `data-00000-of-00002.csv` and so on.
fn files(name: &str, sharding: Sharding) -> ShardFiles {
    // From the first dot of what says the format on: `.csv.gz`.
    let lower = name.to_ascii_lowercase();
    let at = crate::SUFFIXES.iter().find_map(|suffix| lower.rfind(suffix));
    let (stem, suffix) = name.split_at(at.unwrap_or(name.len()));
    let suffix = if suffix.is_empty() { crate::SUFFIXES[0] } else { suffix };
    ShardFiles::new(sharding, name, stem, suffix)
}
