//! A fingerprint contains TensorFlow's hashes of a SavedModel's parts. ferry displays the hashes,
//! but does not verify them.

use crate::document::Document;
use tensorferry_proto::{FingerprintDef, Message};
use tensorferry_sdk::{Error, Limits, Result, Source};

const NAME: &str = "fingerprint.pb";
/// Maximum length of a fingerprint in bytes. A fingerprint is usually about 80 bytes long.
const MAX_BYTES: u64 = 64 << 10;

/// Reads the fingerprint in the document's folder, if it exists.
pub(super) fn read(
    source: &dyn Source,
    document: &Document,
    limits: &Limits,
) -> Result<Option<FingerprintDef>> {
    let name = document.sibling(NAME);
    if !source.contains(&name)? {
        return Ok(None);
    }
    let file = source.open(&name)?;
    let len = source.len(file);
    if len > MAX_BYTES {
        return Err(Error::malformed("the fingerprint is too long")
            .file(name)
            .expected(format!("at most {MAX_BYTES} bytes"))
            .found(len));
    }
    let bytes = source.read_vec(file, 0, len, limits)?;
    let fingerprint = FingerprintDef::decode(&*bytes);
    fingerprint
        .map(Some)
        .map_err(|error| Error::malformed(format!("invalid fingerprint: {error}")).file(name))
}
