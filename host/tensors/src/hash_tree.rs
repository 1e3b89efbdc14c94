//! A hash tree computes the BLAKE3 hash of a long byte sequence from its pieces, which may arrive
//! in any order.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB. The value of a subtree depends on its bytes and
//! their position, and the values of two siblings determine the value of their parent. The values
//! of adjacent pieces can therefore be merged. Bytes that are not in any piece are read at the end.
//! The smallest subtree here is 16 KiB, or 16 chunks, because processors can hash 16 chunks in
//! parallel.

use crate::content::ContentDigest;
use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, max_subtree_len, merge_subtrees_non_root,
    merge_subtrees_root,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, size};
use tensorferry_sdk::{Context, Result};

const BLOCK: u64 = 16 << 10;

/// Minimum length of a piece, in bytes. For a shorter piece, too large a share of the hashed bytes
/// would have to be read additionally.
const MIN_PIECE: usize = 64 << 10;

/// The subtrees with known hash values in a byte sequence.
pub struct HashTree {
    len: u64,
    /// Lengths and hash values of the known subtrees, by start offset.
    known: Mutex<Subtrees>,
}

type Subtrees = BTreeMap<u64, (u64, ChainingValue)>;

impl HashTree {
    pub fn new(len: u64) -> Self {
        Self { len, known: Mutex::default() }
    }

    /// Returns the total number of bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Adds all blocks that begin in a piece. The end of the last block may be outside the piece
    /// and is read with `read`. Each block is added with the piece that contains its first byte, so
    /// that consecutive pieces together add every block.
    pub fn add_piece(
        &self,
        at: u64,
        bytes: &[u8],
        read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if bytes.len() < MIN_PIECE {
            return Ok(());
        }
        self.add(at, bytes);
        let end = at + bytes.len() as u64;
        let last = end / BLOCK * BLOCK;
        if last < end && last + BLOCK <= self.len {
            let mut block = vec![0; size(BLOCK)];
            let (has, lacks) = block.split_at_mut(size(end - last));
            has.copy_from_slice(&bytes[bytes.len() - has.len()..]);
            read(end, lacks)?;
            self.add(last, &block);
        }
        Ok(())
    }

    /// Adds the blocks that are completely inside a piece.
    pub fn add(&self, at: u64, bytes: &[u8]) {
        let end = (at + bytes.len() as u64) / BLOCK * BLOCK;
        let mut next = at.next_multiple_of(BLOCK);
        while next < end {
            let mut len = 1 << (end - next).ilog2();
            len = max_subtree_len(next).map_or(len, |max| len.min(max));
            if len == self.len {
                // The hash value of the root can only be computed from the root's two halves,
                // unlike the value of a subtree.
                len /= 2;
            }
            if len < BLOCK {
                return;
            }
            let from = size(next - at);
            let value = value(next, &bytes[from..from + size(len)]);
            self.join(next, len, value);
            next += len;
        }
    }

    /// Adds a subtree, and every ancestor for which both halves are then known.
    fn join(&self, mut start: u64, mut len: u64, mut value: ChainingValue) {
        let mut known = self.known();
        let before = known.range(..start + len).next_back();
        if before.is_some_and(|(before, (len, _))| before + len > start) {
            // Other pieces have already added some of these bytes. Any other bytes of this subtree
            // are read at the end.
            return;
        }
        while len * 2 < self.len {
            let is_left = start.is_multiple_of(len * 2);
            let sibling = if is_left { start + len } else { start - len };
            let Some((_, other)) = known.get(&sibling).copied().filter(|(other, _)| *other == len) else {
                break;
            };
            known.remove(&sibling);
            let (left, right) = if is_left { (value, other) } else { (other, value) };
            (start, value) = (start.min(sibling), merge_subtrees_non_root(&left, &right, Mode::Hash));
            len *= 2;
        }
        known.insert(start, (len, value));
    }

    fn known(&self) -> MutexGuard<'_, Subtrees> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hash of all bytes. Missing bytes are read in parallel, and are counted as
    /// checked bytes in the session's progress.
    pub fn finish(
        &self,
        session: &Session,
        read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<ContentDigest> {
        let known = &std::mem::take(&mut *self.known());
        session.will_check(self.len - known.values().map(|(len, _)| len).sum::<u64>());
        let rest = RemainingReads { known, session, read, buffers: Mutex::default() };
        if self.len <= BLOCK {
            return rest.with(0..self.len, |bytes| *blake3::hash(bytes).as_bytes());
        }
        let (left, right) = rest.halves(0..self.len)?;
        Ok(merge_subtrees_root(&left, &right, Mode::Hash).into())
    }
}

fn value(start: u64, bytes: &[u8]) -> ChainingValue {
    Hasher::new().set_input_offset(start).update(bytes).finalize_non_root()
}

/// The subtrees that are known after all pieces, and the function that reads the remaining bytes.
struct RemainingReads<'a, R> {
    known: &'a Subtrees,
    session: &'a Session,
    read: R,
    /// Read buffers, one for each thread that has read bytes.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl<R: Fn(u64, &mut [u8]) -> Result<()> + Sync> RemainingReads<'_, R> {
    /// Returns the hash value of the subtree for a range that begins at a block.
    fn subtree(&self, range: Range<u64>) -> Result<ChainingValue> {
        let len = range.end - range.start;
        let first = self.known.range(range.clone()).next();
        match first {
            Some((&start, (known, value))) if start == range.start && *known == len => return Ok(*value),
            None if len <= WINDOW_BYTES as u64 => {
                return self.with(range.clone(), |bytes| value(range.start, bytes));
            }
            _ => {}
        }
        let (left, right) = self.halves(range)?;
        Ok(merge_subtrees_non_root(&left, &right, Mode::Hash))
    }

