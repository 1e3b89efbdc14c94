//! The writer converts columns to features of Examples or SequenceExamples. Several threads frame
//! and compress the pieces of the output.

mod compress;
mod encode;
mod layout;
mod leaf;
mod losses;
mod shapes;
mod view;

use crate::codec::Codec;
use crate::files::SUFFIXES;
use crate::options::WriteOptions;
use crate::{frame, schema_file};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use compress::Compressor;
use encode::Encoder;
use layout::Layout;
use losses::Losses;
use shapes::Shapes;
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::records::{PlacedPiece, RecordPlan, RecordWriter, ShardFiles};
use tensorferry_sdk::{ByteSink, Context, LossSink, Result, Target};

/// Number of bytes of uncompressed frames per write.
const MIN_WRITE_LEN: usize = 1 << 20;

pub(crate) struct TfRecordWriter {
    pub(crate) options: WriteOptions,
}

impl RecordWriter for TfRecordWriter {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let WriteOptions { codec, level, sharding, schema: path, message } = &self.options;
        let file = path.as_deref().map(|path| schema_file::read(path, context)).transpose()?;
        let (layout, lost) = Layout::new(schema, file, *message)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let name = match target {
            Target::File(path) => path.clone(),
            Target::Folder if *codec == Some(Codec::Gzip) => format!("data{}.gz", SUFFIXES[0]),
            Target::Folder => format!("data{}", SUFFIXES[0]),
        };
        let by_name = || if has_suffix(&name, ".gz") { Codec::Gzip } else { Codec::None };
        let codec = codec.unwrap_or_else(by_name);
        let files = ShardFiles::new(*sharding, &name, &name, "");
        let compressor = Compressor { codec, level: *level };
        Ok(Box::new(TfRecordPlan { files, layout, compressor, shapes: Mutex::default() }))
    }
}

struct TfRecordPlan {
    files: ShardFiles,
    layout: Layout,
    compressor: Compressor,
    /// The shapes of the features in all pieces that have been encoded.
    shapes: Mutex<Shapes>,
}

impl RecordPlan for TfRecordPlan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(self.compressor.head())
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let is_plain = self.compressor.codec == Codec::None;
        let mut frames = Vec::new();
        let mut lost = Losses::default();
        let mut record = Vec::new();
        let mut shapes = Shapes::default();
        for batch in batches {
            let mut encoder = Encoder::new(&self.layout, batch, &mut lost)?;
            for row in 0..batch.num_rows() {
                record.clear();
                encoder.append(row, &mut record, &mut lost, &mut shapes)?;
                frame::append(&mut frames, &record);
                if is_plain && frames.len() >= MIN_WRITE_LEN {
                    output.write(&frames)?;
                    frames.clear();
                }
            }
        }
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).add(&shapes);
        lost.finish(&self.layout).into_iter().try_for_each(|loss| losses.loss(loss))?;
        self.compressor.piece(&frames, output)
    }

    fn notes(&self) -> Vec<String> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).notes(&self.layout)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        output.write(&self.compressor.tail(pieces)?)
    }
}
