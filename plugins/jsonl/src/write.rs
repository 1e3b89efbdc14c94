//! The writer: pieces are runs of lines, and a compressed file is one member or frame for each.

mod encode;

use crate::codec::Codec;
use crate::options::WriteOptions;
use encode::Lines;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{PlacedPiece, RecordPlan, RecordWriter};
use tensorferry_sdk::{ByteSink, Context, Error, LossSink, Options, Result, ShardName, Target};

/// Writes with these options.
pub(crate) struct Writer(WriteOptions);

impl Writer {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        WriteOptions::new(options).map(Self)
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
        let name = match target {
            Target::File(name) => name,
            Target::Folder => "data.jsonl",
        };
        let (codec, level) = self.0.codec_of(name)?;
        let (lines, lost) = encode::lines(schema, self.0.nulls)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        Ok(Box::new(Plan { files: file_names(name, self.0.shards), codec, level, lines }))
    }
}

struct Plan {
    files: Vec<String>,
    codec: Codec,
    level: u32,
    lines: Lines,
}

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn encode(
        &self,
        _file: usize,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let (text, lost) = self.lines.encode(batches)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        match self.codec {
            Codec::Plain => output.write(&text)?,
            Codec::Gzip => {
                let mut member =
                    flate2::bufread::GzEncoder::new(&text[..], flate2::Compression::new(self.level));
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut member, &mut bytes)?;
                output.write(&bytes)?;
            }
            Codec::Zstd => {
                let level = i32::try_from(self.level).map_err(|_| Error::usage("no such level"))?;
                output.write(&zstd::bulk::compress(&text, level)?)?;
            }
        }
        Ok(Vec::new())
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        // No bytes at all would be no compressed file.
        match self.codec {
            Codec::Gzip | Codec::Zstd if pieces.is_empty() => {
                self.encode(0, &[], output, &mut Vec::new()).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// `data.jsonl`, or with a number of shards `data-00000-of-00002.jsonl` and so on.
fn file_names(name: &str, shards: Option<u32>) -> Vec<String> {
    let Some(shards) = shards else { return vec![name.to_owned()] };
    // From the first dot of what says the format on: `.jsonl.gz`.
    let at = crate::SUFFIXES.iter().chain(&[crate::LOOSE_SUFFIX]).find_map(|suffix| name.rfind(suffix));
    let (stem, suffix) = name.split_at(at.unwrap_or(name.len()));
    let suffix = if suffix.is_empty() { crate::SUFFIXES[0] } else { suffix };
    ShardName::set(stem, shards, suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbered() {
        assert_eq!(file_names("a.jsonl", None), ["a.jsonl"]);
        assert_eq!(file_names("a.jsonl.gz", Some(1)), ["a-00000-of-00001.jsonl.gz"]);
        assert_eq!(file_names("a.json", Some(2))[1], "a-00001-of-00002.json");
        assert_eq!(file_names("a", Some(1)), ["a-00000-of-00001.jsonl"]);
    }
}
