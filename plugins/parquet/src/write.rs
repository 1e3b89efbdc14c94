//! The writer encodes each row group separately, like a small file. The footer of the output lists
//! all row groups.

mod as_stored;
mod dense;
mod encode;
mod footer;
mod stored;

use crate::MAGIC;
use crate::options::{DictionaryUse, WriteOptions};
use dense::DenseWriter;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use stored::StoredSchema;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{Group, PlacedPiece, RecordPlan, RecordWriter, ShardFiles, Sharding};
use tensorferry_sdk::{ByteSink, Context, Error, LossSink, Result, Target};

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
        let (stored, lost) = stored::stored(schema)?;
        lost.into_iter().try_for_each(|loss| losses.loss(loss))?;
        let properties = encode::properties(&stored, &self.0)?;
        let empty = encode::empty_file(&stored, &properties)?;
        let dense = match (self.0.compression, self.0.dictionary) {
            (Compression::SNAPPY, DictionaryUse::Auto) => Some(true),
            (Compression::UNCOMPRESSED, DictionaryUse::Auto) => Some(false),
            _ => None,
        };
        let has_statistics = self.0.statistics;
        Ok(Box::new(Plan {
            dense: dense.map(|is_compressed| DenseWriter { is_compressed, has_statistics }),
            files: files(target, self.0.sharding),
            group: self.0.group(),
            stored,
            properties,
            empty,
        }))
    }
}

struct Plan {
    files: ShardFiles,
    group: Group,
    stored: StoredSchema,
    properties: WriterProperties,
    /// Writer for columns without nulls or empty lists, if the options allow it.
    dense: Option<DenseWriter>,
    /// Footer of a file without rows.
    empty: ParquetMetaData,
}

impl RecordPlan for Plan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn group(&self) -> Group {
        self.group
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(MAGIC)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        if self.stored.schema.fields().is_empty() && batches.iter().any(|batch| batch.num_rows() > 0) {
            return Err(Error::unsupported("Parquet cannot store rows without columns"));
        }
        encode::row_group(&self.stored, &self.properties, self.dense, &self.empty, batches, output)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        footer::write(&self.empty, pieces, output)
    }
}

/// Returns the file names `data.parquet`, or `data-00000-of-00002.parquet` and so on if a number of
/// shards is set. TensorFlow and Hugging Face Hub tools use the same numbering.
fn files(target: &Target, sharding: Sharding) -> ShardFiles {
    ShardFiles::named(sharding, target.file_or("data.parquet"), &crate::SUFFIXES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbered() {
        let file = |name: &str| Target::File(name.to_owned());
        let names = |target: &Target, sharding| files(target, sharding).files().to_vec();
        assert_eq!(names(&file("a.pq"), Sharding::One), ["a.pq"]);
        assert_eq!(names(&file("a.pq"), Sharding::Count(2)), ["a-00000-of-00002.pq", "a-00001-of-00002.pq"]);
        assert_eq!(names(&Target::Folder, Sharding::Count(1)), ["data-00000-of-00001.parquet"]);
    }
}
