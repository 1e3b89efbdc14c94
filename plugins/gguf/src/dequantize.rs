//! Dequantization. The values of quantized blocks are computed piece by piece during the copy.
//!
//! | File | Contents |
//! |---|---|
//! | `legacy.rs` | types with blocks of 32 values, and 1- and 2-bit types: `Q4_0` to `Q8_0`, `Q1_0`, `Q2_0` |
//! | `k.rs` | the K types: blocks of 256 values with per-group scales |
//! | `tiny.rs` | ternary values and 4-bit floats |
//! | `iq.rs` | the IQ types, which look values up in a grid |
//! | `grid.rs` | the grids |
//!
//! Values are computed in F32, and are bit-identical to those of gguf-py. To match the rounding of
//! gguf-py, products are evaluated from left to right. Conversion to F16 or BF16 adds one rounding.
//! All formulas are from `gguf-py/gguf/quants.py` and `ggml-quants.c` in `ggml-org/llama.cpp`.

mod grid;
mod iq;
mod k;
mod legacy;
mod tiny;

use crate::types::BlockType;
use half::f16;
use half::slice::HalfFloatSliceExt;
use tensorferry_sdk::{
    ByteSink, CatalogSink, Context, Dtype, EncodedStorage, Error, FileId, Result, Source, Storage, StorageId,
    StorageRange,
};

/// Target dtype of dequantization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    F32,
    F16,
    Bf16,
}

/// Number of values that are decoded per step, which is the length of four of the longest blocks.
/// The L1 cache can hold this many F32 values.
const VALUES_PER_STEP: usize = 1024;
/// Maximum number of pieces per tensor, unless the maximum piece length below requires more. The
/// host copies a short piece in one step, and frees a piece of up to 4 MiB as soon as the piece is
/// used.
const MAX_PIECES: u64 = 256;
const MIN_PIECE_BYTES: u64 = 256 << 10;
const MAX_PIECE_BYTES: u64 = 4 << 20;

/// A function that decodes whole blocks into values.
type Decode = fn(&[u8], &mut [f32]);

/// Returns the decoder of a block type.
fn decode_of(name: &str) -> Option<Decode> {
    Some(match name {
        "Q4_0" => legacy::q4_0,
        "Q4_1" => legacy::q4_1,
        "Q5_0" => legacy::q5_0,
        "Q5_1" => legacy::q5_1,
        "Q8_0" => legacy::q8_0,
        "Q1_0" => legacy::q1_0,
        "Q2_0" => legacy::q2_0,
        "Q2_K" => k::q2,
        "Q3_K" => k::q3,
        "Q4_K" => k::q4,
        "Q5_K" => k::q5,
        "Q6_K" => k::q6,
        "Q8_K" => k::q8,
        "TQ1_0" => tiny::tq1_0,
        "TQ2_0" => tiny::tq2_0,
        "MXFP4" => tiny::mxfp4,
        "NVFP4" => tiny::nvfp4,
        "IQ1_S" => iq::iq1_s,
        "IQ1_M" => iq::iq1_m,
        "IQ2_XXS" => iq::iq2_xxs,
        "IQ2_XS" => iq::iq2_xs,
        "IQ2_S" => iq::iq2_s,
        "IQ3_XXS" => iq::iq3_xxs,
        "IQ3_S" => iq::iq3_s,
        "IQ4_NL" => iq::iq4_nl,
        "IQ4_XS" => iq::iq4_xs,
        _ => return None,
    })
}

/// Consecutive blocks of a tensor, which are decoded when their values are needed.
pub(crate) struct DequantizedBlocks {
    file: FileId,
    /// File offset of the first block.
    offset: u64,
    /// Number of blocks.
    count: u64,
    blocks: &'static BlockType,
    decode: Decode,
    /// Offsets of the scales to byte-swap in each block. Empty unless the file is big-endian.
    scales: &'static [usize],
    to: Float,
}

/// Location of a tensor's blocks.
pub(crate) struct BlockExtent {
    pub(crate) file: FileId,
    /// File offset of the first block.
    pub(crate) offset: u64,
    /// Length of all blocks in bytes.
    pub(crate) bytes: u64,
    pub(crate) blocks: &'static BlockType,
    /// Offsets of the scales to byte-swap in each block. Empty unless the file is big-endian.
    pub(crate) scales: &'static [usize],
}

