//! Counts shared bytes: if several tensors of a catalog refer to the same stored bytes, these are
//! the bytes by which the tensors exceed the stored bytes. A small hostile file could otherwise
//! claim any number of such references.

use crate::{Error, FileId, Limits, Result, Storage, StorageId, StorageLocation};
use std::collections::HashMap;
use std::ops::Range;

/// Shared bytes that are allowed for each byte of the files.
const SHARED_BYTES_PER_BYTE: u64 = 4;
/// Maximum shared bytes allowed because of file sizes, since files may be sparse.
const MAX_SHARED_BYTES: u64 = 60 << 30;
/// Maximum tensors that may refer to the same whole stored bytes without being counted. ALBERT has
/// 12, one per layer.
const MAX_FREE_REFERENCES: u32 = 16;

pub(crate) struct SharedBytesAccount {
    allowed: u64,
    shared: u64,
    files: HashMap<FileId, Account>,
    storages: HashMap<StorageId, StorageUse>,
    /// Bit set of the storages that are tiles. There may be millions of tiles.
    tiles: Vec<u64>,
}

/// Stored bytes, and the bytes that tensors request from them.
#[derive(Default)]
struct Account {
    own: u64,
    requested: u64,
}

impl Account {
    /// Requests more bytes, and returns how many of them are shared.
    fn request(&mut self, bytes: u64) -> u64 {
        let beyond = |requested: u64| requested.saturating_sub(self.own);
        let requested = self.requested.saturating_add(bytes);
        let more = beyond(requested) - beyond(self.requested);
        self.requested = requested;
        more
    }
}

/// A storage, and the extent of it that a tensor used first.
struct StorageUse {
    account: Account,
    first: Range<u64>,
    names: u32,
}

impl SharedBytesAccount {
    /// Starts an account for the catalog of a reader. `limits` is `None` for a catalog that steps
    /// create.
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
        let account = self.files.entry(file).or_insert_with(|| Account { own: len, requested: 0 });
        let is_first = account.requested == 0;
        let more = account.request(bytes);
        if is_first && self.allowed < MAX_SHARED_BYTES {
            let all = self.files.values().map(|file| file.own).fold(0, u64::saturating_add);
            self.allowed = self.allowed.max(all.saturating_mul(SHARED_BYTES_PER_BYTE).min(MAX_SHARED_BYTES));
        }
        self.add(more)
    }

    /// Counts `bytes` of a tensor, or of a joined storage, in `extent` of a storage.
    pub(crate) fn name(
        &mut self,
        id: StorageId,
        storage: &Storage,
        extent: Range<u64>,
        bytes: u64,
    ) -> Result<()> {
        let named = self.storages.entry(id).or_insert_with(|| StorageUse {
            account: Account { own: storage.len, requested: 0 },
            first: extent.clone(),
            names: 0,
        });
        let is_stored = !matches!(storage.location, StorageLocation::Encoded { .. });
        if is_stored && named.first == extent && bytes <= extent.end - extent.start {
            named.names += 1;
            if (2..=MAX_FREE_REFERENCES).contains(&named.names) {
                return Ok(());
            }
        }
        let more = named.account.request(bytes);
        self.add(more)
    }

    /// Counts a tile, which covers all of its storage.
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
            .expected(format!("at most {} bytes more than are stored", self.allowed))
            .hint("if you trust the file, raise the limit with --limit expanded_bytes=N")
            .found(self.shared))
    }
}
