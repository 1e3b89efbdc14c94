//! Computes the bytes of tensors on demand from other bytes of the file.
//!
//! | File | Result |
//! |---|---|
//! | `stored.rs` | the elements of a view, in order |
//! | `signs.rs` | conjugate and negative values, which torch marks by a flag of the view |
//! | `dequantize.rs` | the floats that a quantized tensor represents |
//! | `dense.rs`, `sum.rs` | all elements of a sparse tensor |

mod dense;
mod dequantize;
mod signs;
mod stored;
mod sum;

pub(crate) use dense::{Compressed, Dense, Indices};
pub(crate) use dequantize::{Blocks, ChannelValues, Dequantized, Parameters};
pub(crate) use signs::Signs;
pub(crate) use stored::StoredView;

use sum::Addition;
use tensorferry_sdk::{ByteSink, Context, EncodedStorage, Error, Result, Source};

/// Number of bytes that are read or computed at a time.
const CHUNK: u64 = 1 << 20;

/// A recipe for computing a tensor's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LazyView(pub(crate) Recipe);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Recipe {
    Signs(Signs),
    Dequantized(Dequantized),
    Dense(Dense),
}

impl EncodedStorage for LazyView {
    /// Writes the computed values in row-major order, as little-endian numbers.
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        match &self.0 {
            Recipe::Signs(signs) => signs.decode(source, output, context),
            Recipe::Dequantized(dequantized) => dequantized.decode(source, output, context),
            Recipe::Dense(dense) => dense.decode(source, output, context),
        }
    }
}

fn as_usize(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))
}
