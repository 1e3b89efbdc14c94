//! Writes the index of a bundle: a table that contains the entries, with the header at the empty
//! key.

use super::data::{Crc, DataFiles, DataPosition, PositionedEntry};
use crate::names::key_text::key_text;
use crate::table::TableWriter;
use tensorferry_proto::bundle_header_proto::Endianness;
use tensorferry_proto::masked_crc::mask;
use tensorferry_proto::tensor_shape_proto::Dim;
use tensorferry_proto::{BundleEntryProto, BundleHeaderProto, Message, TensorShapeProto, VersionDef};
use tensorferry_sdk::{ByteSink, Digests, Error, OutputId, Result, SealSink};

/// The version of the bundle format that ferry writes.
const VERSION: i32 = 1;

/// Writes the index after all lengths and checksums have been computed.
pub(super) fn write(
    data: &DataFiles,
    file: OutputId,
    digests: &dyn Digests,
    sink: &mut dyn SealSink,
) -> Result<()> {
    let mut output = LateFile { file, sink };
    let mut table = TableWriter::new(&mut output);
    let header = BundleHeaderProto {
        num_shards: narrow(data.count)?,
        endianness: Endianness::Little.into(),
        version: Some(VersionDef { producer: VERSION, ..VersionDef::default() }),
    };
    table.add(b"", &header.encode_to_vec())?;
    let mut value = Vec::new();
    for entry in &data.entries {
        value.clear();
        encode(entry, data, digests)?.encode(&mut value).map_err(|error| Error::plugin(error.to_string()))?;
        table.add(&entry.key, &value)?;
    }
    table.finish()
}

fn encode(entry: &PositionedEntry, data: &DataFiles, digests: &dyn Digests) -> Result<BundleEntryProto> {
    let (shard, offset, len, crc) = match entry.place {
        DataPosition::Empty => (0, 0, 0, 0),
        DataPosition::Copied { shard, offset, len, crc: Crc::Known(crc) } => (shard, offset, len, crc),
        DataPosition::Copied { shard, offset, len, crc: Crc::Pending(digest) } => {
            (shard, offset, len, digests.crc(digest)?)
        }
        DataPosition::Copied { shard, offset, len, crc: Crc::Expected { crc, digest } } => {
            let found = digests.crc(digest)?;
            if found != crc {
                return Err(Error::malformed("the checksum of a value kept from -o like= does not match")
                    .tensor(key_text(&entry.key))
                    .expected(format!("{crc:08x}"))
                    .found(format!("{found:08x}")));
            }
            (shard, offset, len, crc)
        }
        DataPosition::Strings(number) => data.strings.place(number, digests)?,
    };
    let dim = entry.shape.iter().map(|&size| Ok(Dim { size: narrow(size)?, name: String::new() }));
    Ok(BundleEntryProto {
        dtype: entry.dtype,
        shape: Some(TensorShapeProto { dim: dim.collect::<Result<_>>()?, unknown_rank: false }),
        shard_id: narrow(shard)?,
        offset: narrow(offset)?,
        size: narrow(len)?,
        crc32c: mask(crc),
        slices: Vec::new(),
    })
}

/// Converts a number to the signed type of its field in the index, or returns an error if the
/// number does not fit.
fn narrow<N: Copy + std::fmt::Display, M: TryFrom<N>>(number: N) -> Result<M> {
    M::try_from(number)
        .map_err(|_| Error::unsupported("a number is too large for the index of a bundle").found(number))
}

/// Writes bytes to a late file. A late file is written after the data files.
struct LateFile<'a> {
    file: OutputId,
    sink: &'a mut dyn SealSink,
}

impl ByteSink for LateFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.late(self.file, bytes)
    }
}
