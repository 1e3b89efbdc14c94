//! The writer. Each piece becomes a shard, because the table at the start of a shard contains the
//! offsets of all its samples. The index is written last.

mod array;
mod column;
mod shard;

use crate::INDEX;
use crate::options::WriteOptions;
use shard::Encoder;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan, RecordWriter, Roll, WrittenFile};
use tensorferry_sdk::{ByteSink, Context, Error, LossSink, Result, ShardTag, Target};

/// Maximum number of shards. Shard file names contain five-digit numbers.
const MAX_SHARDS: usize = 99_999;

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
        if let Target::File(name) = target {
            return Err(Error::usage("an MDS dataset is a folder")
                .file(name)
                .hint("end the output path with a slash"));
        }
        let (columns, lost) = column::of_schema(schema, &self.0)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let ending = self.0.compression.map_or(String::new(), |(codec, _)| format!(".{}", codec.word()));
        // Pattern that matches the shards of an earlier run, regardless of their compression.
        let numbers = format!("{}.mds*", "[0-9]".repeat(5));
        let supersedes = vec![format!("shard.{numbers}"), format!("shard.{}.{numbers}", ShardTag::glob())];
        let stem = format!("shard{}", self.0.shard_tag.with_separator("."));
        let encoder = Encoder::new(columns, self.0.clone());
        let group = encoder.group();
        Ok(Box::new(Plan { encoder, group, stem, ending, supersedes, sealed: vec![INDEX.to_owned()] }))
    }
}

struct Plan {
    encoder: Encoder,
    group: Group,
    stem: String,
    ending: String,
    supersedes: Vec<String>,
    sealed: Vec<String>,
}

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &[]
    }

    /// Starts a new file after each piece.
    fn roll(&self) -> Option<Roll> {
        Some(Roll::Bytes(1))
    }

    fn name(&self, file: usize, count: usize) -> Result<String> {
        if count > MAX_SHARDS {
            let error = Error::unsupported("too many shards")
                .hint("pass larger -o max_shard_size and --memory values");
            return Err(error.expected(format!("at most {MAX_SHARDS}")).found(count));
        }
        Ok(format!("{}.{file:05}.mds{}", self.stem, self.ending))
    }

    fn supersedes(&self) -> &[String] {
        &self.supersedes
    }

    fn group(&self) -> Group {
        self.group
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let shard = self.encoder.encode(batches, losses)?;
        output.write(&shard.bytes)?;
        Ok(shard.note)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        match pieces {
            // Without rows, write one shard without samples.
            [] => self.encode(&[], output, &mut Vec::new()).map(drop),
            [_] => Ok(()),
            _ => Err(Error::plugin("a shard has two pieces")),
        }
    }

    fn sealed(&self) -> &[String] {
        &self.sealed
    }

    fn seal(&self, _sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let mut shards = Vec::with_capacity(files.len());
        for file in files {
            let note = match &*file.pieces {
                [] => self.encoder.encode(&[], &mut Vec::new())?.note,
                [piece, ..] => piece.note.clone(),
            };
            let name = file.name.strip_suffix(&self.ending).unwrap_or(&file.name);
            shards.push(self.encoder.entry(name, &file.name, file.rows(), &note)?);
        }
        let index = serde_json::json!({"shards": shards, "version": 2});
        output.write(index.to_string().as_bytes())
    }
}
