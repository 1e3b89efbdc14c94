//! Digests of whole files, with the algorithm that the user requested.

use crate::write::copy::InputTrees;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tensorferry_core::context::regular_file;
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, size, windows};
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Context, Error, FileId, Result, Source, hex};
use tensorferry_tensors::content::Algorithm;
use tensorferry_tensors::hash_tree::HashTree;

/// The record of a file in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The file's name, with `/` between the parts.
    pub name: String,
    pub bytes: u64,
    /// The digest of the file's bytes. In JSON, the key is the name of the algorithm.
    #[serde(flatten)]
    pub digest: FileDigest,
}

/// A digest of a file, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileDigest {
    Sha256(String),
    Blake3(String),
}

impl FileDigest {
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Blake3(_) => Algorithm::Blake3,
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::Blake3(text) => text,
        }
    }
}

/// Files to be hashed in parallel, starting with the longest file. Each file is one task.
#[derive(Default)]
pub struct Files<'a> {
    files: Vec<HashTask<'a>>,
}

struct HashTask<'a> {
    place: usize,
    name: String,
    bytes: u64,
    from: BytesFrom<'a>,
    /// The hash tree of the parts that were hashed during the copy.
    tree: Option<&'a HashTree>,
}

enum BytesFrom<'a> {
    Source(&'a FileSource, FileId),
    Path(PathBuf),
}

impl<'a> Files<'a> {
    /// Adds a file of a source, which is recorded as `name`. `seen` contains the parts of the
    /// source's files that are already hashed.
    pub(crate) fn add_source(
        &mut self,
        source: &'a FileSource,
        file: &str,
        name: String,
        seen: Option<&'a InputTrees>,
    ) -> Result<()> {
        let id = source.open(file)?;
        let tree = seen.and_then(|seen| seen.get(&id));
        self.add(name, source.len(id), BytesFrom::Source(source, id), tree);
        Ok(())
    }

    /// Adds the file at a path. `seen` contains the parts of the file that are already hashed.
    pub fn add_path(&mut self, path: PathBuf, name: String, seen: Option<&'a HashTree>) -> Result<()> {
        let metadata = std::fs::metadata(&path).map_err(|e| Error::from(e).file(&name))?;
        self.add(name, metadata.len(), BytesFrom::Path(path), seen);
        Ok(())
    }

    pub(crate) fn add_written(
        &mut self,
        source: &'a FileSource,
        name: &str,
        seen: Option<&'a HashTree>,
    ) -> Result<()> {
        let id = source.open(name)?;
        self.add(name.to_owned(), source.len(id), BytesFrom::Source(source, id), seen);
        Ok(())
    }

    fn add(&mut self, name: String, bytes: u64, from: BytesFrom<'a>, tree: Option<&'a HashTree>) {
        self.files.push(HashTask { place: self.files.len(), name, bytes, from, tree });
    }

    /// Hashes the files. Returns the records in the order in which the files were added. A remote
    /// file is also checked against the digest that its store reports.
    pub fn digest(mut self, algorithm: Algorithm, session: &Session) -> Result<Vec<FileRecord>> {
        self.files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let hash = |task: HashTask<'_>| {
            let nothing = HashTree::new(task.bytes);
            let tree = task.tree.unwrap_or(&nothing);
            let digest = match &task.from {
                BytesFrom::Source(source, id) => {
                    hash(tree, algorithm, session, |offset, buffer| source.read_at(*id, offset, buffer))
                }
                BytesFrom::Path(path) => hash_file(path, tree, algorithm, session),
            };
            let digest = digest.map_err(|error| error.file(&task.name))?;
            if let (BytesFrom::Source(source, id), FileDigest::Sha256(found)) = (&task.from, &digest)
                && let Some(stated) = source.stated_sha256(*id).filter(|stated| stated != found)
            {
                return Err(Error::malformed(
                    "the SHA-256 of the file differs from the one that its store reports",
                )
                .file(&task.name)
                .expected(stated)
                .found(found));
            }
            Ok((task.place, FileRecord { name: task.name, bytes: task.bytes, digest }))
        };
        let mut records = self.files.into_par_iter().with_max_len(1).map(hash).collect::<Result<Vec<_>>>()?;
        records.sort_by_key(|(place, _)| *place);
        Ok(records.into_iter().map(|(_, record)| record).collect())
    }
}

/// Computes the digest of the first `len` bytes of a file.
pub(crate) fn hash_path(
    path: &Path,
    len: u64,
    algorithm: Algorithm,
    session: &Session,
) -> Result<FileDigest> {
    hash_file(path, &HashTree::new(len), algorithm, session)
}

fn hash_file(path: &Path, tree: &HashTree, algorithm: Algorithm, session: &Session) -> Result<FileDigest> {
    let file = regular_file::open(path)?;
    let read = |offset, buffer: &mut [u8]| file.read_exact_at(buffer, offset).map_err(Error::from);
    hash(tree, algorithm, session, read)
}

/// Completes a hash tree, some of whose bytes may already be hashed, and returns its digest.
fn hash(
    tree: &HashTree,
    algorithm: Algorithm,
    session: &Session,
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
) -> Result<FileDigest> {
    let read = |offset, buffer: &mut [u8]| read(offset, buffer).map_err(|error| error.offset(offset));
    if algorithm == Algorithm::Blake3 {
        return Ok(FileDigest::Blake3(hex(&tree.finish(session, read)?)));
    }
    let mut buffer = vec![0; size(tree.bytes()).min(WINDOW_BYTES)];
    let mut hasher = Sha256::new();
    session.will_check(tree.bytes());
    for (offset, len) in windows(0..tree.bytes()) {
        session.check_cancelled()?;
        session.checked(len as u64);
        let part = &mut buffer[..len];
        read(offset, part)?;
        hasher.update(part);
    }
    Ok(FileDigest::Sha256(hex(&hasher.finalize())))
}
