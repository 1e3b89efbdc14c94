//! A stream is a file of several consecutive pickles, followed by other data. The end of a pickle
//! is known only once its instructions are decoded.

use super::Evaluated;
use super::opcode::{Decoder, Op};
use crate::Extent;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Bytes of a pickle that are read first.
const FIRST_READ: u64 = 4 << 10;

/// Evaluates the pickle at the start of `rest`, and returns the bytes after it.
pub fn take(source: &dyn Source, rest: Extent, limits: &Limits) -> Result<(Evaluated, Extent)> {
    let bytes = read(source, rest, limits)?;
    let evaluated = super::evaluate(&bytes, rest.offset, limits)?;
    Ok((evaluated, rest.after(bytes.len() as u64)))
}

/// Reads the bytes up to STOP. If more must be read, decoding continues where it was.
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