/// Declares the values of a tensor as one storage, which is joined from separately decoded pieces.
/// `add` stores the decoder of a piece and returns its handle.
pub(crate) fn declare(
    at: &BlockExtent,
    to: Float,
    catalog: &mut dyn CatalogSink,
    add: &mut dyn FnMut(DequantizedBlocks) -> u64,
) -> Result<StorageId> {
    let blocks = at.blocks;
    let decode = decode_of(blocks.name)
        .ok_or_else(|| Error::unsupported("cannot dequantize blocks of this type").found(blocks.name))?;
    let (elements, block_bytes) = (u64::from(blocks.elements), u64::from(blocks.bytes));
    let made = elements * to.bytes();
    let mut left = at.bytes / block_bytes;
    let piece = (left.saturating_mul(made) / MAX_PIECES).clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES) / made;
    let (mut offset, mut ranges) = (at.offset, Vec::new());
    while left > 0 {
        let count = piece.min(left);
        let BlockExtent { file, blocks, scales, .. } = *at;
        let handle = add(DequantizedBlocks { file, offset, count, blocks, decode, scales, to });
        let storage = catalog.storage(Storage::encoded(handle, count * made))?;
        ranges.push(StorageRange { storage, offset: 0, len: count * made });
        offset += count * block_bytes;
        left -= count;
    }
    catalog.storage(Storage::joined(ranges))
}

impl EncodedStorage for DequantizedBlocks {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        context.check_cancelled()?;
        let (elements, bytes) = (self.blocks.elements as usize, self.blocks.bytes as usize);
        let blocks_at_once = VALUES_PER_STEP / elements;
        // A piece takes at most a few MiB, so read the whole piece into memory.
        let len = usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(bytes);
        let mut stored = vec![0; len];
        source.read_at(self.file, self.offset, &mut stored)?;
        if !self.scales.is_empty() {
            for block in stored.chunks_exact_mut(bytes) {
                self.scales.iter().for_each(|&scale| block.swap(scale, scale + 1));
            }
        }
        let mut values = [0_f32; VALUES_PER_STEP];
        let mut made = Vec::with_capacity(16 * 4 * VALUES_PER_STEP);
        for (number, blocks) in stored.chunks(bytes * blocks_at_once).enumerate() {
            let values = &mut values[..blocks.len() / bytes * elements];
            (self.decode)(blocks, values);
            if !self.to.store(values, &mut made) {
                return Err(Error::unsupported("a dequantized value is too large for F16")
                    .offset(self.offset + (number * blocks_at_once * bytes) as u64)
                    .expected("at most 65504")
                    .hint("dequantize to BF16 or F32"));
            }
            if made.len() + 4 * VALUES_PER_STEP > made.capacity() {
                output.write(&made)?;
                made.clear();
            }
        }
        output.write(&made)
    }
}

impl Float {
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    /// Returns the `general.file_type` of a model with this dtype, from `llama_ftype` in `llama.h`.
    pub(crate) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Bf16 => 32,
        }
    }

    fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// Appends values in this dtype. Returns `false` if a value is too large for the dtype.
    fn store(self, values: &[f32], bytes: &mut Vec<u8>) -> bool {
        /// Smallest magnitude that rounds to infinity in F16.
        const BEYOND_F16: u32 = 65520_f32.to_bits();
        const INFINITE: u32 = f32::INFINITY.to_bits();
        let start = bytes.len();
        bytes.resize(start + values.len() * if self == Self::F32 { 4 } else { 2 }, 0);
        let bytes = &mut bytes[start..];
        match self {
            Self::F32 => {
                for (bytes, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *bytes = value.to_le_bytes();
                }
            }
            Self::Bf16 => {
                for (bytes, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    let bits = value.to_bits();
                    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
                    let is_nan = bits & 0x7fff_ffff > INFINITE;
                    let [_, _, upper @ ..] = if is_nan { bits | 0x0040_0000 } else { rounded }.to_le_bytes();
                    *bytes = upper;
                }
            }
            Self::F16 => {
                let is_beyond = |value: &f32| {
                    (value.to_bits() & 0x7fff_ffff).wrapping_sub(BEYOND_F16) < INFINITE - BEYOND_F16
                };
                if values.iter().fold(false, |any, value| any | is_beyond(value)) {
                    return false;
                }
                let mut halves = [f16::ZERO; VALUES_PER_STEP];
                let halves = &mut halves[..values.len()];
                halves.convert_from_f32_slice(values);
                for (bytes, half) in bytes.as_chunks_mut().0.iter_mut().zip(halves) {
                    *bytes = half.to_le_bytes();
                }
            }
        }
        true
    }
}

/// Calls `decode` for each block.
#[inline(always)]
fn each<const BYTES: usize, const ELEMENTS: usize>(
    blocks: &[u8],
    values: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    for (block, values) in blocks.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
        decode(block, values);
    }
}

/// Reads the F16 number at an offset in a block, and returns it as F32.
#[inline(always)]
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn low(byte: u8) -> u8 {
    byte & 15
}

fn word(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn double_word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
