//! Counts shared bytes, which exist if several tensors of a catalog refer to the same stored bytes.
//! The number of shared bytes is the difference between the bytes of the tensors and the stored
//! bytes. Without a limit, a small hostile file could contain any number of such references.

use crate::{Error, FileId, Limits, Result, Storage, StorageId, StorageLocation};
use std::collections::HashMap;
use std::ops::Range;

/// Number of shared bytes that are allowed for each byte of the files.
const SHARED_BYTES_PER_BYTE: u64 = 4;
/// Maximum number of shared bytes that the sizes of the files can allow. Without this maximum,
/// sparse files could allow any number.
const MAX_SHARED_BYTES: u64 = 60 << 30;
/// Maximum number of tensors that may refer to the same complete extent without being counted.
/// ALBERT has 12 such tensors, one per layer.
const MAX_FREE_REFERENCES: u32 = 16;

pub(crate) struct SharedBytesAccount {
    allowed: u64,
    shared: u64,
    files: HashMap<FileId, Account>,
    storages: HashMap<StorageId, StorageUse>,
    /// Bit set of the storages that are used as tiles. There may be millions of tiles.
    tiles: Vec<u64>,
}

/// The number of stored bytes, and the number of bytes that tensors request from them.
#[derive(Default)]
struct Account {
    own: u64,
    requested: u64,
}

impl Account {
    /// Adds requested bytes, and returns how many of them are shared.
    fn request(&mut self, bytes: u64) -> u64 {
        let beyond = |requested: u64| requested.saturating_sub(self.own);
        let requested = self.requested.saturating_add(bytes);
        let more = beyond(requested) - beyond(self.requested);
        self.requested = requested;
        more
    }
}

/// The use of a storage. `first` is the extent that the first tensor used.
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

    /// Counts a storage of `bytes` bytes in a file of `len` bytes.
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

    /// Counts `bytes` of a tensor or a joined storage that are in `extent` of a storage.
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

    /// Counts a tile that covers its whole storage.
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
