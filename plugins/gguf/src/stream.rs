//! Streamed files. The bytes of newly quantized tensors do not exist in the source, so the host
//! cannot copy them, and the writer streams the whole file. Blocks are independent of each other.
//! Tensors are therefore divided into pieces, and several threads read and encode pieces in
//! parallel.

use crate::quantize::{Encode, numbers};
use std::thread;
use tensorferry_sdk::{ByteSink, CatalogView, Context, Dtype, Error, OutputId, Result, TensorId, TensorPlan};

/// Number of elements per piece, which is a whole number of blocks for every type.
const PIECE: u64 = 256 << 10;

/// The plan for a streamed file.
pub(crate) struct StreamPlan {
    /// Bytes before the data, without the padding.
    pub(crate) header: Vec<u8>,
    /// Number of zero bytes after the header.
    pub(crate) header_padding: u64,
    /// Tensors in file order.
    pub(crate) tensors: Vec<StreamedTensor>,
    /// Number of pieces that are processed in parallel.
    pub(crate) threads: usize,
}

/// The source of a tensor's values.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A tensor from the catalog.
    Tensor(TensorId),
    /// Bytes that the writer has computed, as they are stored in the file.
    Bytes(Vec<u8>),
}

pub(crate) struct StreamedTensor {
    pub(crate) content: Content,
    /// Number of zero bytes after the tensor.
    pub(crate) padding: u64,
    /// Source dtype and encoder, or `None` if the bytes are copied unchanged.
    pub(crate) encode: Option<(Dtype, Encode)>,
}

impl TensorPlan for StreamPlan {
    fn stream(
        &self,
        _: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        output.write(&self.header)?;
        write_zeros(self.header_padding, output)?;
        for tensor in &self.tensors {
            context.check_cancelled()?;
            match &tensor.content {
                Content::Bytes(bytes) => output.write(bytes)?,
                Content::Tensor(id) => self
                    .write(tensor, *id, catalog, output)
                    .map_err(|error| error.tensor(catalog.tensor(*id).name))?,
            }
            write_zeros(tensor.padding, output)?;
        }
        Ok(())
    }
}

impl StreamPlan {
    fn write(
        &self,
        tensor: &StreamedTensor,
        id: TensorId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
    ) -> Result<()> {
        let len = catalog.tensor(id).bytes;
        let width = tensor.encode.and_then(|(dtype, _)| dtype.info()).map_or(1, |info| info.block_bytes());
        let piece = PIECE * u64::from(width);
        let mut starts = (0..len.div_ceil(piece)).map(|number| number * piece);
        loop {
            let starts: Vec<u64> = starts.by_ref().take(self.threads.max(1)).collect();
            if starts.is_empty() {
                return Ok(());
            }
            let read = |start: u64| tensor.piece(id, catalog, start, piece.min(len - start));
            for piece in encode_in_parallel(&starts, read)? {
                output.write(&piece)?;
            }
        }
    }
}

impl StreamedTensor {
    /// Reads and encodes one piece of a tensor.
    fn piece(&self, id: TensorId, catalog: &dyn CatalogView, start: u64, len: u64) -> Result<Vec<u8>> {
        let len =
            usize::try_from(len).map_err(|_| Error::limit("a length does not fit in the address space"))?;
        let mut bytes = vec![0; len];
        catalog.read(id, start, &mut bytes)?;
        let Some((dtype, encode)) = self.encode else { return Ok(bytes) };
        let mut encoded = Vec::new();
        encode(&numbers(dtype, &bytes), &mut encoded);
        Ok(encoded)
    }
}

fn write_zeros(mut count: u64, output: &mut dyn ByteSink) -> Result<()> {
    let zeros = [0; 4096];
    while count > 0 {
        let some = usize::try_from(count).unwrap_or(zeros.len()).min(zeros.len());
        output.write(&zeros[..some])?;
        count -= some as u64;
    }
    Ok(())
}

/// Calls `make` for each start on a separate thread, and returns the results in the order of
/// `starts`.
fn encode_in_parallel(starts: &[u64], make: impl Fn(u64) -> Result<Vec<u8>> + Sync) -> Result<Vec<Vec<u8>>> {
    let Some((&first, others)) = starts.split_first() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let make = &make;
        let others: Vec<_> = others.iter().map(|&start| scope.spawn(move || make(start))).collect();
        let first = make(first);
        let rest = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|_| Err(Error::plugin("an encoder thread panicked"))));
        std::iter::once(first).chain(rest).collect()
    })
}