    fn halves(&self, range: Range<u64>) -> Result<(ChainingValue, ChainingValue)> {
        let middle = range.start + left_subtree_len(range.end - range.start);
        let (left, right) =
            rayon::join(|| self.subtree(range.start..middle), || self.subtree(middle..range.end));
        Ok((left?, right?))
    }

    fn with<T>(&self, range: Range<u64>, hash: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.session.check_cancelled()?;
        let len = size(range.end - range.start);
        let buffers = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = buffers().pop().unwrap_or_default();
        buffer.resize(len.max(buffer.len()), 0);
        (self.read)(range.start, &mut buffer[..len])?;
        let hashed = hash(&buffer[..len]);
        self.session.checked(len as u64);
        buffers().push(buffer);
        Ok(hashed)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn bytes(len: usize) -> Vec<u8> {
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_be_bytes()[0])
        };
        (0..len).scan(7, |state, _| next(state)).collect()
    }

    /// Returns the hash, and the number of bytes that were read to compute it.
    fn finish(tree: &HashTree, bytes: &[u8]) -> (ContentDigest, u64) {
        let read = AtomicU64::new(0);
        let session = Session::new(1, 1 << 20);
        let digest = tree.finish(&session, |at, buffer| {
            read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            buffer.copy_from_slice(&bytes[size(at)..size(at) + buffer.len()]);
            Ok(())
        });
        let read = read.into_inner();
        assert_eq!(session.checks(), (read, read));
        (digest.unwrap(), read)
    }

    fn add_piece(tree: &HashTree, bytes: &[u8], range: Range<usize>) {
        let read = |at, rest: &mut [u8]| {
            rest.copy_from_slice(&bytes[size(at)..size(at) + rest.len()]);
            Ok(())
        };
        tree.add_piece(range.start as u64, &bytes[range], read).unwrap();
    }

    #[test]
    fn bytes_that_no_piece_had_are_read() {
        let block = size(BLOCK);
        let lens = [0, 1, block - 1, block, block + 1, 2 * block, 3 * block, WINDOW_BYTES, WINDOW_BYTES + 1];
        for len in lens.into_iter().chain([5 * WINDOW_BYTES - 7]) {
            let bytes = bytes(len);
            let hash = *blake3::hash(&bytes).as_bytes();
            assert_eq!(finish(&HashTree::new(len as u64), &bytes), (hash, len as u64), "{len}");
            let whole = HashTree::new(len as u64);
            whole.add(0, &bytes);
            let (found, read) = finish(&whole, &bytes);
            assert_eq!(found, hash, "{len}");
            assert!(read <= BLOCK, "{len}: {read}");
        }
    }

    #[test]
    fn of_pieces_that_follow_each_other_one_value_is_held_for_each_power_of_two() {
        let bytes = bytes(9 * WINDOW_BYTES + 12345);
        let tree = HashTree::new(bytes.len() as u64);
        let mut at = 77;
        while at < bytes.len() {
            let end = bytes.len().min(at + WINDOW_BYTES);
            add_piece(&tree, &bytes, at..end);
            at = end;
        }
        assert!(tree.known().len() <= 20, "{}", tree.known().len());
        let (found, read) = finish(&tree, &bytes);
        assert_eq!(found, *blake3::hash(&bytes).as_bytes());
        // Only two blocks are read: the block before the first whole block of the pieces, and the
        // last block.
        assert!(read <= 2 * BLOCK, "{read}");
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let tree = HashTree::new(3 * WINDOW_BYTES as u64);
        tree.add(0, &bytes(WINDOW_BYTES));
        let session = Session::new(1, 1 << 20);
        let failing = |_, _: &mut [u8]| Err(tensorferry_sdk::Error::io("no"));
        assert!(tree.finish(&session, failing).is_err());
        session.cancel();
        assert!(tree.finish(&session, |_, _| Ok(())).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_come_in_any_order_twice_or_not_at_all(
            len in 0..3 * WINDOW_BYTES,
            pieces in prop::collection::vec((any::<prop::sample::Index>(), 0..WINDOW_BYTES, any::<bool>()), 0..12),
        ) {
            let bytes = bytes(len);
            let tree = HashTree::new(len as u64);
            for (at, piece, reads) in pieces {
                let at = at.index(len + 1);
                let range = at..len.min(at + piece);
                if reads {
                    add_piece(&tree, &bytes, range);
                } else {
                    tree.add(at as u64, &bytes[range]);
                }
            }
            prop_assert_eq!(finish(&tree, &bytes).0, *blake3::hash(&bytes).as_bytes());
        }
    }
}
