//! Hashes of shards, as lowercase hexadecimal digits. The hashes have the same names as in the
//! Python modules `hashlib` and `xxhash`.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use tensorferry_sdk::{Error, Result, hex};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64};

pub(crate) enum Hasher {
    Md5(Md5),
    Sha1(Sha1),
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
    Xxh32(XxHash32),
    Xxh64(XxHash64),
    Xxh3(Box<XxHash3_64>),
    Xxh128(Box<XxHash3_128>),
}

/// Supported hash names.
pub(crate) const NAMES: [&str; 11] = [
    "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "xxh128", "xxh32", "xxh3_128", "xxh3_64", "xxh64",
];

impl Hasher {
    /// Returns the hasher with this name, or `None` if the name is unknown.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "md5" => Self::Md5(Md5::new()),
            "sha1" => Self::Sha1(Sha1::new()),
            "sha224" => Self::Sha224(Sha224::new()),
            "sha256" => Self::Sha256(Sha256::new()),
            "sha384" => Self::Sha384(Sha384::new()),
            "sha512" => Self::Sha512(Sha512::new()),
            "xxh32" => Self::Xxh32(XxHash32::with_seed(0)),
            "xxh64" => Self::Xxh64(XxHash64::with_seed(0)),
            "xxh3_64" => Self::Xxh3(Box::new(XxHash3_64::new())),
            "xxh128" | "xxh3_128" => Self::Xxh128(Box::new(XxHash3_128::new())),
            _ => return None,
        })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hash) => hash.update(bytes),
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha224(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha384(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
            Self::Xxh32(hash) => hash.write(bytes),
            Self::Xxh64(hash) => hash.write(bytes),
            Self::Xxh3(hash) => hash.write(bytes),
            Self::Xxh128(hash) => hash.write(bytes),
        }
    }

    /// Returns the digest in hexadecimal.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Md5(hash) => hex(&hash.finalize()),
            Self::Sha1(hash) => hex(&hash.finalize()),
            Self::Sha224(hash) => hex(&hash.finalize()),
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::Sha384(hash) => hex(&hash.finalize()),
            Self::Sha512(hash) => hex(&hash.finalize()),
            Self::Xxh32(hash) => format!("{:08x}", hash.finish_32()),
            Self::Xxh64(hash) => format!("{:016x}", hash.finish()),
            Self::Xxh3(hash) => format!("{:016x}", hash.finish()),
            Self::Xxh128(hash) => format!("{:032x}", hash.finish_128()),
        }
    }
}

/// A verifier that compares the hashes of a file with the hashes in the index.
pub(crate) struct Verifier(Vec<(String, String, Hasher)>);

impl Verifier {
    /// Creates a verifier for those hashes in the index that are supported.
    pub(crate) fn new(declared: &BTreeMap<String, String>) -> Self {
        let known =
            declared.iter().map(|(name, hash)| Some((name.clone(), hash.clone(), Hasher::named(name)?)));
        Self(known.flatten().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|(_, _, hasher)| hasher.update(bytes));
    }

    pub(crate) fn finish(self) -> Result<()> {
        for (name, declared, hasher) in self.0 {
            let found = hasher.finish();
            if !found.eq_ignore_ascii_case(&declared) {
                let error = Error::malformed(format!("the {name} of a shard does not match the index"));
                return Err(error.expected(declared).found(found));
            }
        }
        Ok(())
    }
}

/// Returns the hash of `bytes`, or `None` if the name is unknown.
pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<String> {
    let mut hash = Hasher::named(name)?;
    hash.update(bytes);
    Some(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_python() {
        // The values are from `hashlib.NAME(b"a").hexdigest()` and `xxhash.NAME(b"a").hexdigest()`.
        for (name, expected) in [
            ("md5", "0cc175b9c0f1b6a831c399e269772661"),
            ("sha1", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
            ("sha256", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
            ("xxh32", "550d7456"),
            ("xxh64", "d24ec4f1a98c6e5b"),
            ("xxh3_64", "e6c632b61e964e1f"),
            ("xxh128", "a96faf705af16834e6c632b61e964e1f"),
        ] {
            assert_eq!(of(name, b"a").as_deref(), Some(expected), "{name}");
        }
        assert!(NAMES.iter().all(|name| of(name, b"").is_some()));
        assert_eq!(of("shake_128", b""), None);
    }
}
