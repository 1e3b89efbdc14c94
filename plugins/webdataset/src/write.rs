//! Writes WebDatasets. Each piece consists of consecutive samples. Each file ends with two blocks
//! of zeros.

mod encode;

use crate::options::KEY;
use crate::{SUFFIXES, tar};
use encode::Encoder;
use tensorferry_row_text::{Codec, Compression};
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::file_name::split_suffix;
use tensorferry_sdk::records::{PlacedPiece, RecordPlan, RecordWriter, ShardFiles, Sharding};
use tensorferry_sdk::{ByteSink, Context, LossSink, Options, Result, Target};

/// Each file is padded to a multiple of this number of bytes.
const RECORD: u64 = 20 * tar::BLOCK;

pub(crate) struct Writer {
    key: Option<String>,
    sharding: Sharding,
}

impl Writer {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { key: KEY.get(options)?, sharding: Sharding::of(options)? })
    }
}

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let name = target.file_or("data.tar");
        let (encoder, lost) = Encoder::new(schema, self.key.as_deref())?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let suffix = split_suffix(name, SUFFIXES).map_or("", |(_, suffix)| suffix);
        let codec = match &*suffix.to_ascii_lowercase() {
            ".tar.gz" | ".tgz" => Codec::Gzip,
            ".tar.zst" => Codec::Zstd,
            _ => Codec::Plain,
        };
        let files = ShardFiles::named(self.sharding, name, &SUFFIXES);
        Ok(Box::new(Plan { files, compression: Compression::usual(codec), encoder }))
    }
}

struct Plan {
    files: ShardFiles,
    compression: Compression,
    encoder: Encoder,
}

impl RecordPlan for Plan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let (bytes, note) = self.encoder.encode(batches, losses)?;
        self.compression.write(&bytes, output)?;
        Ok(note)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let len = encode::check(pieces)?;
        let end = (len + 2 * tar::BLOCK).next_multiple_of(RECORD) - len;
        self.compression.write(&vec![0; usize::try_from(end).unwrap_or(0)], output)
    }
}
