//! Content digests: what a tensor and a catalog hold, the same in every format.
//!
//! ```text
//! tensor  = BLAKE3("tensorferry tensor 1\n"
//!                  u64 LE: bytes of the dtype's name, the name (as in `ferry inspect`)
//!                  u64 LE: rank, then each dimension as u64 LE
//!                  the logical bytes: row-major, little-endian, contiguous)
//! catalog = BLAKE3("tensorferry catalog 1\n"
//!                  u64 LE: number of tensors, then for each, sorted by name bytewise:
//!                  u64 LE: bytes of the name, the name, the tensor's digest (32 bytes))
//! ```

use crate::tensors::copy_plan::tensor_of;
use crate::tensors::logical::Logical;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use tensorferry_sdk::{CatalogView, Result, StorageId, TensorId};

/// A content digest.
pub type ContentDigest = [u8; 32];

/// Digests that `inspect` and receipts offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-256; of a tensor, over the logical bytes alone.
    Sha256,
    /// BLAKE3; of a tensor, the content digest.
    Blake3,
}

/// The digests of all tensors, by their place. Storages that their format gives a digest for are
/// checked first.
///
/// # Errors
/// Malformed, where a stored digest is wrong; else whatever reading gives.
pub fn digests(logical: &Logical<'_>, algorithm: Algorithm) -> Result<Vec<ContentDigest>> {
    let ids: Vec<TensorId> = logical.tensor_ids().collect();
    let mut storages: Vec<StorageId> = Vec::new();
    for &id in &ids {
        storages.extend(logical.storages_of(id)?);
    }
    storages.sort_unstable();
    storages.dedup();
    logical.stored().check_digests(&storages)?;
    // Tied tensors are read once.
    let read = ids.iter().filter(|&&id| logical.tied_to(id) == id);
    logical.stored().session().will_check(read.map(|&id| logical.tensor(id).bytes).sum());
    let digests: Vec<Option<ContentDigest>> = ids
        .par_iter()
        .map(|&id| (logical.tied_to(id) == id).then(|| tensor(logical, id, algorithm)).transpose())
        .collect::<Result<_>>()?;
    Ok(ids.iter().filter_map(|&id| digests[logical.tied_to(id).0 as usize]).collect())
}

fn tensor(logical: &Logical<'_>, id: TensorId, algorithm: Algorithm) -> Result<ContentDigest> {
    let facts = tensor_of(logical.catalog(), id)?;
    let info = logical.dtype_info(facts.dtype)?;
    let mut hasher = Hasher::of_tensor(algorithm, info.name(), &facts.shape);
    logical.each_window(id, |bytes| {
        hasher.update(bytes);
        logical.stored().session().checked(bytes.len() as u64);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Takes the digest of bytes as they come.
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Of all bytes that are to come, and nothing else.
    pub(crate) fn of_bytes(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
            Algorithm::Blake3 => Self::Blake3(Box::default()),
        }
    }

    /// With everything that comes before the bytes of a tensor.
    fn of_tensor(algorithm: Algorithm, dtype: &str, shape: &[u64]) -> Self {
        let mut started = Self::of_bytes(algorithm);
        if let Self::Blake3(hasher) = &mut started {
            hasher.update(b"tensorferry tensor 1\n");
            update_text(hasher, dtype);
            hasher.update(&(shape.len() as u64).to_le_bytes());
            for dim in shape {
                hasher.update(&dim.to_le_bytes());
            }
        }
        started
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
        }
    }

    pub(crate) fn finish(self) -> ContentDigest {
        match self {
            Self::Sha256(hasher) => hasher.finalize().into(),
            Self::Blake3(hasher) => hasher.finalize().into(),
        }
    }
}

/// The digest of a catalog from those of its tensors.
#[must_use]
pub fn catalog<'a>(tensors: impl IntoIterator<Item = (&'a str, ContentDigest)>) -> ContentDigest {
    let mut sorted: Vec<_> = tensors.into_iter().collect();
    sorted.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"tensorferry catalog 1\n");
    hasher.update(&(sorted.len() as u64).to_le_bytes());
    for (name, digest) in sorted {
        update_text(&mut hasher, name);
        hasher.update(&digest);
    }
    hasher.finalize().into()
}

fn update_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
