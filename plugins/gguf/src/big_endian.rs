//! Quantized blocks in big-endian files. Only the two-byte scales of each block are byte-swapped,
//! so a block cannot be byte-swapped as an array of equal units.
//!
//! Only the types that llama.cpp's `gguf_convert_endian.py` writes are supported. The layout of
//! other types is undefined.

use tensorferry_sdk::{ByteSink, Context, EncodedStorage, FileId, Result, Source};

/// Maximum number of bytes per read.
const PIECE: usize = 1 << 20;

/// The quantized blocks of one tensor.
pub(crate) struct BigEndianBlocks {
    pub(crate) file: FileId,
    /// File offset of the tensor's first block.
    pub(crate) offset: u64,
    /// Length of all blocks in bytes.
    pub(crate) bytes: u64,
    /// Length of one block in bytes.
    pub(crate) block: u32,
    /// Offsets of the two-byte scales in each block.
    pub(crate) scales: &'static [usize],
}

/// Returns the offsets of the two-byte scales in a block of this type, or `None` if the type is not
/// supported in big-endian files.
pub(crate) fn scales(name: &str) -> Option<&'static [usize]> {
    match name {
        "MXFP4" | "NVFP4" => Some(&[]),
        "Q4_0" | "Q8_0" => Some(&[0]),
        "Q4_K" => Some(&[0, 2]),
        "Q6_K" => Some(&[208]),
        _ => None,
    }
}

impl EncodedStorage for BigEndianBlocks {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let block = self.block as usize;
        let mut buffer = vec![0; PIECE / block * block];
        let (mut at, end) = (self.offset, self.offset + self.bytes);
        while at < end {
            context.check_cancelled()?;
            let len = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            let piece = &mut buffer[..len];
            source.read_at(self.file, at, piece)?;
            for block in piece.chunks_exact_mut(block) {
                self.scales.iter().for_each(|&scale| block.swap(scale, scale + 1));
            }
            output.write(piece)?;
            at += len as u64;
        }
        Ok(())
    }
}
