//! Checks the Arrow schema that writers leave among a file's metadata, `ARROW:schema`, before the library decodes it.
//! It is a flatbuffer, whose tables and texts may be referred to again and again: a few of its bytes could stand for
//! gigabytes of fields.

use arrow_ipc::root_as_message_with_opts;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::VerifierOptions;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::KeyValue;
use tensorferry_sdk::{Error, Result};

/// What a walk over all tables comes to, in bytes, is at most this many times the buffer's length. Where nothing is
/// shared but the tables' layouts it is less than twice.
const SHARED: usize = 8;
/// And so many bytes more, for short ones.
const FEW: usize = 64 << 10;
/// What a message begins with since Arrow 0.15; its length follows.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Checks each such schema: which of several the library takes is its own business.
///
/// # Errors
/// Malformed, if it is no message; a limit, if it unfolds into much more than it is.
pub(super) fn check(metadata: Option<&Vec<KeyValue>>) -> Result<()> {
    let hints = metadata.into_iter().flatten().filter(|entry| entry.key == ARROW_SCHEMA_META_KEY);
    hints.filter_map(|hint| hint.value.as_ref()).try_for_each(|text| {
        let bytes = BASE64_STANDARD.decode(text).map_err(|error| Error::malformed(error.to_string()))?;
        check_message(&bytes).map_err(|error| error.context(format!("the metadata {ARROW_SCHEMA_META_KEY}")))
    })
}

fn check_message(bytes: &[u8]) -> Result<()> {
    // As the library looks for it.
    let has_prefix = bytes.len() > 8 && bytes.starts_with(&CONTINUATION);
    let message = if has_prefix { &bytes[8..] } else { bytes };
    let most = message.len().saturating_mul(SHARED).saturating_add(FEW);
    let options = VerifierOptions { max_apparent_size: most, ..VerifierOptions::default() };
    match root_as_message_with_opts(&options, message) {
        Ok(_) => Ok(()),
        Err(flatbuffers::InvalidFlatbuffer::ApparentSizeTooLarge) => {
            Err(Error::limit("its tables are shared, and unfold into too much")
                .expected(format!("at most {most} bytes for its {}", message.len())))
        }
        Err(error) => Err(Error::malformed(format!("no Arrow schema: {error:.200}"))),
    }
}
