//! Mutations for fuzzing without libFuzzer on the stable toolchain. A mutation is a small
//! corruption of a kind that often breaks parsers.

use std::path::Path;
use tensorferry_test_kit::random::Random;

/// Numbers at the limits of lengths and offsets.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fff8,
    u64::MAX,
];

/// Flips a bit of the byte at the offset that `at` returns for a file's content.
pub(crate) fn flip(path: &Path, at: impl FnOnce(&[u8]) -> usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(&bytes);
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Flips a bit in the middle of a file.
pub fn flip_middle(path: &Path) {
    flip(path, |bytes| bytes.len() / 2);
}

/// Applies one to eight random mutations to `bytes`. Some of them insert pieces of `other`.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            bytes.extend(other);
            return;
        }
        let at = random.below(bytes.len());
        let len = 1 + random.below(64.min(bytes.len() - at));
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.word().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + len)),
            4 => {
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = (1 << random.below(4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            6 if !other.is_empty() => {
                let from = random.below(other.len());
                let piece = &other[from..other.len().min(from + len)];
                bytes.splice(at..at, piece.iter().copied());
            }
            _ => digit(random, bytes, at),
        }
    }
}

/// Changes the next decimal digit at or after `from`, for example in JSON and in text pickles.
fn digit(random: &mut Random, bytes: &mut [u8], from: usize) {
    if let Some(digit) = bytes[from..].iter_mut().find(|byte| byte.is_ascii_digit()) {
        *digit = b'0' + random.word().to_le_bytes()[0] % 10;
    }
}
