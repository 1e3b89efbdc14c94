//! The writer. Each piece of a file contains consecutive lines. In a compressed file, each piece is
//! a separate gzip member or Zstandard frame.

mod encode;
mod values;

use crate::options::WriteOptions;
use encode::Lines;
use tensorferry_row_text::{Compression, shard_files};
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{PlacedPiece, RecordPlan, RecordWriter, ShardFiles, Sharding};
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
        let name = target.file_or("data.jsonl");
        let compression = self.0.compression.of_name(name)?;
        let (lines, lost) = encode::lines(schema, self.0.nulls)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        Ok(Box::new(Plan { files: files(name, self.0.sharding), compression, lines }))
    }
}

struct Plan {
    files: ShardFiles,
    compression: Compression,
    lines: Lines,
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
        let mut text = Vec::new();
        let lost = self.lines.encode(batches, &mut text, self.compression.blocks(output))?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        self.compression.write(&text, output)?;
        Ok(Vec::new())
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        // A compressed file must not be empty, so write a member or frame without lines.
        if pieces.is_empty() && !self.compression.is_none() {
            self.encode(&[], output, &mut Vec::new())?;
        }
        Ok(())
    }
}

/// Names the files `data.jsonl`, or `data-00000-of-00002.jsonl` and so on if the number of shards
/// is set.
fn files(name: &str, sharding: Sharding) -> ShardFiles {
    shard_files(name, sharding, &[&crate::SUFFIXES[..], &[crate::LOOSE_SUFFIX]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::records::Roll;

    #[test]
    fn shards_are_numbered() {
        let names = |name, sharding| files(name, sharding).files().to_vec();
        assert_eq!(names("a.jsonl", Sharding::One), ["a.jsonl"]);
        assert_eq!(names("a.jsonl.gz", Sharding::Count(1)), ["a-00000-of-00001.jsonl.gz"]);
        assert_eq!(names("a.json", Sharding::Count(2))[1], "a-00001-of-00002.json");
        assert_eq!(names("a", Sharding::Count(1)), ["a-00000-of-00001.jsonl"]);
        let rolling = files("a.jsonl.gz", Sharding::Roll(Roll::Rows(2)));
        assert_eq!(
            (rolling.files(), rolling.name(1, 12).ok()),
            (&[][..], Some("a-00001-of-00012.jsonl.gz".to_owned()))
        );
    }
}
