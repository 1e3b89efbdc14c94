//! Reads pickles from a stream, which is a file that contains several consecutive pickles, followed
//! by other data. To find the end of a pickle, the reader must decode its instructions.

use super::EvaluatedPickle;
use super::opcode::{Decoder, Op};
use crate::Extent;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Number of bytes in the first read for each pickle.
const FIRST_READ: u64 = 4 << 10;

/// Evaluates the pickle at the start of `rest`. Returns the result and the extent of the bytes
/// after the pickle.
pub fn take(source: &dyn Source, rest: Extent, limits: &Limits) -> Result<(EvaluatedPickle, Extent)> {
    let bytes = read(source, rest, limits)?;
    let evaluated = super::evaluate(&bytes, rest.offset, limits)?;
    Ok((evaluated, rest.after(bytes.len() as u64)))
}

/// Reads the bytes of a pickle up to STOP. If more bytes must be read, decoding continues at the
/// same instruction.
fn read(source: &dyn Source, rest: Extent, limits: &Limits) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let have = bytes.len();
        let wanted = FIRST_READ.max(2 * have as u64).min(rest.len).min(limits.header_bytes);
        bytes.resize(usize::try_from(wanted).map_err(|_| Error::limit("too long for this machine"))?, 0);
        source.read_at(rest.file, rest.offset + have as u64, &mut bytes[have..])?;
        let mut decoder = Decoder::resume(&bytes, at, rest.offset);
        let error = loop {
            match decoder.next() {
                Ok(Op::Stop) => {
                    let end = decoder.position();
                    bytes.truncate(end);
                    return Ok(bytes);
                }
                Ok(_) => at = decoder.position(),
                Err(error) => break error,
            }
        };
        let missing = decoder.missing();
        if missing == 0 || missing > rest.len - wanted {
            return Err(error);
        }
        if missing > limits.header_bytes.saturating_sub(wanted) {
            return Err(Error::limit("the pickle is too long to hold in memory")
                .offset(rest.offset)
                .expected(format!("at most {} bytes", limits.header_bytes)));
        }
    }
}
