//! Content digests of tensors and catalogs. The digests do not depend on the format.
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

use crate::copy_plan::tensor_of;
use crate::logical::Logical;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use tensorferry_sdk::{CatalogView, Result, StorageId, TensorId};

pub type ContentDigest = [u8; 32];

/// The digest algorithms that `inspect` and receipts offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-256 of the tensor's logical bytes only.
    Sha256,
    /// BLAKE3, the algorithm of the tensor's content digest.
    Blake3,
}

/// Returns the digests of all tensors, in order. If the format stores digests of its storages, the
/// storages are first checked against these digests.
pub fn digests(logical: &Logical<'_>, algorithm: Algorithm) -> Result<Vec<ContentDigest>> {
    check_storages(logical)?;
    // Tied tensors are read only once.
    let ids = logical.tensor_ids();
    let read = ids.filter(|&id| logical.tied_to(id) == id);
    logical.stored().session().will_check(read.map(|id| logical.tensor(id).bytes).sum());
    each_of(logical, |id| tensor(logical, id, algorithm))
}

/// Checks the storages of all tensors against the digests that the format stores.
pub fn check_storages(logical: &Logical<'_>) -> Result<()> {
    let mut storages: Vec<StorageId> = Vec::new();
    for id in logical.tensor_ids() {
        storages.extend(logical.storages_of(id)?);
    }
    storages.sort_unstable();
    storages.dedup();
    logical.stored().check_digests(&storages)
}

/// Returns the result of `digest` for each tensor. The digests are computed in parallel, and only
/// once for tied tensors.
pub fn each_of(
    logical: &Logical<'_>,
    digest: impl Fn(TensorId) -> Result<ContentDigest> + Sync,
) -> Result<Vec<ContentDigest>> {
    let ids: Vec<TensorId> = logical.tensor_ids().collect();
    let digests: Vec<Option<ContentDigest>> = ids
        .par_iter()
        .map(|&id| (logical.tied_to(id) == id).then(|| digest(id)).transpose())
        .collect::<Result<_>>()?;
    Ok(ids.iter().filter_map(|&id| digests[logical.tied_to(id).0 as usize]).collect())
}

/// Reads a tensor, and returns the digest of its bytes.
pub fn tensor(logical: &Logical<'_>, id: TensorId, algorithm: Algorithm) -> Result<ContentDigest> {
    let mut hasher = Hasher::of_bytes(algorithm);
    if algorithm == Algorithm::Blake3 {
        hasher.update(&header(logical, id)?);
    }
    hash(logical, id, hasher)
}

/// Returns the content digest that a tensor would have if its shape were `shape`.
pub fn reshaped(logical: &Logical<'_>, id: TensorId, shape: &[u64]) -> Result<ContentDigest> {
    let mut hasher = Hasher::of_bytes(Algorithm::Blake3);
    hasher.update(&header_of(logical, id, shape)?);
    hash(logical, id, hasher)
}

fn hash(logical: &Logical<'_>, id: TensorId, mut hasher: Hasher) -> Result<ContentDigest> {
    logical.each_window(id, |bytes| {
        hasher.update(bytes);
        logical.stored().session().checked(bytes.len() as u64);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Returns the bytes that are hashed before the tensor's own bytes in a content digest.
pub fn header(logical: &Logical<'_>, id: TensorId) -> Result<Vec<u8>> {
    header_of(logical, id, &tensor_of(logical.catalog(), id)?.shape)
}

fn header_of(logical: &Logical<'_>, id: TensorId, shape: &[u64]) -> Result<Vec<u8>> {
    let info = logical.dtype_info(tensor_of(logical.catalog(), id)?.dtype)?;
    let mut header = b"tensorferry tensor 1\n".to_vec();
    header.extend((info.name().len() as u64).to_le_bytes());
    header.extend(info.name().as_bytes());
    header.extend((shape.len() as u64).to_le_bytes());
    header.extend(shape.iter().flat_map(|dim| dim.to_le_bytes()));
    Ok(header)
}

/// A digest that is computed incrementally.
enum Hasher {
    Sha256(sha2::Sha256),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Starts a digest that covers only the bytes added later.
    fn of_bytes(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
            Algorithm::Blake3 => Self::Blake3(Box::default()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
        }
    }

    fn finish(self) -> ContentDigest {
        match self {
            Self::Sha256(hasher) => hasher.finalize().into(),
            Self::Blake3(hasher) => hasher.finalize().into(),
        }
    }
}

/// Computes the digest of a catalog from the digests of its tensors.
#[must_use]
pub fn catalog<'a>(tensors: impl IntoIterator<Item = (&'a str, ContentDigest)>) -> ContentDigest {
    let mut sorted: Vec<_> = tensors.into_iter().collect();
    sorted.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"tensorferry catalog 1\n");
    hasher.update(&(sorted.len() as u64).to_le_bytes());
    for (name, digest) in sorted {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&digest);
    }
    hasher.finalize().into()
}
