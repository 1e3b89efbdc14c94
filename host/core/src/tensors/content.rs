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
use sha2::Digest as _;
use tensorferry_sdk::{CatalogView, Result, StorageId, TensorId};

/// A content digest.
pub type ContentDigest = [u8; 32];

/// Digests that `inspect` offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256 of the logical bytes alone.
    Sha256,
    /// The content digest.
    Blake3,
}

/// The digests of all tensors, by their place. Storages that their format gives a digest for are
/// checked first.
///
/// # Errors
/// Malformed, where a stored digest is wrong; else whatever reading gives.
pub fn digests(logical: &Logical<'_>, algorithm: Algorithm) -> Result<Vec<ContentDigest>> {
    Ok(each(logical, [algorithm])?.into_iter().map(|[digest]| digest).collect())
}

/// The digests of a catalog's tensors by both algorithms, by their place.
#[derive(Debug, Clone, Default)]
pub struct TensorDigests {
    /// Content digests.
    pub content: Vec<ContentDigest>,
    /// SHA-256 of the logical bytes.
    pub sha256: Vec<ContentDigest>,
}

impl TensorDigests {
    /// Hashes every tensor, in one pass.
    ///
    /// # Errors
    /// As of [`digests`].
    pub fn of(logical: &Logical<'_>) -> Result<Self> {
        let each = each(logical, [Algorithm::Blake3, Algorithm::Sha256])?;
        let (content, sha256) = each.into_iter().map(|[content, sha256]| (content, sha256)).unzip();
        Ok(Self { content, sha256 })
    }
}

/// As [`digests`], by several algorithms in one pass over the bytes.
///
/// # Errors
/// As of [`digests`].
fn each<const N: usize>(
    logical: &Logical<'_>,
    algorithms: [Algorithm; N],
) -> Result<Vec<[ContentDigest; N]>> {
    let ids: Vec<TensorId> = logical.tensor_ids().collect();
    let mut storages: Vec<StorageId> = Vec::new();
    for &id in &ids {
        storages.extend(logical.storages_of(id)?);
    }
    storages.sort_unstable();
    storages.dedup();
    logical.stored().check_digests(&storages)?;
    // Tied tensors are read once.
    let digests: Vec<Option<[ContentDigest; N]>> = ids
        .par_iter()
        .map(|&id| (logical.tied_to(id) == id).then(|| tensor(logical, id, algorithms)).transpose())
        .collect::<Result<_>>()?;
    Ok(ids.iter().filter_map(|&id| digests[logical.tied_to(id).0 as usize]).collect())
}

fn tensor<const N: usize>(
    logical: &Logical<'_>,
    id: TensorId,
    algorithms: [Algorithm; N],
) -> Result<[ContentDigest; N]> {
    let facts = tensor_of(logical.catalog(), id)?;
    let info = logical.dtype_info(facts.dtype)?;
    let mut hashers = algorithms.map(|algorithm| Hasher::of_tensor(algorithm, info.name(), &facts.shape));
    logical.each_window(id, |bytes| {
        hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
        Ok(())
    })?;
    Ok(hashers.map(Hasher::finish))
}

enum Hasher {
    Sha256(sha2::Sha256),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// With everything that comes before the bytes.
    fn of_tensor(algorithm: Algorithm, dtype: &str, shape: &[u64]) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
            Algorithm::Blake3 => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(b"tensorferry tensor 1\n");
                update_text(&mut hasher, dtype);
                hasher.update(&(shape.len() as u64).to_le_bytes());
                for dim in shape {
                    hasher.update(&dim.to_le_bytes());
                }
                Self::Blake3(Box::new(hasher))
            }
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
