//! The account of shared bytes: what all tensors of a catalog have beyond the bytes that are there for them, where several
//! name the same ones. Naming bytes again costs a file nothing.

use crate::{Error, FileId, Limits, Place, Result, Storage, StorageId};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes that may be shared for each byte of the files.
const TIMES: u64 = 4;
/// The same of files together, which may have holes.
const MOST: u64 = 60 << 30;
/// Names that one whole tensor may have for nothing, where its bytes are stored as they are: ALBERT has 12 for a layer.
const FREE_NAMES: u32 = 16;

/// What was named so far.
pub(crate) struct Sharing {
    allowed: u64,
    shared: u64,
    files: HashMap<FileId, Account>,
    storages: HashMap<StorageId, Named>,
    /// Which storages a tile is, a bit for each: there may be millions.
    tiles: Vec<u64>,
}

/// Bytes that are there, and bytes that were asked of them.
#[derive(Default)]
struct Account {
    own: u64,
    asked: u64,
}

impl Account {
    /// Asks for more bytes; how many of them are shared.
    fn ask(&mut self, bytes: u64) -> u64 {
        let beyond = |asked: u64| asked.saturating_sub(self.own);
        let asked = self.asked.saturating_add(bytes);
        let more = beyond(asked) - beyond(self.asked);
        self.asked = asked;
        more
    }
}

/// A storage and the tensor that named it first.
struct Named {
    account: Account,
    first: Range<u64>,
    names: u32,
}

impl Sharing {
    /// For a reader's catalog; `None` for one that steps make of it.
    pub(crate) fn new(limits: Option<&Limits>) -> Self {
        Self {
            allowed: limits.map_or(u64::MAX, |limits| limits.shared_bytes),
            shared: 0,
            files: HashMap::new(),
            storages: HashMap::new(),
            tiles: Vec::new(),
        }
    }

    /// Counts a storage in a file of `len` bytes.
    pub(crate) fn storage(&mut self, file: FileId, len: u64, bytes: u64) -> Result<()> {
        let account = self.files.entry(file).or_insert_with(|| Account { own: len, asked: 0 });
        let is_first = account.asked == 0;
        let more = account.ask(bytes);
        if is_first && self.allowed < MOST {
            let all = self.files.values().map(|file| file.own).fold(0, u64::saturating_add);
            self.allowed = self.allowed.max(all.saturating_mul(TIMES).min(MOST));
        }
        self.add(more)
    }

    /// Counts `bytes` of a tensor, or of a joined storage, that lie in `extent` of a storage.
    pub(crate) fn name(
        &mut self,
        id: StorageId,
        storage: &Storage,
        extent: Range<u64>,
        bytes: u64,
    ) -> Result<()> {
        let named = self.storages.entry(id).or_insert_with(|| Named {
            account: Account { own: storage.len, asked: 0 },
            first: extent.clone(),
            names: 0,
        });
        let is_stored = !matches!(storage.place, Place::Encoded { .. });
        if is_stored && named.first == extent && bytes <= extent.end - extent.start {
            named.names += 1;
            if (2..=FREE_NAMES).contains(&named.names) {
                return Ok(());
            }
        }
        let more = named.account.ask(bytes);
        self.add(more)
    }

    /// Counts a tile, which is all of its storage.
    pub(crate) fn tile(&mut self, storage: StorageId, bytes: u64) -> Result<()> {
        let (word, bit) = (storage.0 as usize / 64, 1 << (storage.0 % 64));
        if self.tiles.len() <= word {
            self.tiles.resize(word + 1, 0);
        }
        let more = if self.tiles[word] & bit == 0 { 0 } else { bytes };
        self.tiles[word] |= bit;
        self.add(more)
    }

    fn add(&mut self, more: u64) -> Result<()> {
        self.shared = self.shared.saturating_add(more);
        if self.shared <= self.allowed {
            return Ok(());
        }
        Err(Error::limit("tensors share stored bytes too often")
            .expected(format!(
                "at most {} bytes more than are stored, or --bound expanded_bytes=N",
                self.allowed
            ))
            .found(self.shared))
    }
}
