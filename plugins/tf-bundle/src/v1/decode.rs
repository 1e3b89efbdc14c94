//! Decodes the encoded storages of a V1 checkpoint. A storage is either a slice of numbers or all
//! strings of a tensor.

use crate::bundle::Runs;
use crate::table::{Table, ValuePosition};
use crate::tensor_proto::Values;
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{ByteSink, Context, Error, Limits, Region, Result, Source, TensorDecoder};

/// The encoded storages, by handle.
#[derive(Debug, Default)]
pub(crate) struct V1Storages {
    pub(super) tables: Vec<(String, Table)>,
    pub(super) encoded: Vec<Encoded>,
}

/// An encoded storage, and the tensor name to use in errors.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) tensor: String,
    pub(super) content: EncodedData,
}

#[derive(Debug)]
pub(super) enum EncodedData {
    Slice(Slice),
    /// All strings of a tensor. A catalog cannot represent a string tensor as blocks.
    Strings {
        shape: Vec<u64>,
        parts: Vec<(Region, Slice)>,
    },
}

/// The position of a slice's values.
#[derive(Debug, Clone)]
pub(super) struct Slice {
    /// The index of the table file in the checkpoint.
    pub(super) table: usize,
    /// The position of the slice's message in the table.
    pub(super) place: ValuePosition,
    /// The position of the slice's values in the message.
    pub(super) values: Values,
}

impl TensorDecoder for V1Storages {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let encoded = usize::try_from(handle).ok().and_then(|index| self.encoded.get(index));
        let encoded = encoded.ok_or_else(|| Error::plugin(format!("unknown encoded storage {handle}")))?;
        context.check_cancelled()?;
        match &encoded.content {
            EncodedData::Slice(slice) => self.write(source, slice, output, context.limits()),
            EncodedData::Strings { shape, parts } => {
                self.stitch(source, shape, parts, output, context.limits())
            }
        }
        .map_err(|error| error.tensor(&encoded.tensor))
    }
}

impl V1Storages {
    fn write(
        &self,
        source: &dyn Source,
        slice: &Slice,
        output: &mut dyn ByteSink,
        limits: &Limits,
    ) -> Result<()> {
        let table = self.tables.get(slice.table);
        let (name, table) = table.ok_or_else(|| Error::plugin(format!("no table {}", slice.table)))?;
        let message = table.value(source, slice.place)?;
        slice.values.write(&mut Wire::of_memory(&message, name), output, limits)
    }

    /// Writes the strings of all parts in tensor order.
    fn stitch(
        &self,
        source: &dyn Source,
        shape: &[u64],
        parts: &[(Region, Slice)],
        output: &mut dyn ByteSink,
        limits: &Limits,
    ) -> Result<()> {
        let mut texts = Vec::with_capacity(parts.len());
        let mut runs = Vec::new();
        for (part, (region, slice)) in parts.iter().enumerate() {
            let mut bytes = Vec::new();
            self.write(source, slice, &mut bytes, limits)?;
            texts.push((bytes, 0));
            runs.extend(Runs::new(region, shape).map(|(first, count)| (first, count, part)));
        }
        runs.sort_unstable();
        // The runs of a part are in the same order as the part's elements.
        for (_, count, part) in runs {
            let (bytes, at) = &mut texts[part];
            let start = *at;
            for _ in 0..count {
                *at += element_len(bytes.get(*at..).unwrap_or_default());
            }
            output.write(bytes.get(start..*at).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Returns the length of the first string, including its length prefix.
fn element_len(strings: &[u8]) -> usize {
    let len = strings.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
    usize::try_from(len).map_or(strings.len(), |len| len.saturating_add(8).min(strings.len()))
}
