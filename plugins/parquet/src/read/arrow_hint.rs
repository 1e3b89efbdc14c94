//! Checks the Arrow schema that writers leave among a file's metadata, `ARROW:schema`, before the library decodes it.
//! It is a flatbuffer, whose tables and texts may be referred to again and again: a few of its bytes could stand for
//! gigabytes of fields.

use crate::fault::{decoded, one_line};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Message, root_as_message_with_opts};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::VerifierOptions;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use tensorferry_sdk::arrow_schema::{ArrowError, Schema};
use tensorferry_sdk::{Error, Result};

/// What a walk over all tables comes to, in bytes, is at most this many times the buffer's length. Where nothing is
/// shared but the tables' layouts it is less than twice.
const SHARED: usize = 8;
/// And so many bytes more, for short ones.
const FEW: usize = 64 << 10;
/// What a message begins with since Arrow 0.15; its length follows.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Checks each such schema, and reads the one that the library takes, which is the last.
pub(super) fn read(metadata: Option<&Vec<KeyValue>>) -> Result<Option<Schema>> {
    let hints = metadata.into_iter().flatten().filter(|entry| entry.key == ARROW_SCHEMA_META_KEY);
    let mut last = None;
    for text in hints.filter_map(|hint| hint.value.as_ref()) {
        let bytes = BASE64_STANDARD.decode(text).map_err(|error| Error::malformed(error.to_string()))?;
        let schema = schema_of(&bytes);
        last = Some(schema.map_err(|error| error.context(format!("the metadata {ARROW_SCHEMA_META_KEY}")))?);
    }
    Ok(last)
}

fn schema_of(bytes: &[u8]) -> Result<Schema> {
    // As the library looks for it.
    let has_prefix = bytes.len() > 8 && bytes.starts_with(&CONTINUATION);
    let message = check_message(if has_prefix { &bytes[8..] } else { bytes })?;
    let none = || ParquetError::General("the message is not an Arrow schema".to_owned());
    let read = decoded(|| {
        let schema = message.header_as_schema().ok_or_else(none)?;
        match try_fb_to_schema(schema) {
            // A type that a later version of Arrow or another library has: nothing is wrong with the file.
            Err(ArrowError::ParseError(why))
                if why.contains("not supported") || why.contains(" unsupported") =>
            {
                Ok(Err(Error::unsupported(format!(
                    "a column has a type that ferry does not have: {}",
                    one_line(&why)
                ))))
            }
            other => Ok(Ok(other?)),
        }
    });
    read?
}

fn check_message(message: &[u8]) -> Result<Message<'_>> {
    let most = message.len().saturating_mul(SHARED).saturating_add(FEW);
    let options = VerifierOptions { max_apparent_size: most, ..VerifierOptions::default() };
    match root_as_message_with_opts(&options, message) {
        Ok(message) => Ok(message),
        Err(flatbuffers::InvalidFlatbuffer::ApparentSizeTooLarge) => {
            Err(Error::limit("its tables are shared, and unfold into too much")
                .expected(format!("at most {most} bytes for its {}", message.len())))
        }
        Err(error) => Err(Error::malformed(format!("no Arrow schema: {error:.200}"))),
    }
}
