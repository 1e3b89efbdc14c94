//! Decodes string tensors to the form that catalogs use: row-major order, with the length before
//! each string. The strings are in a single entry, or in the entries of slices.

use super::runs::Runs;
use super::strings::{Strings, Texts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tensorferry_sdk::{ByteSink, Context, Error, Region, Result, Source, TensorDecoder};

/// Number of decoded bytes to buffer before writing them.
const GATHERED_BYTES: usize = 64 << 10;

/// The string tensors of a bundle. A tensor's index in this list is the handle of its storage.
#[derive(Debug, Default)]
pub(crate) struct StringTensors(Vec<(String, StringTensor)>);

/// A string tensor and the parts that cover it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StringTensor {
    pub(super) shape: Vec<u64>,
    pub(super) parts: Vec<(Region, Strings)>,
}

impl StringTensors {
    /// Adds a tensor and returns its handle. Errors about the tensor contain `name`.
    pub(super) fn push(&mut self, name: String, tensor: StringTensor) -> u64 {
        let handle = self.0.len() as u64;
        self.0.push((name, tensor));
        handle
    }
}

impl TensorDecoder for StringTensors {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let tensor = usize::try_from(handle).ok().and_then(|index| self.0.get(index));
        let (name, tensor) =
            tensor.ok_or_else(|| Error::plugin(format!("unknown string tensor {handle}")))?;
        tensor.decode(source, output, context).map_err(|error| error.tensor(name))
    }
}

impl StringTensor {
    /// Returns the length of the decoded tensor in bytes.
    pub(super) fn logical_len(&self) -> Result<u64> {
        self.parts.iter().try_fold(0_u64, |sum, (_, strings)| {
            sum.checked_add(strings.logical_len()?)
                .ok_or_else(|| Error::malformed("the length of the strings does not fit in 64 bits"))
        })
    }

    /// Merges the strings of all parts. The strings within a part are in tensor order, so the next
    /// string always comes from the part whose next element has the lowest index.
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let mut parts: Vec<Part<'_>> = self
            .parts
            .iter()
            .map(|(region, strings)| Part { runs: Runs::new(region, &self.shape), strings, texts: None })
            .collect();
        let mut next: BinaryHeap<_> = parts
            .iter_mut()
            .enumerate()
            .filter_map(|(part, walk)| walk.runs.next().map(|run| Reverse((run, part))))
            .collect();
        let mut gathered = Vec::with_capacity(GATHERED_BYTES);
        while let Some(Reverse(((_, len), part))) = next.pop() {
            let walk = &mut parts[part];
            let texts = walk.texts.get_or_insert_with(|| walk.strings.texts(source));
            for _ in 0..len {
                texts.next(&mut |piece| {
                    if gathered.len() + piece.len() > GATHERED_BYTES {
                        context.check_cancelled()?;
                        output.write(&gathered)?;
                        gathered.clear();
                    }
                    gathered.extend_from_slice(piece);
                    Ok(())
                })?;
            }
            match walk.runs.next() {
                Some(run) => next.push(Reverse((run, part))),
                // A part's buffers are freed when the part is finished. If the slices are rows,
                // only one part is therefore open at a time.
                None => walk.texts.take().map_or(Ok(()), Texts::finish)?,
            }
        }
        output.write(&gathered)
    }
}

/// The state of a part during the merge.
struct Part<'a> {
    runs: Runs<'a>,
    strings: &'a Strings,
    texts: Option<Texts<'a>>,
}
